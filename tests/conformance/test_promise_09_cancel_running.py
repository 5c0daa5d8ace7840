"""Promise 9, with real workers: a running handler is told, what it would still start does not run."""

import asyncio
import random
import threading
from contextlib import suppress

from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.outcomes import Done
from contracts.states import JobState
from pipeline.broker import CancelOutcome
from pipeline.client import Enqueue
from pipeline.errors import JobCancelled
from pipeline.handlers import Context, on
from pipeline.receipt import Receipt
from pipeline.runtime import Pipeline

from tests.conformance.conftest import Open, Start
from tests.support.faults import Faults, Loss
from tests.support.waiting import wait_until
from tests.support.work import Work

HEARTBEAT_S = 2
MACHINE_S = 3


async def cancelled(pipeline: Pipeline, receipt: Receipt) -> None:
    try:
        await pipeline.wait(receipt.id, timeout=HEARTBEAT_S + MACHINE_S)
    except JobCancelled:
        return
    raise AssertionError(f"{receipt.id} was not cancelled")


async def test_a_running_handler_is_cancelled_by_another_process(
    start: Start, open_pipeline: Open, faults: Faults, loss: Loss
) -> None:
    """Also when the renewal that would tell it is lost."""
    seen = list[str]()

    async def endless(job: Work, ctx: Context) -> None:
        seen.append("started")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("told" if ctx.cancelled else "not told")
            raise

    await start(on(Work, endless))
    elsewhere = await open_pipeline()
    receipt = await elsewhere.enqueue(Work(), max_retry=5)
    await wait_until(lambda: seen, describe="it runs")
    faults.lose(loss, "renew")
    assert await elsewhere.inspector.cancel(receipt.id) is CancelOutcome.SIGNALLED
    await cancelled(elsewhere, receipt)
    assert seen == ["started", "told"]


async def test_a_plain_function_sees_that_it_is_cancelled(start: Start) -> None:
    started, end = threading.Event(), threading.Event()

    def steps(job: Work, ctx: Context) -> None:
        started.set()
        while not ctx.cancelled and not end.wait(0.01):
            pass

    pipeline = await start(on(Work, steps))
    receipt = await pipeline.enqueue(Work())
    await wait_until(started.is_set, describe="it runs")
    await pipeline.inspector.cancel(receipt.id)
    await cancelled(pipeline, receipt)
    end.set()


async def test_children_of_a_handler_that_is_being_cancelled_do_not_run(
    start: Start, open_pipeline: Open
) -> None:
    ran, receipts, started = list[str](), list[Receipt](), asyncio.Event()

    async def parent_or_child(job: Work, ctx: Context) -> None:
        if job.act == "child":
            ran.append(ctx.id)
            return
        await ctx.pipeline.enqueue(Work(act="child", knowledge_id="k1"), delay=0.4)
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            receipts.append(await ctx.pipeline.enqueue(Work(act="child", knowledge_id="k1")))

    await start(on(Work, parent_or_child))
    elsewhere = await open_pipeline()
    parent = await elsewhere.enqueue(Work(knowledge_id="k1"))
    await wait_until(started.is_set, describe="the parent runs")
    did = await elsewhere.broker.cancel_scope(Scope("knowledge", "k1"), EVERYTHING)
    assert did.signalled == (parent.id,)
    assert len(did.cancelled) == 1
    await cancelled(elsewhere, parent)
    (late,) = receipts
    assert late.state is JobState.CANCELLED
    after = await elsewhere.enqueue(Work(act="child", knowledge_id="k1"))
    await elsewhere.wait(after.id, timeout=10)
    assert ran == [after.id]


async def test_who_says_done_after_the_cancel_is_done_and_the_canceller_is_told(start: Start) -> None:
    started, told = asyncio.Event(), asyncio.Event()

    async def stubborn(job: Work, ctx: Context) -> Done:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.set()
        return Done()

    pipeline = await start(on(Work, stubborn))
    receipt = await pipeline.enqueue(Work(), retention=60)
    await wait_until(started.is_set, describe="it runs")
    assert await pipeline.inspector.cancel(receipt.id) is CancelOutcome.SIGNALLED
    await pipeline.wait(receipt.id, timeout=10)
    assert told.is_set()
    assert await pipeline.inspector.cancel(receipt.id) is CancelOutcome.TOO_LATE


async def test_many_cancelled_at_random_moments_end_as_they_were_told(start: Start) -> None:
    """Cancelled ones have no effect afterwards; those that were done before say so."""
    chance, effects = random.Random(5), set[str]()

    async def short(job: Work, ctx: Context) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(job.n / 1000):
                await asyncio.Event().wait()
        effects.add(ctx.id)

    pipeline = await start(on(Work, short), pool_core_concurrency=20)
    receipts = await pipeline.enqueue_many(
        [Enqueue(Work(n=chance.randint(0, 20)), retention=60) for _ in range(120)]
    )
    chance.shuffle(receipts)
    for receipt in receipts:
        await pipeline.inspector.cancel(receipt.id)

    async def all_ended() -> bool:
        states = await pipeline.broker.states([receipt.id for receipt in receipts])
        return set(states) <= {JobState.COMPLETED, JobState.CANCELLED}

    await wait_until(all_ended, describe="all have ended")
    ids = [receipt.id for receipt in receipts]
    states = dict(zip(ids, await pipeline.broker.states(ids), strict=True))
    assert {i for i, state in states.items() if state is JobState.COMPLETED} <= effects
    assert len(set(states.values())) == 2  # the mix is one
