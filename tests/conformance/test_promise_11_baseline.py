"""Promise 11: after any mix of runs, what is kept, tasks, threads and file descriptors return to the baseline."""

import asyncio
import threading
from contextlib import AsyncExitStack

import psutil
import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope, Unique
from contracts.outcomes import Cancel, Retry, Skip, Snooze
from contracts.states import JobState
from pipeline.broker import Broker
from pipeline.clock import now_ms
from pipeline.handlers import Context, on
from pipeline.records import JobRecord, WorkerBeat
from pipeline.runtime import Pipeline

from tests.conformance.conftest import SHORT
from tests.support.backends import NOTHING_KEPT, Backend
from tests.support.faults import Faults
from tests.support.hand import Hand, ids, new, news, reclaimed, settlement
from tests.support.waiting import wait_until
from tests.support.work import Work

KNOWLEDGE = Scope("knowledge", "k")


async def test_nothing_is_kept_of_jobs_that_have_ended_in_every_way(
    backend: Backend, store: Broker, hand: Hand
) -> None:
    before = backend.footprint()
    outcomes = [None, Skip("no"), Cancel("no"), RuntimeError("no"), Retry(after=0.01), Snooze(0.1)]
    for number, outcome in enumerate(outcomes * 3):
        unique = Unique(f"k{number}") if number % 2 else None
        await store.enqueue([new(unique=unique, scopes=(KNOWLEDGE,), named=number % 3 == 0, max_retry=2)])
        await hand.run(outcome)
    await store.enqueue(news(4, scopes=(KNOWLEDGE,), delay_ms=60_000))
    await store.enqueue([new(deadline=now_ms() - 1)])
    lost = news(2)
    await store.enqueue(lost)
    await Hand(store).take(2)
    await reclaimed(store, max_crashes=0, count=2)
    await store.cancel_scope(KNOWLEDGE, EVERYTHING)
    await store.cancel([record.job.id for record in await everything(store)])
    while taken := await hand.take(50):
        await store.settle([settlement(delivery) for delivery in taken])
    await store.pause("default")
    await store.resume("default")
    await store.lock("page", "a", 60_000)
    await store.unlock("page", "a")
    letters = await store.dead_letters(["default"], 100)
    await store.forget_dead_letters([letter.death_id for letter in letters])

    async def back() -> bool:
        await store.prune(NOTHING_KEPT)
        return backend.footprint() == before

    await wait_until(back, describe=f"nothing is kept beyond {before}; kept: {backend.footprint()}")
    assert not any(stat.size + stat.archived + stat.cancelled for stat in await store.queue_stats())


async def everything(store: Broker) -> list[JobRecord]:
    found = list[JobRecord]()
    for state in (JobState.SCHEDULED, JobState.RETRY, JobState.PENDING):
        found += (await store.tasks("default", state, cursor=None, limit=1000)).records
    return found


@pytest.mark.parametrize("ending", ["done", "deleted", "purged", "cancelled"])
async def test_many_unique_jobs_leave_no_lock_behind(
    backend: Backend, store: Broker, hand: Hand, ending: str
) -> None:
    before = backend.footprint()
    jobs = [new(unique=Unique(f"k{number}")) for number in range(300)]
    await store.enqueue(jobs)
    if ending == "cancelled":
        await store.cancel(ids(jobs))
    else:
        outcome = None if ending == "done" else Skip("no")
        while taken := await hand.take(100):
            await store.settle([settlement(delivery, outcome) for delivery in taken])
    if ending == "deleted":
        for job_id in ids(jobs):
            await store.delete(job_id)
    if ending == "purged":
        await store.purge("default")
    letters = await store.dead_letters(["default"], 1000)
    await store.forget_dead_letters([letter.death_id for letter in letters])

    async def back() -> bool:
        await store.prune(NOTHING_KEPT)
        return backend.footprint() == before

    await wait_until(back, describe="no lock is left")


async def test_a_lock_until_its_time_and_a_dead_worker_are_forgotten_too(
    backend: Backend, store: Broker
) -> None:
    before = backend.footprint()
    (receipt,) = await store.enqueue([new(unique=Unique("k", ttl=0.05, until="ttl"))])
    await store.cancel([receipt.id])
    await store.heartbeat(WorkerBeat("w", "host", 1, now_ms(), "running", ()), 40)
    await store.lock("page", "gone", 40)

    async def back() -> bool:
        await store.prune(NOTHING_KEPT)
        return backend.footprint() == before

    await wait_until(back, describe="their time is over")


async def test_workers_that_were_lost_leave_nothing_behind(backend: Backend, store: Broker) -> None:
    """Fifty processes come and go, each with a job in its hands; what they held is done by another."""
    before = backend.footprint()
    await store.enqueue(news(50))
    for _ in range(50):
        await Hand(store).take_one()
    await reclaimed(store, count=50)
    hand = Hand(store)
    while taken := await hand.take(50):
        await store.settle([settlement(delivery) for delivery in taken])
    await store.prune(NOTHING_KEPT)
    assert backend.footprint() == before


async def test_a_pipeline_that_worked_gives_back_its_threads_tasks_and_descriptors(
    backend: Backend, faults: Faults, known_types: None
) -> None:
    process = psutil.Process()

    async def mixed(job: Work, ctx: Context) -> None:
        match job.n % 5:
            case 0:
                raise RuntimeError("no")
            case 1 if not ctx.retried:
                raise Retry(after=0.01)
            case 2:
                raise Skip("no")
            case 3:
                await ctx.progress(1, 2)
                async with ctx.lock("page", ttl=5, width=50):
                    await ctx.pipeline.enqueue(Work(n=4))

    def beside(job: Work, ctx: Context) -> None: ...

    async def once(handler: object) -> None:
        async with AsyncExitStack() as stack:
            pipeline = await stack.enter_async_context(Pipeline.open(**{**backend.settings(), **SHORT}))
            handlers = [on(Work, handler, retry=lambda _: 0.01)]  # type: ignore[arg-type]
            await stack.enter_async_context(
                pipeline.workers(pools=["core"], handlers=handlers, only={"test:work"})
            )
            faults.lose_reply("claim")
            faults.lose_request("settle")
            await pipeline.enqueue_many([Work(n=n) for n in range(30)])

            async def idle() -> bool:
                return not any(stat.size for stat in await pipeline.inspector.queues())

            await wait_until(idle, describe="all have ended")

    def held() -> tuple[int, int, int]:
        return process.num_fds(), threading.active_count(), len(asyncio.all_tasks())

    await once(mixed)  # what is made once in a process is made now
    await once(beside)
    before = held()
    for _ in range(3):
        await once(mixed)
        await once(beside)
    await wait_until(lambda: held() <= before, describe=f"no more is held than {before}")
