"""Promise 3: only the holder of the current delivery can settle. A stale worker changes nothing and is told so.

The fence is (entry, consumer): neither half alone is enough.
"""

from dataclasses import replace

import pytest
from contracts.jobs import Unique
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import JobState
from pipeline.broker import Broker, Delivery
from pipeline.errors import StoreUnavailable
from pipeline.records import Progress

from tests.conformance.conftest import Insist
from tests.support.faults import Faults, Loss
from tests.support.hand import Hand, ids, new, news, reclaimed, settlement, state

OUTCOMES = [Done(), RuntimeError("no"), Retry(after=60), Snooze(60), Skip("no"), Cancel("no")]


@pytest.fixture
async def stale(store: Broker, hand: Hand) -> Delivery:
    """A delivery that was reclaimed."""
    await store.enqueue([new(retention_ms=60_000)])
    delivery = await hand.take_one()
    await reclaimed(store)
    return delivery


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
async def test_a_stale_worker_settles_nothing_while_another_one_runs_the_job(
    store: Broker, hand: Hand, stale: Delivery, outcome: BaseException
) -> None:
    other = Hand(store)
    current = await other.take_one()
    assert current.entry != stale.entry
    assert await hand.settle(stale, outcome) is None
    assert await state(store, stale.job_id) is JobState.ACTIVE
    assert await other.settle(current) is JobState.COMPLETED
    assert await hand.settle(stale, outcome) is None
    assert await state(store, stale.job_id) is JobState.COMPLETED


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
async def test_a_stale_worker_settles_nothing_while_the_job_waits_for_another_one(
    store: Broker, hand: Hand, stale: Delivery, outcome: BaseException
) -> None:
    assert await hand.settle(stale, outcome) is None
    assert await state(store, stale.job_id) is JobState.PENDING


async def test_a_stale_worker_cannot_release_renew_or_report(
    store: Broker, hand: Hand, stale: Delivery
) -> None:
    current = await Hand(store).take_one()
    assert await store.release([stale]) == 0
    assert await hand.renewing([stale, current]) == ["lost", "held"]
    assert await store.report(stale, Progress(1, 2)) is False
    record = await store.job(stale.job_id)
    assert record is not None
    assert (record.state, record.progress) == (JobState.ACTIVE, None)


async def test_a_lost_lease_is_not_won_back_even_by_the_same_consumer(
    store: Broker, hand: Hand, stale: Delivery
) -> None:
    current = await hand.take_one()
    assert current.consumer == stale.consumer
    assert await hand.renewing([stale]) == ["lost"]
    assert await hand.settle(stale) is None
    assert await hand.settle(current) is JobState.COMPLETED


async def test_the_entry_alone_is_not_enough(store: Broker, hand: Hand) -> None:
    await store.enqueue([new(retention_ms=60_000)])
    mine = await hand.take_one()
    theirs = replace(mine, consumer=Hand(store).name)
    assert await hand.settle(theirs) is None
    assert await store.release([theirs]) == 0
    assert await hand.renewing([theirs]) == ["lost"]
    assert await store.report(theirs, Progress(1, 2)) is False
    assert await hand.settle(mine) is JobState.COMPLETED


async def test_the_consumer_alone_is_not_enough(store: Broker, hand: Hand) -> None:
    await store.enqueue(news(2))
    first, second = await hand.take(2)
    assert await hand.settle(replace(first, entry=second.entry)) is None
    assert [await state(store, d.job_id) for d in (first, second)] == [JobState.ACTIVE] * 2


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
async def test_a_settlement_takes_effect_once(
    store: Broker, hand: Hand, insist: Insist, loss: Loss, outcome: BaseException
) -> None:
    job = new(retention_ms=60_000, max_retry=5)
    await store.enqueue([job])
    mine = settlement(await hand.take_one(), outcome)
    (ended,) = await insist(store.settle, [mine])
    assert ended is (None if loss is Loss.REPLY else mine.state)
    assert await store.settle([mine]) == [None]
    record = await store.job(job.job.id)
    assert record is not None
    assert record.state is mine.state
    assert record.job.retried == (mine.state is JobState.RETRY)
    assert len(await store.dead_letters(["default"], 10)) == (mine.state is JobState.ARCHIVED)


async def test_what_was_released_is_no_longer_ours(store: Broker, hand: Hand, insist: Insist) -> None:
    await store.enqueue([new()])
    mine = await hand.take_one()
    await insist(store.release, [mine])
    assert await hand.settle(mine) is None
    assert await store.release([mine]) == 0
    assert await state(store, mine.job_id) is JobState.PENDING


async def test_each_of_a_batch_is_answered_for_itself(store: Broker, hand: Hand, stale: Delivery) -> None:
    jobs = news(2, retention_ms=60_000)
    await Hand(store).take_one()
    await store.enqueue(jobs)
    first, second = await hand.take(2)
    answers = await store.settle([settlement(d) for d in (first, stale, second)])
    assert answers == [JobState.COMPLETED, None, JobState.COMPLETED]
    assert await store.states(ids(jobs)) == [JobState.COMPLETED] * 2


async def test_a_stale_settlement_leaves_the_unique_lock_alone(store: Broker, hand: Hand) -> None:
    await store.enqueue([new(unique=Unique("k"))])
    stale = await hand.take_one()
    await reclaimed(store)
    await hand.settle(stale)
    (receipt,) = await store.enqueue([new(unique=Unique("k"))])
    assert (receipt.id, receipt.duplicate) == (stale.job_id, True)


async def test_a_lease_is_renewed_again_after_a_renewal_was_lost(
    store: Broker, hand: Hand, faults: Faults, loss: Loss
) -> None:
    await store.enqueue([new()])
    mine = await hand.take_one()
    if loss is not Loss.NOTHING:
        faults.lose(loss, "renew")
        with pytest.raises(StoreUnavailable):
            await hand.renewing([mine])
    assert await hand.renewing([mine]) == ["held"]
