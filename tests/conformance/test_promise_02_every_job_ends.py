"""Promise 2: every enqueued job runs at least once to an outcome, or is archived with a reason. None is dropped silently."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import ArchiveReason, JobState
from pipeline.broker import Broker, DeadLetter, Delivery, ReclaimPolicy, Settlement
from pipeline.clock import now_ms
from pipeline.errors import StoreUnavailable

from tests.conformance.conftest import Insist
from tests.support.faults import Faults, Loss
from tests.support.hand import (
    LEASE_MS,
    QUEUE,
    SOON_MS,
    Hand,
    envelope,
    ids,
    new,
    news,
    reclaimed,
    settlement,
    state,
)
from tests.support.waiting import wait_until

T = TypeVar("T")
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("outcome", "ended"),
    [
        (None, JobState.COMPLETED),
        (Done(), JobState.COMPLETED),
        (RuntimeError("no"), JobState.RETRY),
        (Retry(after=60), JobState.RETRY),
        (Snooze(60), JobState.SCHEDULED),
        (Skip("pointless"), JobState.ARCHIVED),
        (Cancel("superseded"), JobState.CANCELLED),
    ],
    ids=repr,
)
async def test_each_outcome_leads_to_its_state(
    store: Broker, hand: Hand, insist: Insist, outcome: BaseException | None, ended: JobState
) -> None:
    job = new(retention_ms=60_000)
    await store.enqueue([job])
    await insist(store.settle, [settlement(await hand.take_one(), outcome)])
    assert await state(store, job.job.id) is ended
    record = await store.job(job.job.id)
    assert record is not None
    assert record.state is ended
    assert record.job.retried == (ended is JobState.RETRY)


async def test_a_failing_job_gets_all_its_attempts_and_is_archived_with_its_last_error(
    store: Broker, hand: Hand
) -> None:
    job = new(max_retry=2)
    await store.enqueue([job])
    seen = []
    for attempt in range(3):
        delivery = await hand.take_when_due()
        sent = envelope(delivery)
        ended = await hand.settle(delivery, RuntimeError(f"failure {attempt}"))
        seen.append((sent.retried, sent.final, ended))
    assert seen == [(0, False, JobState.RETRY), (1, False, JobState.RETRY), (2, True, JobState.ARCHIVED)]
    record = await store.job(job.job.id)
    assert record is not None
    assert record.reason is ArchiveReason.EXHAUSTED
    assert "failure 2" in record.job.last_error
    assert record.job.last_failed_at > 0


async def test_a_snooze_counts_nothing_however_often(store: Broker, hand: Hand) -> None:
    job = new(max_retry=0)
    await store.enqueue([job])
    for _ in range(3):
        delivery = await hand.take_when_due()
        assert (envelope(delivery).retried, envelope(delivery).crashes) == (0, 0)
        assert await hand.settle(delivery, Snooze(0.1)) is JobState.SCHEDULED
    assert await hand.settle(await hand.take_when_due()) is JobState.COMPLETED


async def exhausted(store: Broker, hand: Hand) -> None:
    await hand.run(RuntimeError("the last straw"))


async def skipped(store: Broker, hand: Hand) -> None:
    await hand.run(Skip("the last straw"))


async def poisoned(store: Broker, hand: Hand) -> None:
    delivery = await hand.take_one()
    await store.settle(
        [Settlement(delivery, JobState.ARCHIVED, reason=ArchiveReason.POISON, error="the last straw")]
    )


async def lost(store: Broker, hand: Hand) -> None:
    await hand.take_one()
    (taken,) = await reclaimed(store, max_crashes=0)
    assert taken.state is JobState.ARCHIVED


async def expired_at_settle(store: Broker, hand: Hand) -> None:
    await hand.run(Snooze(2 * DAY_MS / 1000))


@pytest.mark.parametrize(
    ("die", "reason", "fields"),
    [
        (exhausted, ArchiveReason.EXHAUSTED, {"max_retry": 0}),
        (skipped, ArchiveReason.SKIP, {}),
        (poisoned, ArchiveReason.POISON, {"data": "no JSON"}),
        (lost, ArchiveReason.WORKER_LOST, {}),
        (expired_at_settle, ArchiveReason.EXPIRED, {"deadline": now_ms() + DAY_MS}),
    ],
)
async def test_every_death_has_a_reason_and_one_dead_letter(
    store: Broker, hand: Hand, die, reason: ArchiveReason, fields: dict[str, Any]
) -> None:
    job = new(**fields)
    await store.enqueue([job])
    await die(store, hand)
    record = await store.job(job.job.id)
    assert record is not None
    assert (record.state, record.reason) == (JobState.ARCHIVED, reason)
    (letter,) = await store.dead_letters(["default"], 10)
    assert (letter.job_id, letter.queue, letter.reason) == (job.job.id, "default", reason)
    assert letter.record["type"] == job.job.type
    assert letter.record["data"] == job.job.data
    assert letter.error
    assert letter.died_at > 0


async def test_a_job_whose_deadline_passes_while_it_waits_is_archived_not_started(
    store: Broker, hand: Hand
) -> None:
    waiting = new(deadline=now_ms() - 1)
    later = new(delay_ms=SOON_MS, deadline=now_ms() + SOON_MS // 2)
    await store.enqueue([waiting, later])
    assert await hand.take(5) == []

    async def expired() -> list[DeadLetter]:
        await store.promote()
        assert await hand.take(5) == []
        letters = await store.dead_letters(["default"], 10)
        return letters if len(letters) == 2 else []

    letters = await wait_until(expired, describe="both have expired")
    assert {letter.job_id for letter in letters} == set(ids([waiting, later]))
    assert {letter.reason for letter in letters} == {ArchiveReason.EXPIRED}


async def test_many_whose_deadlines_passed_hold_up_nothing_behind_them(store: Broker, hand: Hand) -> None:
    """A worker that found nothing but those among the first slept before it looked on."""
    late, live = news(130, deadline=now_ms() - 1), new()
    await store.enqueue([*late, live])
    assert [one.job_id for one in await hand.take()] == [live.job.id]
    assert await store.states(ids(late)) == [JobState.ARCHIVED] * 130


async def test_a_retry_that_would_come_after_the_deadline_is_archived_at_once(
    store: Broker, hand: Hand
) -> None:
    job = new(deadline=now_ms() + 30_000)
    await store.enqueue([job])
    assert await hand.run(Retry(after=60, reason="busy")) is JobState.ARCHIVED
    (letter,) = await store.dead_letters(["default"], 10)
    assert (letter.reason, letter.error) == (ArchiveReason.EXPIRED, "busy")


async def test_each_death_of_a_job_is_a_letter_of_its_own(store: Broker, hand: Hand) -> None:
    job = new(max_retry=0)
    await store.enqueue([job])
    await hand.run(RuntimeError("first"))
    await store.run_now(job.job.id)
    await hand.run(RuntimeError("second"))
    letters = await store.dead_letters(["default"], 10)
    assert ["first" in letters[0].error, "second" in letters[1].error] == [True, True]
    assert len({letter.death_id for letter in letters}) == 2
    assert all(letter.death_id.startswith(job.job.id) for letter in letters)


async def test_a_letter_is_told_until_it_is_recorded_and_then_no_more(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    jobs = news(3, max_retry=0)
    await store.enqueue(jobs)
    for _ in jobs:
        await hand.run(RuntimeError("no"))
    first = await store.dead_letters(["default"], 2)
    assert [letter.job_id for letter in first] == ids(jobs[:2])
    assert await store.dead_letters(["default"], 2) == first
    await insist(store.forget_dead_letters, [letter.death_id for letter in first])
    (last,) = await store.dead_letters(["default"], 2)
    assert last.job_id == jobs[2].job.id
    assert (
        await state(store, jobs[0].job.id) is JobState.ARCHIVED
    )  # recorded elsewhere, still here to be run again


async def test_letters_of_other_queues_are_not_told(store: Broker, hand: Hand) -> None:
    await store.enqueue([new(max_retry=0, queue="summary")])
    await hand.run(RuntimeError("no"), "summary")
    assert await store.dead_letters(["default", "wiki"], 10) == []
    assert len(await store.dead_letters(["default", "summary"], 10)) == 1


async def sure(operation: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call an operation again when it was not confirmed."""
    try:
        return await operation(*args)
    except StoreUnavailable:
        return await operation(*args)


async def claim(hand: Hand, count: int) -> list[Delivery]:
    """Claim; after a claim that was not confirmed, find first what lies in our name already."""
    try:
        return await hand.take(count)
    except StoreUnavailable:
        return await hand.store.held(hand.name, [QUEUE]) or await hand.take(count)


@pytest.mark.parametrize("method", ["enqueue", "claim", "held", "settle", "release", "promote", "reclaim"])
@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY])
async def test_no_job_is_dropped_whatever_is_lost_on_its_way(
    store: Broker, faults: Faults, method: str, loss: Loss
) -> None:
    """A life of four jobs: one is handed back, one fails, one loses its worker; and one step of it goes wrong."""
    jobs = news(4, retention_ms=60_000)
    hand, lost = Hand(store), Hand(store)
    faults.lose(loss, method)
    await sure(store.enqueue, jobs)
    given_back, failing, *_ = await claim(hand, 2)
    await sure(store.release, [given_back])
    await sure(store.settle, [settlement(failing, RuntimeError("no"))])
    await claim(lost, 1)

    async def all_done() -> bool:
        await sure(store.reclaim, ReclaimPolicy(lease_ms=LEASE_MS))
        await sure(store.promote)
        for delivery in await claim(hand, 5):
            await sure(store.settle, [settlement(delivery)])
        await sure(store.held, hand.name, [QUEUE])
        return set(await store.states(ids(jobs))) == {JobState.COMPLETED}

    await wait_until(all_done, describe="all jobs are done", longest_pause=LEASE_MS / 10_000)
    assert not faults.waiting(method)
    crashes = {record.job.crashes for record in [await store.job(i) for i in ids(jobs)] if record}
    assert crashes <= {0, 1}
