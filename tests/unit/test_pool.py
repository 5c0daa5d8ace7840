"""Slots in, deliveries out: whatever the store does meanwhile."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog
from contracts.jobs import JobPayload
from contracts.states import JobState
from pipeline.broker import Delivery
from pipeline.client import Enqueue
from pipeline.handlers import Context
from pipeline.runtime import Pipeline

from tests.support.faults import Faults, Loss
from tests.support.jobs import Chat, Work, for_ever, handles, record, working
from tests.support.lite_backend import Lite
from tests.support.waiting import stays_true, wait_until


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[Lite]:
    """A store that can lose what is asked of it."""
    lite = Lite(tmp_path)
    yield lite
    await lite.close()


@pytest.fixture
def faults(backend: Lite) -> Faults:
    return backend.faults


@pytest.fixture
async def pipeline(backend: Lite) -> AsyncIterator[Pipeline]:
    async with Pipeline.open(**backend.settings(), lease_s=2, grace_s=0.3, pool_core_concurrency=2) as found:
        yield found


class Gate:
    """A handler that lets nobody out until it is opened, and counts who is inside."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.inside = self.most = 0
        self.opened = asyncio.Event()

    async def __call__(self, _job: JobPayload, ctx: Context) -> None:
        self.started.append(ctx.id)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.opened.wait()
        finally:
            self.inside -= 1


async def active(pipeline: Pipeline) -> int:
    return sum(stat.active for stat in await pipeline.inspector.queues())


async def test_no_more_is_claimed_than_there_are_slots(pipeline: Pipeline) -> None:
    await pipeline.enqueue_many([Work(n=n) for n in range(6)])
    gate = Gate()
    async with working(pipeline, handles(gate)):
        await wait_until(lambda: gate.inside == 2, describe="both slots are taken")
        await stays_true(lambda: gate.inside == 2, describe="two run", during=0.1)
        assert await active(pipeline) == 2
        gate.opened.set()
        await wait_until(lambda: len(gate.started) == 6, describe="all run")
    assert gate.most == 2


async def test_a_slot_that_comes_free_is_one_slot(pipeline: Pipeline) -> None:
    gate, most = Gate(), 0

    async def quick(_job: JobPayload, _ctx: Context) -> None:
        nonlocal most
        most = max(most, await active(pipeline))

    await pipeline.enqueue(Work())
    async with working(pipeline, handles(gate), handles(quick, Chat)):
        await wait_until(lambda: gate.inside == 1, describe="one slot is taken")
        for receipt in await pipeline.enqueue_many([Chat(n=n) for n in range(8)]):
            await pipeline.wait(receipt.id, timeout=5)
        gate.opened.set()
    assert most == 2


async def test_a_slot_is_free_only_when_the_end_of_its_job_is_confirmed(
    pipeline: Pipeline, faults: Faults
) -> None:
    gate = Gate()
    gate.opened.set()
    first = [receipt.id for receipt in await pipeline.enqueue_many([Work(n=n) for n in range(2)])]
    async with working(pipeline, handles(gate)) as crew:
        for _ in range(200):
            faults.lose_request("settle")
        await wait_until(lambda: len(gate.started) == 2 and gate.inside == 0, describe="both have ended")
        await pipeline.enqueue(Work(n=3))
        await stays_true(lambda: crew.left == 2, describe="their slots are taken", during=0.1)
        assert sorted(gate.started) == sorted(first)
        faults._waiting["settle"].clear()
        await wait_until(lambda: len(gate.started) == 3, describe="the third runs", timeout=5)


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY])
@pytest.mark.parametrize("method", ["claim", "settle"])
async def test_whatever_is_lost_each_job_runs_once_and_no_crash_is_counted(
    pipeline: Pipeline, faults: Faults, method: str, loss: Loss
) -> None:
    gate = Gate()
    gate.opened.set()
    faults.lose(loss, method)
    receipts = await pipeline.enqueue_many([Enqueue(Work(n=n), retention=60) for n in range(5)])
    async with working(pipeline, handles(gate)):
        for receipt in receipts:
            await pipeline.wait(receipt.id, timeout=5)
    assert faults.waiting(method) == 0
    assert [(await record(pipeline, receipt.id)).job.crashes for receipt in receipts] == [0] * 5
    assert Counter(gate.started) == dict.fromkeys([receipt.id for receipt in receipts], 1)


async def test_the_jobs_of_a_lost_claim_reply_are_handed_back_when_the_worker_stops_meanwhile(
    pipeline: Pipeline, faults: Faults
) -> None:
    receipt = await pipeline.enqueue(Work())
    faults.lose_reply("claim")
    for _ in range(1000):
        faults.lose_request("held")
    async with working(pipeline, handles(Gate())):
        await wait_until(lambda: faults.waiting("held") < 1000, describe="the reply was lost", timeout=5)
        faults._waiting["held"].clear()
    found = await record(pipeline, receipt.id)
    assert (found.state, found.job.crashes) == (JobState.PENDING, 0)


async def test_the_job_of_a_handler_that_does_not_stop_is_handed_back_though_a_claim_is_unsure(
    pipeline: Pipeline, faults: Faults
) -> None:
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def deaf(_job: JobPayload, _ctx: Context) -> None:
        inside.set()
        while not go_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await go_on.wait()

    receipt = await pipeline.enqueue(Work())
    try:
        async with working(pipeline, handles(deaf)):
            await inside.wait()
            faults.lose_reply("claim")
            for _ in range(1000):
                faults.lose_request("held")
            await pipeline.enqueue(Work())
            await wait_until(lambda: faults.waiting("held") < 1000, describe="the reply was lost", timeout=5)
        found = await record(pipeline, receipt.id)
        assert (found.state, found.job.crashes) == (JobState.PENDING, 0)
    finally:
        go_on.set()


async def test_a_store_that_is_away_is_said_once_and_work_resumes_by_itself(
    pipeline: Pipeline, faults: Faults
) -> None:
    gate = Gate()
    gate.opened.set()
    with structlog.testing.capture_logs() as lines:
        async with working(pipeline, handles(gate)) as crew:
            with faults.away():
                await wait_until(lambda: crew.failing, describe="it notices")
                await stays_true(lambda: crew.failing, describe="it is not ready", during=0.3)
            receipt = await pipeline.enqueue(Work())
            await pipeline.wait(receipt.id, timeout=5)
            await wait_until(lambda: not crew.failing, describe="it is ready again")
    said = [line["event"] for line in lines if "pool core" in line["event"]]
    assert said == [
        "claiming for pool core failed; trying again until it works",
        "claiming for pool core works again",
    ]


async def test_a_flood_in_one_queue_does_not_starve_the_other(pipeline: Pipeline) -> None:
    order: list[str] = []

    async def handler(job: JobPayload, _ctx: Context) -> None:
        order.append(job.spec.queue)

    await pipeline.enqueue_many([Work(n=n) for n in range(60)])
    await pipeline.enqueue_many([Chat(n=n) for n in range(10)])
    async with working(pipeline, handles(handler), handles(handler, Chat)):
        await wait_until(lambda: len(order) == 70, describe="all have run")
    assert order[:20].count("chat_attachment") >= 9


async def test_a_paused_queue_starts_nothing_and_costs_nothing(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = 0
    claim = pipeline.broker.claim

    async def counted(consumer: str, wants: Sequence[tuple[str, int]]) -> list[Delivery]:
        nonlocal claims
        claims += 1
        return await claim(consumer, wants)

    monkeypatch.setattr(pipeline.broker, "claim", counted)
    gate = Gate()
    gate.opened.set()
    await pipeline.inspector.pause("default")
    await pipeline.enqueue(Work())
    async with working(pipeline, handles(gate), handles(gate, Chat)):
        chat = await pipeline.enqueue(Chat())
        await pipeline.wait(chat.id, timeout=5)
        before = claims
        await stays_true(lambda: gate.started == [chat.id], describe="nothing starts", during=0.3)
        assert claims - before <= 10
        await pipeline.inspector.resume("default")
        await wait_until(lambda: len(gate.started) == 2, describe="it runs when the pause is over", timeout=3)


async def test_false_alarms_do_not_make_a_busy_loop(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarms = 0

    async def always(_queues: Sequence[str], _timeout: float) -> bool:
        nonlocal alarms
        alarms += 1
        return True

    monkeypatch.setattr(pipeline.broker, "wait_for_work", always)
    async with working(pipeline, handles(Gate())):
        await stays_true(lambda: alarms < 30, describe="it slows down", during=0.5)


async def test_an_error_that_nobody_thought_of_does_not_end_a_pool(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = pipeline.broker.claim

    async def broken_once(*args: Any) -> list[Delivery]:
        monkeypatch.setattr(pipeline.broker, "claim", claim)
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(pipeline.broker, "claim", broken_once)
    gate = Gate()
    gate.opened.set()
    receipt = await pipeline.enqueue(Work())
    async with working(pipeline, handles(gate)):
        await pipeline.wait(receipt.id, timeout=5)


async def test_a_pool_that_starts_again_while_its_last_claim_still_ends_claims_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, asked, may_end = pipeline.broker.claim, asyncio.Event(), asyncio.Event()

    async def slow_to_end(*_: Any) -> list[Delivery]:
        asked.set()
        try:
            await for_ever()
        finally:
            await may_end.wait()
        return []

    monkeypatch.setattr(pipeline.broker, "claim", slow_to_end)
    gate = Gate()
    gate.opened.set()
    async with working(pipeline, handles(gate)) as crew:
        await asked.wait()
        await crew.rest("core")
        monkeypatch.setattr(pipeline.broker, "claim", claim)
        crew.claim("core")
        may_end.set()
        receipt = await pipeline.enqueue(Work())
        await pipeline.wait(receipt.id, timeout=5)
