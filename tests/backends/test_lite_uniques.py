"""What becomes of an enqueue that waits for an active job of the same key: nothing makes it vanish."""

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope, Unique
from contracts.outcomes import Retry, Skip
from contracts.states import JobState
from pipeline.backends.lite.broker import LiteBroker
from pipeline.broker import Delivery, ReclaimPolicy

from tests.backends.conftest import Clock
from tests.support.hand import Hand, envelope, new

DEBOUNCE = Unique("k", on_conflict="debounce")
REPLACE = Unique("k", on_conflict="replace")
TENANT, OTHER = Scope("tenant", "7"), Scope("tenant", "8")


async def run_again(hand: Hand) -> Delivery:
    """Promote the re-run, which is due at once or nearly, and claim it."""
    return await hand.take_when_due()


async def active(broker: LiteBroker, hand: Hand, unique: Unique) -> Delivery:
    await broker.enqueue([new(unique=unique, data='"old"', scopes=(TENANT,))])
    return await hand.take_one()


async def test_a_debounced_enqueue_runs_the_same_job_again(broker: LiteBroker, hand: Hand) -> None:
    first = await active(broker, hand, DEBOUNCE)
    for _ in range(3):
        (receipt,) = await broker.enqueue([new(unique=DEBOUNCE, data='"new"')])
        assert (receipt.id, receipt.state, receipt.duplicate) == (first.job_id, JobState.ACTIVE, True)
    assert await hand.settle(first) is JobState.SCHEDULED
    again = await run_again(hand)
    assert (again.job_id, again.record["data"]) == (first.job_id, '"old"')
    assert await hand.settle(again) is JobState.COMPLETED, "three enqueues are one re-run"


async def test_a_replacing_enqueue_runs_with_its_own_payload_limits_and_scopes(
    broker: LiteBroker, hand: Hand
) -> None:
    first = await active(broker, hand, REPLACE)
    await broker.enqueue([new(unique=REPLACE, data='"new"', max_retry=9, scopes=(OTHER,))])
    await hand.settle(first)
    assert (await broker.has_queued(TENANT), await broker.has_queued(OTHER)) == (False, True)
    again = await run_again(hand)
    assert again.record["data"] == '"new"'
    assert envelope(again).max_retry == 9
    await hand.settle(again)
    assert not await broker.has_queued(OTHER)


async def test_a_re_run_holds_the_key_as_its_enqueue_asked(broker: LiteBroker, hand: Hand) -> None:
    first = await active(broker, hand, DEBOUNCE)
    until_started = Unique("k", until="started", on_conflict="debounce")
    await broker.enqueue([new(unique=until_started)])
    await hand.settle(first)
    await run_again(hand)
    (other,) = await broker.enqueue([new(unique=until_started)])
    assert not other.duplicate, "the key was free from the start of the re-run"


@pytest.mark.parametrize("end", [None, Skip("no use"), ValueError("last attempt")], ids=str)
async def test_however_a_job_ends_who_waited_for_its_end_has_a_turn(
    broker: LiteBroker, hand: Hand, end: BaseException | None
) -> None:
    await broker.enqueue([new(unique=DEBOUNCE, max_retry=0)])
    first = await hand.take_one()
    await broker.enqueue([new(unique=DEBOUNCE, max_retry=0)])
    assert await hand.settle(first, end) is JobState.SCHEDULED
    assert envelope(await run_again(hand)).retried == 0


async def test_a_failed_attempt_does_not_use_up_the_turn(broker: LiteBroker, hand: Hand) -> None:
    first = await active(broker, hand, DEBOUNCE)
    await broker.enqueue([new(unique=DEBOUNCE)])
    assert await hand.settle(first, Retry(after=0)) is JobState.RETRY
    assert await hand.settle(await run_again(hand)) is JobState.SCHEDULED
    assert await hand.settle(await run_again(hand)) is JobState.COMPLETED


async def test_a_cancel_drops_the_enqueue_that_waited_before_it(broker: LiteBroker, hand: Hand) -> None:
    first = await active(broker, hand, DEBOUNCE)
    await broker.enqueue([new(unique=DEBOUNCE, scopes=(TENANT,))])
    await broker.cancel([first.job_id])
    assert await hand.settle(first, ValueError("stopped")) is JobState.CANCELLED


async def test_a_cancel_leaves_the_enqueue_that_came_after_it(broker: LiteBroker, hand: Hand) -> None:
    first = await active(broker, hand, DEBOUNCE)
    cancel = await broker.cancel_scope(TENANT, EVERYTHING)
    await broker.enqueue([new(unique=DEBOUNCE, scopes=(TENANT,))])
    await broker.cancel_scope(TENANT, EVERYTHING, cancel.cut)  # repeated, or delivered late
    assert await hand.settle(first, ValueError("stopped")) is JobState.SCHEDULED
    assert await hand.settle(await run_again(hand)) is JobState.COMPLETED


async def test_a_late_cancel_of_a_job_handed_back_leaves_the_enqueue_that_came_after_it(
    broker: LiteBroker, hand: Hand, clock: Clock
) -> None:
    first = await active(broker, hand, DEBOUNCE)
    clock.shift += 10
    await broker.enqueue([new(unique=DEBOUNCE, scopes=(TENANT,))])
    await broker.release([first])
    await broker.cancel_scope(TENANT, EVERYTHING, envelope(first).root_at)
    assert await broker.states([first.job_id]) == [JobState.SCHEDULED]
    assert await hand.settle(await run_again(hand)) is JobState.COMPLETED
    assert not await broker.has_queued(TENANT)


async def test_a_cancel_of_a_job_between_two_attempts_drops_who_waits_for_it(
    broker: LiteBroker, hand: Hand
) -> None:
    first = await active(broker, hand, DEBOUNCE)
    await broker.enqueue([new(unique=DEBOUNCE)])
    await hand.settle(first, Retry(after=60))
    await broker.cancel([first.job_id])
    assert await broker.states([first.job_id]) == [JobState.CANCELLED]
    (fresh,) = await broker.enqueue([new(unique=DEBOUNCE)])
    assert not fresh.duplicate


async def test_a_lost_worker_does_not_lose_who_waited(broker: LiteBroker, hand: Hand, clock: Clock) -> None:
    policy = ReclaimPolicy(lease_ms=1_000, max_crashes=0)
    first = await active(broker, hand, REPLACE)
    await broker.enqueue([new(unique=REPLACE, data='"new"')])
    taken = []
    for _ in range(10):
        clock.shift += 250
        taken += await broker.reclaim(policy)
    assert [(one.job_id, one.state) for one in taken] == [(first.job_id, JobState.SCHEDULED)]
    clock.shift += 1
    assert (await run_again(hand)).record["data"] == '"new"'


async def test_a_key_of_a_time_outlives_its_job_and_nothing_else(
    broker: LiteBroker, hand: Hand, clock: Clock
) -> None:
    hour = Unique("k", ttl=3600, until="ttl")
    (first,) = await broker.enqueue([new(unique=hour)])
    await hand.run()
    (second,) = await broker.enqueue([new(unique=hour)])
    assert (second.id, second.state, second.duplicate) == (first.id, JobState.COMPLETED, True)
    clock.shift = 3_600_001
    (third,) = await broker.enqueue([new(unique=hour)])
    assert not third.duplicate
