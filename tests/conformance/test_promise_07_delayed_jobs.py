"""Promise 7: delayed jobs never start early and never vanish between two structures."""

import asyncio
import threading
from contextlib import nullcontext

import pytest
from contracts.outcomes import Retry, Snooze
from contracts.states import JobState
from pipeline.broker import Broker, Promoted
from pipeline.clock import now_ms
from pipeline.errors import NotAllowed

from tests.conformance.conftest import Insist
from tests.support.backends import Backend
from tests.support.faults import Loss
from tests.support.hand import SOON_MS, Hand, ids, new, news, pending, run_all, state
from tests.support.waiting import wait_until


async def test_a_delayed_job_is_not_claimed_before_its_time_and_then_once(store: Broker, hand: Hand) -> None:
    job = new(delay_ms=SOON_MS)
    (receipt,) = await store.enqueue([job])
    assert receipt.state is JobState.SCHEDULED
    record = await store.job(job.job.id)
    assert record is not None
    due = record.due_at
    assert 0 <= due - (record.job.enqueued_at + SOON_MS) <= 1
    delivery = await hand.take_when_due()
    assert delivery.claimed_at >= due
    assert await hand.take() == []


async def test_promote_says_when_the_next_is_due(store: Broker) -> None:
    assert (await store.promote()).due_in_ms is None
    await store.enqueue([new(delay_ms=90_000), new(delay_ms=30_000)])
    promoted = await store.promote()
    assert promoted.moved == 0
    assert promoted.due_in_ms is not None
    assert 29_000 < promoted.due_in_ms <= 30_001


async def test_what_is_overdue_is_due_in_no_time(store: Broker) -> None:
    jobs = news(2, delay_ms=SOON_MS)
    await store.enqueue(jobs)
    record = await store.job(jobs[-1].job.id)
    assert record is not None
    await wait_until(lambda: now_ms() > record.due_at, describe="both are due")
    assert await store.promote(1) == Promoted(1, 0)


async def test_whoever_waits_for_the_head_is_told_of_an_earlier_one(backend: Backend, store: Broker) -> None:
    told = threading.Event()
    end = store.on_due(told.set)
    await store.enqueue([new(delay_ms=90_000)])
    await store.promote()
    other = await backend.open()
    await other.enqueue([new(delay_ms=30_000)])
    await wait_until(told.is_set, describe="the earlier head was announced")
    end()


@pytest.mark.parametrize("back_s", [0, 3600])
async def test_a_time_that_has_passed_means_at_once(store: Broker, back_s: int) -> None:
    (receipt,) = await store.enqueue([new(run_at=now_ms() - back_s * 1000)])
    assert receipt.state is JobState.PENDING
    assert await run_all(store) == [receipt.id]


async def test_an_absolute_time_is_kept(store: Broker) -> None:
    when = now_ms() + 3_600_000
    job = new(run_at=when)
    await store.enqueue([job])
    record = await store.job(job.job.id)
    assert record is not None
    assert (record.state, record.due_at) == (JobState.SCHEDULED, when)


@pytest.mark.parametrize(
    ("outcome", "waits_as"), [(Snooze(0.1), JobState.SCHEDULED), (Retry(after=0.1), JobState.RETRY)], ids=repr
)
async def test_a_snooze_and_a_retry_wait_their_time_too(
    store: Broker, hand: Hand, outcome: BaseException, waits_as: JobState
) -> None:
    job = new()
    await store.enqueue([job])
    first = await hand.take_one()
    assert await hand.settle(first, outcome) is waits_as
    again = await hand.take_when_due()
    assert again.claimed_at >= first.claimed_at + 100
    assert again.entry != first.entry


async def test_a_promotion_that_was_lost_is_repeated_and_each_job_moves_once(
    store: Broker, insist: Insist
) -> None:
    jobs = news(50, delay_ms=1)
    await store.enqueue(jobs)

    last = await store.job(jobs[-1].job.id)
    assert last is not None
    await wait_until(lambda: now_ms() > last.due_at, describe="all are due")
    await insist(store.promote)
    assert await pending(store) == 50
    assert sorted(await run_all(store)) == sorted(ids(jobs))


async def test_eight_promoters_at_once_move_each_job_once(backend: Backend, store: Broker) -> None:
    jobs = news(200, delay_ms=SOON_MS)
    await store.enqueue(jobs)
    stores = [store, await backend.open()] * 4
    moved = 0

    async def enough() -> bool:
        nonlocal moved
        moved += sum(
            promoted.moved for promoted in await asyncio.gather(*(s.promote(limit=7) for s in stores))
        )
        return moved >= 200

    await wait_until(enough, describe="200 jobs were moved")
    assert (await store.promote()).moved == 0
    assert moved == 200
    assert sorted(await run_all(store)) == sorted(ids(jobs))


async def test_promote_moves_no_more_than_it_was_told(store: Broker) -> None:
    await store.enqueue(news(5, delay_ms=1))

    async def some() -> int:
        return (await store.promote(limit=2)).moved

    assert await wait_until(some, describe="something is due") <= 2


async def test_a_job_that_is_due_is_known_until_it_is_claimed(backend: Backend, store: Broker) -> None:
    """Whoever looks, from another connection, while it moves: the job is somewhere."""
    jobs = news(30, delay_ms=5)
    await store.enqueue(jobs)
    other = await backend.open()

    async def seen_through() -> bool:
        (_, states) = await asyncio.gather(store.promote(limit=3), other.states(ids(jobs)))
        assert set(states) <= {JobState.SCHEDULED, JobState.PENDING}
        return set(states) == {JobState.PENDING}

    await wait_until(seen_through, describe="all are pending", longest_pause=0.005)


async def test_due_jobs_come_by_their_time_not_by_their_enqueue(store: Broker) -> None:
    late, early = new(delay_ms=40), new(delay_ms=5)
    await store.enqueue([late, early])

    record = await store.job(late.job.id)
    assert record is not None
    await wait_until(lambda: now_ms() > record.due_at, describe="both are due")
    await store.promote()
    assert await run_all(store) == ids([early, late])


async def test_a_delayed_job_runs_at_once_when_a_person_asks(
    store: Broker, insist: Insist, loss: Loss
) -> None:
    job = new(delay_ms=3_600_000)
    await store.enqueue([job])
    with pytest.raises(NotAllowed) if loss is Loss.REPLY else nullcontext():  # it has happened
        await insist(store.run_now, job.job.id)
    assert await state(store, job.job.id) is JobState.PENDING
    assert await run_all(store) == [job.job.id]
