"""Promise 12: while the store is lost, workers stay up, say so once, and resume by themselves; nothing runs twice for it."""

import asyncio

import pytest
from contracts.states import JobState
from pipeline.errors import EnqueueFailed, StoreUnavailable
from pipeline.handlers import Context, on
from structlog.testing import capture_logs

from tests.conformance.conftest import SHORT, Start
from tests.support.backends import Backend
from tests.support.faults import Faults, Loss
from tests.support.hand import Hand, new
from tests.support.waiting import stays_true, wait_until
from tests.support.work import Work

LEASE_S = SHORT["lease_s"]


async def test_idle_workers_outlive_the_outage_and_take_what_comes_then(start: Start, faults: Faults) -> None:
    ran = list[int]()

    async def work(job: Work, ctx: Context) -> None:
        ran.append(job.n)

    pipeline = await start(on(Work, work))
    with faults.away():
        with pytest.raises(EnqueueFailed) as failed:
            await pipeline.enqueue(Work(n=1))
        await stays_true(lambda: not ran, describe="nothing runs", during=0.3)
    receipt = await pipeline.enqueue(Work(n=1), id=failed.value.job_id)
    await pipeline.wait(receipt.id, timeout=5)
    assert ran == [1]


async def test_an_outage_longer_than_a_lease_interrupts_nobody(start: Start, faults: Faults) -> None:
    """Neither the job that runs through it, nor the one that ends within it, runs again."""
    starts, end = list[int](), {n: asyncio.Event() for n in (1, 2)}

    async def work(job: Work, ctx: Context) -> None:
        starts.append(job.n)
        await end[job.n].wait()

    pipeline = await start(on(Work, work))
    await start(on(Work, work))
    through, within = await pipeline.enqueue_many([Work(n=1), Work(n=2)])
    await wait_until(lambda: sorted(starts) == [1, 2], describe="both run")
    with faults.away():
        end[2].set()
        await stays_true(lambda: len(starts) == 2, describe="nobody starts", during=1.5 * LEASE_S)
    await pipeline.wait(within.id, timeout=5)
    await stays_true(lambda: len(starts) == 2, describe="neither runs again", during=LEASE_S / 2)
    end[1].set()
    await pipeline.wait(through.id, timeout=5)
    assert sorted(starts) == [1, 2]


async def test_an_outage_is_said_once_when_it_begins_and_once_when_it_is_over(
    start: Start, faults: Faults
) -> None:
    async def work(job: Work, ctx: Context) -> None: ...

    pipeline = await start(on(Work, work))
    with capture_logs() as said:
        with faults.away():
            await wait_until(
                lambda: any("failed" in line["event"] for line in said), describe="it is said", timeout=10
            )
            calm = asyncio.get_running_loop().time() + 1.5
            await wait_until(lambda: asyncio.get_running_loop().time() > calm, describe="it lasts", timeout=5)
        receipt = await pipeline.enqueue(Work())
        await pipeline.wait(receipt.id, timeout=5)
        await wait_until(
            lambda: "claiming for pool core works again" in [line["event"] for line in said],
            describe="it is said to be over",
        )
    events = [(line["component"], line["event"]) for line in said]
    assert len(events) == len(set(events)), events


async def test_a_handler_whose_own_store_is_away_gets_another_chance_without_end(start: Start) -> None:
    starts = list[str]()

    async def work(job: Work, ctx: Context) -> None:
        starts.append(ctx.id)
        if len(starts) < 3:
            raise StoreUnavailable("the database does not let us in")

    pipeline = await start(on(Work, work))
    with capture_logs() as said:
        receipt = await pipeline.enqueue(Work(), max_retry=0, retention=60)
        await pipeline.wait(receipt.id, timeout=10)
    found = await pipeline.inspector.job(receipt.id)
    assert (starts, found.job.retried) == ([receipt.id] * 3, 0)
    assert [line["event"] for line in said if line["log_level"] == "warning"] == ["put off: a store is away"]


@pytest.mark.parametrize(
    "method", ["claim", "settle", "promote", "reclaim", "renew", "heartbeat", "wait_for_work"]
)
async def test_any_single_loss_is_overcome_by_a_worker(
    start: Start, faults: Faults, loss: Loss, method: str
) -> None:
    starts = list[str]()

    async def work(job: Work, ctx: Context) -> None:
        starts.append(ctx.id)
        if job.n == 0 and not ctx.retried:
            raise RuntimeError("once")

    pipeline = await start(on(Work, work, retry=lambda _: 0.05))
    for _ in range(2):
        faults.lose(loss, method)
    receipts = [
        await pipeline.enqueue(Work(n=n), delay=0.05 if n == 1 else None, retention=60) for n in range(3)
    ]
    for receipt in receipts:
        await pipeline.wait(receipt.id, timeout=10)
    assert sorted(starts) == sorted([r.id for r in receipts] + [receipts[0].id])
    records = [await pipeline.inspector.job(receipt.id) for receipt in receipts]
    assert [(r.state, r.job.crashes) for r in records] == [(JobState.COMPLETED, 0)] * 3


async def test_whoever_asks_a_store_that_is_away_gets_a_typed_error_at_once(
    backend: Backend, faults: Faults
) -> None:
    store = await backend.open()
    with faults.away():
        for operation in (
            store.enqueue([new()]),
            store.claim("c", [("default", 1)]),
            store.promote(),
            store.job("j"),
            store.states(["j"]),
            store.queue_stats(),
            store.ping(),
        ):
            with pytest.raises(StoreUnavailable):
                await operation
    await store.ping()


async def test_workers_come_back_after_the_store_was_restarted(backend: Backend, start: Start) -> None:
    """What another process wrote before and after is run all the same."""
    ran = list[str]()

    async def work(job: Work, ctx: Context) -> None:
        ran.append(ctx.id)

    store = await backend.open()
    (before,) = await store.enqueue([new()])
    store = await backend.restart()
    pipeline = await start(on(Work, work))
    (after,) = await store.enqueue([new()])
    for receipt in (before, after):
        await pipeline.wait(receipt.id, timeout=10)
    assert sorted(ran) == sorted([before.id, after.id])
    assert await Hand(store).take() == []
