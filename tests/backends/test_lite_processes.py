"""Several processes on one file: what one does, the others notice, and none can hurt them by dying."""

import asyncio
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.backends.lite.broker import LiteBroker

from tests.backends.conftest import Open
from tests.support.hand import Hand, ids, new, news, run_all
from tests.support.jobs import turn
from tests.support.waiting import stays_true, wait_until

SOON = 2.0
"""Seconds, on a busy machine, in which a commit is noticed; others look every 25 ms."""


async def test_who_waits_for_work_starts_at_once_when_it_comes_from_the_same_process(
    broker: LiteBroker,
) -> None:
    waiting = asyncio.ensure_future(broker.wait_for_work(["default", "low"], timeout=10))
    await turn()
    await broker.enqueue([new()])
    began = time.monotonic()
    assert await waiting
    assert time.monotonic() - began < SOON


async def test_who_waits_for_work_is_woken_from_another_process(opened: Open) -> None:
    here, there = opened(), opened()
    for _ in range(5):
        waiting = asyncio.ensure_future(here.wait_for_work(["default"], timeout=10))
        await turn()
        await there.enqueue([new()])
        began = time.monotonic()
        assert await waiting
        assert time.monotonic() - began < SOON
        await run_all(here)


async def test_nobody_is_woken_for_another_queue_or_a_paused_one(opened: Open) -> None:
    here, there = opened(), opened()
    await here.pause("low")
    waiting = asyncio.ensure_future(here.wait_for_work(["low", "sync"], timeout=10))
    for broker in (here, there):
        await broker.enqueue([new(), new(queue="low")])
    await stays_true(lambda: not waiting.done(), describe="it waits on", during=0.1)
    await there.resume("low")
    assert await waiting


async def test_waiting_ends_in_time_and_does_not_begin_where_work_is_there(broker: LiteBroker) -> None:
    assert not await broker.wait_for_work(["default"], timeout=0.02)
    await broker.enqueue([new()])
    assert await broker.wait_for_work(["default"], timeout=0)


Steer = Callable[[LiteBroker], object]


@pytest.mark.parametrize(
    "steer",
    [
        lambda broker: broker.pause("low"),
        lambda broker: broker.resume("low"),
        lambda broker: broker.cancel_scope(Scope("tenant", "7"), EVERYTHING),
    ],
    ids=["pause", "resume", "cancel"],
)
async def test_steering_is_signalled_everywhere(opened: Open, steer: Steer) -> None:
    here, there = opened(), opened()
    await here.enqueue([new(scopes=(Scope("tenant", "7"),))])
    heard: list[str] = []
    silence = here.on_signal(lambda: heard.append("here"))
    there.on_signal(lambda: heard.append("there"))
    await steer(here)  # type: ignore[misc]
    await wait_until(lambda: {"here", "there"} <= set(heard), describe="both processes hear of it")
    silence()
    heard.clear()
    await steer(there)  # type: ignore[misc]
    await wait_until(lambda: "there" in heard, describe="the one that still listens hears of it")
    assert "here" not in heard


async def test_an_earlier_due_time_is_announced_everywhere_and_a_later_one_is_not(opened: Open) -> None:
    here, there = opened(), opened()
    heard: list[str] = []
    await here.enqueue([new(delay_ms=50_000)])
    for broker, name in ((here, "here"), (there, "there")):
        broker.on_due(partial(heard.append, name))
        await broker.promote()
    await there.enqueue([new(delay_ms=60_000)])
    await stays_true(lambda: not heard, describe="a later due time changes nothing", during=0.1)
    await there.enqueue([new(delay_ms=40_000)])
    await wait_until(lambda: set(heard) == {"here", "there"}, describe="both hear of the earlier one")


def process(path: Path, code: str) -> subprocess.Popen[bytes]:
    """Another process: `code` runs as a coroutine with `broker`, a broker on the file."""
    body = "\n".join(f"    {line}" for line in code.strip().splitlines())
    program = f"""
import asyncio, sys
from functools import partial
from pathlib import Path
from contracts.states import JobState
from pipeline.backends.lite.broker import LiteBroker
from pipeline.broker import Settlement
from tests.support.hand import Hand, new, news

async def main():
    broker = LiteBroker.open(Path({str(path)!r}), busy_s=30)
{body}

asyncio.run(main())
"""
    root = Path(__file__).parents[2]
    return subprocess.Popen([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE)


CHURN = """
while True:
    jobs = news(20, named=True)
    await broker.enqueue(jobs)
    print(*(one.job.id for one in jobs), flush=True)
    mine = await broker.claim("churn", [("default", 10)])
    await broker.settle([Settlement(one, JobState.COMPLETED) for one in mine])
"""


async def test_a_process_killed_at_any_moment_loses_nothing_that_it_was_told_is_stored(
    opened: Open, path: Path
) -> None:
    broker = opened()
    told: list[str] = []
    for _ in range(5):
        churn = process(path, CHURN)
        assert churn.stdout is not None
        for _line in range(random.randrange(1, 12)):
            told += (await asyncio.to_thread(churn.stdout.readline)).decode().split()
        os.kill(churn.pid, signal.SIGKILL)
        rest, _ = await asyncio.to_thread(churn.communicate)
        told += rest.decode().rpartition("\n")[0].split()
    states = await broker.states(told)
    assert len(told) >= 100
    assert set(states) <= {JobState.PENDING, JobState.ACTIVE, JobState.COMPLETED}

    def integrity(snapshot: object) -> str:
        row = snapshot.connection.execute("PRAGMA integrity_check").fetchone()  # type: ignore[attr-defined]
        return str(row[0])

    assert await broker.reader.run(integrity) == "ok"


async def test_processes_share_the_work_without_a_loss_or_a_double(opened: Open, path: Path) -> None:
    broker = opened()
    jobs = news(600)
    for first in range(0, 600, 100):
        await broker.enqueue(jobs[first : first + 100])
    worker = """
hand = Hand(broker)
while taken := await hand.take(5):
    assert await broker.settle([Settlement(one, JobState.COMPLETED) for one in taken]) == [JobState.COMPLETED] * len(taken)
    print(*(one.job_id for one in taken))
await broker.close()
"""
    workers = [process(path, worker) for _ in range(3)]
    done = [await asyncio.to_thread(one.communicate) for one in workers]
    ran = [job_id for out, _ in done for job_id in out.decode().split()]
    assert sorted(ran) == sorted(ids(jobs))


async def test_waiting_costs_next_to_nothing(broker: LiteBroker) -> None:
    waiting = asyncio.ensure_future(broker.wait_for_work(["default"], timeout=math.inf))
    await turn()
    began, spent = time.monotonic(), time.process_time()
    await stays_true(lambda: not waiting.done(), describe="there is no work", during=1)
    share = (time.process_time() - spent) / (time.monotonic() - began)
    waiting.cancel()
    assert share < 0.25, "the test itself looks, too; a busy loop would take all of it"


async def test_a_lease_is_renewed_while_the_event_loop_is_blocked(broker: LiteBroker, hand: Hand) -> None:
    await broker.enqueue([new()])
    delivery = await hand.take_one()
    leases = broker.leases()
    renewed: list[object] = []
    thread = asyncio.get_running_loop().run_in_executor(
        None, lambda: renewed.extend(leases.renew([delivery]))
    )
    deadline = time.monotonic() + 5
    while not renewed and time.monotonic() < deadline:
        pass  # nothing else of this loop runs
    assert renewed == ["held"]
    await thread
