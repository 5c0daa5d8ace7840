"""Workers on a real Redis, killed at random moments again and again: no job is lost, none is done twice over, nothing stays.

`STREAMLANE_TEST_KILLS` is how often (`just kills`: a hundred times).
"""

import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from contracts.jobs import Unique
from contracts.states import TERMINAL, JobState
from pipeline import Enqueue, JobRecord, Pipeline

from tests.support.backends import NOTHING_KEPT
from tests.support.chores import CHILDREN, ENDS, GOES_ON, KEPT_S, Chore, Diary, Fate, Line
from tests.support.crash import Process
from tests.support.redis_backend import footprint
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("STREAMLANE_TEST_KILLS", "20"))
WORKERS = 3
LEASE_S = 1.5
BOUND_S = LEASE_S + 2
UNLUCKY_S = LEASE_S + 3
"""On top of the bound, for a job whose next worker is killed too before it starts, and for a machine that is busy."""
BACKLOG = 100
LEAKED_BYTES = 1_000
"""What keys that stay may grow by; a single byte left of each job would be more."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + 5 * KILLS)]


@pytest.fixture
def settings(redis_server: RedisServer, tmp_path: Path) -> dict[str, Any]:
    return {
        "redis_url": redis_server.url, "redis_op_timeout_ms": 3000, "data_dir": tmp_path / "data", "lease_s": LEASE_S,
        "max_crashes": 100, "pool_core_concurrency": 5, "log_level": "error",
    }  # fmt: skip


@pytest.fixture
async def pipeline(settings: dict[str, Any]) -> AsyncIterator[Pipeline]:
    async with Pipeline.open(**settings) as found:
        yield found


@dataclass
class Shift:
    """Chores that are enqueued as fast as they are done, and what is seen of them meanwhile."""

    pipeline: Pipeline
    diary: Diary
    chance: random.Random
    fates: dict[str, Fate] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    ended: dict[str, tuple[JobState, float]] = field(default_factory=dict)
    """The last state of each, and when it was seen."""

    async def go_on_until(self, moment: float) -> bool:
        """Look which have ended, and fill up the backlog. Whether the moment has come."""
        await self.look()
        if len(self.open) < BACKLOG:
            items = [self._chore() for _ in range(BACKLOG)]
            for item, receipt in zip(items, await self.pipeline.enqueue_many(items), strict=True):
                if not receipt.duplicate:
                    self.fates[receipt.id] = item.payload.fate  # type: ignore[attr-defined]
                    self.kept |= {receipt.id} if item.retention else set()
        return time.monotonic() >= moment

    async def look(self) -> bool:
        """Look which have ended; whether all have."""
        waiting = self.open
        for job, state in zip(waiting, await self.pipeline.broker.states(waiting), strict=True):
            assert state is not None, f"{job} is lost"
            if state in TERMINAL:
                self.ended[job] = state, time.monotonic()
        return not self.open

    async def finish(self) -> None:
        """Wait for the end of all, and of their children."""
        await wait_until(self.look, describe="every chore has ended", timeout=60)
        self.fates |= {line.job: Fate.DONE for line in self.diary.lines() if line.word == "child"}
        await wait_until(self.look, describe="every child has ended", timeout=60)

        async def recorded() -> bool:
            return not await self.pipeline.broker.dead_letters(["default"], 1)

        await wait_until(recorded, describe="every death is recorded", timeout=30)

    @property
    def open(self) -> list[str]:
        return [job for job in self.fates if job not in self.ended]

    def _chore(self) -> Enqueue:
        fate, number = self.chance.choice(list(Fate)), self.chance.randrange(9)
        payload = Chore(
            diary=str(self.diary.path), fate=fate, ms=self.chance.randint(5, 50), name=f"{number}"
        )  # fmt: skip
        return Enqueue(
            payload,
            retention=KEPT_S if number % 2 else 0,
            unique=Unique(f"chore-{number}") if fate is Fate.UNIQUE else None,
        )


@dataclass
class Victims:
    """Workers, and when those that were killed were."""

    settings: dict[str, Any]
    stack: AsyncExitStack
    living: list[Process] = field(default_factory=list)
    killed: dict[int, float] = field(default_factory=dict)

    async def start(self) -> None:
        self.living.append(await self.stack.enter_async_context(Process("drudge", self.settings)))

    async def kill(self, chance: random.Random) -> None:
        """Kill one of them; another takes its place, as under a supervisor."""
        victim = self.living.pop(chance.randrange(len(self.living)))
        self.killed[victim.pid] = time.monotonic()
        victim.kill()
        await self.start()

    async def dismiss(self) -> None:
        for process in self.living:
            process.ask_to_stop()
        for process in self.living:
            assert await process.ended() == 0
        self.living.clear()


async def test_killed_again_and_again_workers_lose_nothing_repeat_nothing_that_ended_and_leave_nothing(
    redis_server: RedisServer, pipeline: Pipeline, settings: dict[str, Any], tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        victims = Victims(settings, stack)
        for _ in range(WORKERS):
            await victims.start()
        warm_up = Shift(pipeline, Diary(tmp_path / "warm-up"), chance)
        await warm_up.go_on_until(0)
        await warm_up.finish()
        await victims.dismiss()
        used = await bare(pipeline, redis_server)
        before = counted(redis_server)

        shift = Shift(pipeline, Diary(tmp_path / "diary"), chance)
        for _ in range(WORKERS):
            await victims.start()
        for _ in range(KILLS):
            moment = time.monotonic() + chance.uniform(0.2, 2.0)
            await wait_until(
                partial(shift.go_on_until, moment),
                describe="the moment of the kill",
                timeout=30,
                longest_pause=0.03,
            )
            await victims.kill(chance)
        await shift.finish()
        await victims.dismiss()

    lines = shift.diary.lines()
    records = await listed(pipeline)
    check_ends(shift, records)
    check_counts(shift, counted(redis_server) - before)
    check_runs(shift, lines, victims.killed)
    check_children(shift, lines)
    report(shift, lines, victims.killed)
    leaked = await bare(pipeline, redis_server) - used
    assert leaked < LEAKED_BYTES


def check_ends(shift: Shift, records: dict[str, JobRecord]) -> None:
    """Each has the end that its fate says, with the failures that it says: one counted twice would show."""
    for job, fate in shift.fates.items():
        state, failures = ENDS.get(fate, (JobState.COMPLETED, 0))
        assert shift.ended[job][0] is state, (job, fate)
        if job in shift.kept or state is not JobState.COMPLETED:
            record = records[job]
            assert (record.state, record.job.retried) == (state, failures), (job, fate, record)


def check_counts(shift: Shift, said: Counter[str]) -> None:
    """The store has counted each end and each failure once."""
    expected = Counter[str]()
    for fate in shift.fates.values():
        state, failures = ENDS.get(fate, (JobState.COMPLETED, 0))
        expected["processed"] += failures + (state is not JobState.CANCELLED)
        expected["failed"] += failures + (state is JobState.ARCHIVED)
        expected["cancelled"] += state is JobState.CANCELLED
    assert said == expected


def check_runs(shift: Shift, lines: list[Line], killed: dict[int, float]) -> None:
    """A job starts again only after it said so, or after its worker was killed; and never once its end was seen."""
    for job, runs in by_job(lines).items():
        for (begun, last), (again, _) in pairwise(runs):
            assert last.word in GOES_ON or killed.get(begun.pid, again.at) < again.at, (
                job,
                begun,
                last,
                again,
            )
        assert runs[-1][0].at < shift.ended[job][1], job


def check_children(shift: Shift, lines: list[Line]) -> None:
    """Each parent has as many as it bore, however often it ran, and those of one key took turns."""
    born = Counter(
        line.name.partition("/")[0]
        for line in {line._replace(pid=0, at=0) for line in lines}
        if line.word == "child"
    )
    assert born == {job: CHILDREN for job, fate in shift.fates.items() if fate is Fate.PARENT}
    turns: dict[str, list[str]] = {}
    for line in lines:
        if line.word == "started" and shift.fates[line.job] is Fate.UNIQUE:
            turn = turns.setdefault(line.name, [])
            if turn[-1:] != [line.job]:
                turn.append(line.job)
    assert turns
    for turn in turns.values():
        assert len(turn) == len(set(turn))


def report(shift: Shift, lines: list[Line], killed: dict[int, float]) -> None:
    """Say how long the victims' jobs waited until they ran elsewhere."""
    waits = sorted(
        again.at - killed[begun.pid]
        for runs in by_job(lines).values()
        for (begun, last), (again, _) in pairwise(runs)
        if last is begun and begun.pid in killed
    )
    p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    print(
        f"{len(killed)} kills, {len(shift.fates)} jobs; kill to running elsewhere with a lease of {LEASE_S} s:"
        f" p50 {p50:.2f} s, p99 {p99:.2f} s, longest {waits[-1]:.2f} s ({len(waits)} jobs)"
    )
    assert waits[-1] < BOUND_S + UNLUCKY_S


def by_job(lines: list[Line]) -> dict[str, list[tuple[Line, Line]]]:
    """The runs of each job: how each began, and the last that was heard of it."""
    found: dict[str, list[tuple[Line, Line]]] = {}
    for line in lines:
        runs = found.setdefault(line.job, [])
        if line.word == "started":
            runs.append((line, line))
        elif line.word != "child":
            place = max(n for n, (begun, _) in enumerate(runs) if begun.pid == line.pid)
            runs[place] = runs[place][0], line
    return {job: runs for job, runs in found.items() if runs}


async def listed(pipeline: Pipeline) -> dict[str, JobRecord]:
    """Every job that is still kept, by its id."""
    found: dict[str, JobRecord] = {}
    for state in JobState:
        cursor: str | None = None
        while True:
            page = await pipeline.inspector.tasks("default", state, cursor, 100)
            found |= {record.job.id: record for record in page.records}
            if (cursor := page.next_cursor) is None:
                break
    return found


def counted(server: RedisServer) -> Counter[str]:
    """What the store has counted so far."""
    with server.client() as client:
        found = Counter[str]()
        for key in client.scan_iter(match="sl:*:stats:default:*"):
            for name, number in client.hgetall(key).items():
                found[name.partition(":")[0]] += int(number)  # by the hour
        return found


async def bare(pipeline: Pipeline, server: RedisServer) -> int:
    """The bytes of all keys once nothing is kept any more: consumers of the dead go last, with their heartbeat."""
    for job in await listed(pipeline):
        await pipeline.inspector.delete(job)
    left: dict[str, int] = {}

    async def nothing() -> bool:
        await pipeline.broker.prune(NOTHING_KEPT)
        left.clear()
        left.update(footprint([server], "sl"))
        left.pop("", None)  # the mark of `ping`
        return not left

    await wait_until(nothing, describe=f"nothing is left of {left}", timeout=30)
    with server.client() as client:
        return sum(int(client.memory_usage(key, samples=0) or 0) for key in client.scan_iter(match="sl:*"))
