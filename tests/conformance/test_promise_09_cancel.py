"""Promise 9: cancel works in every state, cluster-wide; nothing that descends from what was cancelled runs.

Cancel by id. Fences and scopes: test_promise_09_fences.py; running handlers: test_promise_09_cancel_running.py.
"""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import JobState
from pipeline.broker import Broker, CancelOutcome, Retention
from pipeline.errors import NotAllowed

from tests.conformance.conftest import Insist
from tests.support.backends import Backend
from tests.support.hand import Hand, ids, new, news, reclaimed, run_all, state
from tests.support.waiting import wait_until

CANCELLED, SIGNALLED = CancelOutcome.CANCELLED, CancelOutcome.SIGNALLED
TOO_LATE, NOT_FOUND = CancelOutcome.TOO_LATE, CancelOutcome.NOT_FOUND

Waiting = Callable[[Broker, Hand], Awaitable[str]]
WAITING: dict[str, Waiting] = {}


def a_wait(way: Waiting) -> Waiting:
    WAITING[way.__name__] = way
    return way


async def enqueued(store: Broker, **fields: Any) -> str:
    (receipt,) = await store.enqueue([new(max_retry=5, **fields)])
    return receipt.id


@a_wait
async def pending(store: Broker, hand: Hand) -> str:
    return await enqueued(store)


@a_wait
async def scheduled(store: Broker, hand: Hand) -> str:
    return await enqueued(store, delay_ms=60_000)


@a_wait
async def snoozed(store: Broker, hand: Hand) -> str:
    job = await enqueued(store)
    await hand.run(Snooze(60))
    return job


@a_wait
async def retrying(store: Broker, hand: Hand) -> str:
    job = await enqueued(store)
    await hand.run(Retry(after=60))
    return job


@a_wait
async def released(store: Broker, hand: Hand) -> str:
    job = await enqueued(store)
    await store.release([await hand.take_one()])
    return job


@a_wait
async def orphaned_and_reclaimed(store: Broker, hand: Hand) -> str:
    job = await enqueued(store)
    await hand.take_one()
    await reclaimed(store)
    return job


@a_wait
async def in_a_paused_queue(store: Broker, hand: Hand) -> str:
    await store.pause("default")
    return await enqueued(store)


@pytest.mark.parametrize("way", WAITING)
async def test_what_waits_is_cancelled_and_never_starts(
    store: Broker, hand: Hand, insist: Insist, way: str
) -> None:
    job_id = await WAITING[way](store, hand)
    assert await insist(store.cancel, [job_id]) == [CANCELLED]  # also when it was cancelled by the first try
    assert await state(store, job_id) is JobState.CANCELLED
    await store.resume("default")
    await store.promote()
    assert await run_all(store) == []
    with pytest.raises(NotAllowed):
        await store.run_now(job_id)


@pytest.mark.parametrize(
    "outcome",
    [RuntimeError("stopped"), Retry(after=0), Snooze(0.1), Skip("no"), Cancel("stopped")],
    ids=repr,
)
async def test_a_running_job_is_told_and_ends_cancelled_whatever_it_says(
    store: Broker, hand: Hand, insist: Insist, outcome: BaseException
) -> None:
    job = new(max_retry=5)
    await store.enqueue([job])
    running = await hand.take_one()
    assert await insist(store.cancel, [job.job.id]) == [SIGNALLED]
    record = await store.job(job.job.id)
    assert record is not None
    assert (record.state, record.cancel_requested) == (JobState.ACTIVE, True)
    assert await hand.renewing([running]) == ["cancel"]
    assert await hand.settle(running, outcome) is JobState.CANCELLED
    record = await store.job(job.job.id)
    assert record is not None
    assert (record.state, record.reason) == (JobState.CANCELLED, None)
    assert await store.dead_letters(["default"], 5) == []


async def test_work_that_was_done_nevertheless_is_done_and_the_canceller_is_told(
    store: Broker, hand: Hand
) -> None:
    job = new(retention_ms=60_000)
    await store.enqueue([job])
    running = await hand.take_one()
    assert await store.cancel([job.job.id]) == [SIGNALLED]
    assert await hand.settle(running, Done()) is JobState.COMPLETED
    assert await store.cancel([job.job.id]) == [TOO_LATE]
    assert await state(store, job.job.id) is JobState.COMPLETED


async def test_done_without_retention_and_cancelled_then_is_too_late_too_if_the_id_is_known(
    store: Broker, hand: Hand
) -> None:
    job = new(named=True)
    await store.enqueue([job])
    await hand.run()
    assert await store.cancel([job.job.id]) == [TOO_LATE]


async def test_a_cancelled_job_whose_worker_is_lost_ends_cancelled(store: Broker, hand: Hand) -> None:
    job = new()
    await store.enqueue([job])
    await hand.take_one()
    await store.cancel([job.job.id])
    (taken,) = await reclaimed(store)
    assert taken.state is JobState.CANCELLED
    assert await run_all(store) == []


async def test_a_cancelled_job_that_is_handed_back_ends_cancelled(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    job = new()
    await store.enqueue([job])
    running = await hand.take_one()
    await store.cancel([job.job.id])
    await insist(store.release, [running])
    assert await run_all(store) == []
    assert await state(store, job.job.id) is JobState.CANCELLED


@pytest.mark.parametrize("outcome", [Done(), Skip("no")], ids=repr)
async def test_what_has_ended_is_left_alone(store: Broker, hand: Hand, outcome: BaseException) -> None:
    job = new(retention_ms=60_000)
    await store.enqueue([job])
    ended = await hand.run(outcome)
    assert await store.cancel([job.job.id]) == [TOO_LATE]
    assert await state(store, job.job.id) is ended


async def test_each_is_answered_for_itself_also_what_nobody_knows(store: Broker, hand: Hand) -> None:
    running, waiting = news(2)
    await store.enqueue([running, waiting])
    await hand.take_one()
    asked = [*ids([running, waiting]), "never-heard-of", waiting.job.id]
    assert await store.cancel(asked) == [SIGNALLED, CANCELLED, NOT_FOUND, CANCELLED]


async def test_another_process_is_told_that_somebody_cancels(backend: Backend, store: Broker) -> None:
    told = threading.Event()
    end = store.on_signal(told.set)
    other = await backend.open()
    await other.enqueue([new()])
    running = await Hand(other).take_one()
    await other.cancel([running.job_id])
    await wait_until(told.is_set, describe="the signal arrived")
    end()


async def test_a_cancelled_job_is_kept_for_a_while_and_counted(store: Broker, hand: Hand) -> None:
    jobs = news(2)
    await store.enqueue(jobs)
    running = await hand.take_one()
    await store.cancel(ids(jobs))
    await hand.settle(running, RuntimeError("stopped"))
    (stat,) = [s for s in await store.queue_stats() if s.name == "default"]
    assert (stat.cancelled, stat.cancelled_today, stat.size) == (2, 2, 0)
    assert (stat.processed, stat.failed) == (0, 0)
    await store.prune(Retention())
    assert len(await store.states(ids(jobs))) == 2
    await store.prune(Retention(cancelled_ms=0))
    assert await store.job(running.job_id) is None
