"""Promise 7, with real workers: a delayed job starts when it is due, not early, whoever enqueued it and whatever is lost."""

import pytest
from contracts.outcomes import Retry, Snooze
from pipeline.clock import now_ms
from pipeline.handlers import Context, on

from tests.conformance.conftest import Open, Start
from tests.support.faults import Faults, Loss
from tests.support.waiting import wait_until
from tests.support.work import Work


async def test_delayed_jobs_start_when_they_are_due_and_none_is_early(start: Start) -> None:
    early_ms = list[int]()

    async def look(job: Work, ctx: Context) -> None:
        early_ms.append(ctx.job.enqueued_at + job.n - now_ms())

    pipeline = await start(on(Work, look))
    delays = [0.02, 0.05, 0.1, 0.2, 0.3] * 4
    for delay in delays:
        await pipeline.enqueue(Work(n=round(delay * 1000)), delay=delay)
    await wait_until(lambda: len(early_ms) == len(delays), describe="all have started")
    assert max(early_ms) <= 0


async def test_an_earlier_job_does_not_wait_for_the_one_that_was_next(
    start: Start, open_pipeline: Open
) -> None:
    ran = list[int]()

    async def look(job: Work, ctx: Context) -> None:
        ran.append(job.n)

    here = await start(on(Work, look))
    elsewhere = await open_pipeline()
    await here.enqueue(Work(n=3600), delay=3600)
    await elsewhere.enqueue(Work(n=1), delay=0.1)
    await wait_until(lambda: ran == [1], describe="the earlier one ran", timeout=5)


@pytest.mark.parametrize("again", [Snooze(0.2), Retry(after=0.2)], ids=repr)
async def test_a_handler_that_asks_for_a_pause_gets_it(start: Start, again: BaseException) -> None:
    seen = list[int]()

    async def twice(job: Work, ctx: Context) -> None:
        seen.append(now_ms())
        if len(seen) == 1:
            raise again

    pipeline = await start(on(Work, twice))
    receipt = await pipeline.enqueue(Work())
    await pipeline.wait(receipt.id, timeout=10)
    first, second = seen
    assert second - first >= 200


async def test_promotions_that_are_lost_delay_a_job_and_lose_none(
    start: Start, faults: Faults, loss: Loss
) -> None:
    ran = list[int]()

    async def look(job: Work, ctx: Context) -> None:
        ran.append(job.n)

    pipeline = await start(on(Work, look))
    for _ in range(3):
        faults.lose(loss, "promote")
    for n in range(10):
        await pipeline.enqueue(Work(n=n), delay=0.05 + n / 100)
    await wait_until(lambda: len(ran) >= 10, describe="all ran")
    assert sorted(ran) == list(range(10))
    assert not faults.waiting("promote")
