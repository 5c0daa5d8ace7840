"""What people and tools see: one job, pages that survive what changes under them, figures a queue."""

from dataclasses import dataclass
from typing import Any

import pytest
from contracts.jobs import Scope
from contracts.outcomes import Retry, Skip
from contracts.states import JobState
from contracts.topology import QUEUES
from pipeline.broker import Broker, NewJob
from pipeline.clock import now_ms
from pipeline.errors import CursorExpired, CursorInvalid
from pipeline.records import PoolBeat, Progress, TaskFilter, WorkerBeat

from tests.conformance.conftest import Insist
from tests.support.backends import Backend
from tests.support.hand import Hand, ids, new, news, run_all
from tests.support.waiting import wait_until

ANY = TaskFilter()
ENDED = [JobState.COMPLETED, JobState.ARCHIVED, JobState.CANCELLED]


async def put(store: Broker, hand: Hand, state: JobState, count: int) -> list[NewJob]:
    """Bring `count` jobs into a state, one after the other."""
    delay = {JobState.SCHEDULED: 60_000}.get(state, 0)
    jobs = (
        [new(retention_ms=60_000, max_retry=5, delay_ms=delay + number) for number in range(count)]
        if delay
        else []
    )
    jobs = jobs or news(count, retention_ms=60_000, max_retry=5)
    await store.enqueue(jobs)
    if state is JobState.CANCELLED:
        for job in jobs:
            await store.cancel([job.job.id])
    outcomes = {JobState.RETRY: Retry(after=60), JobState.ARCHIVED: Skip("no"), JobState.COMPLETED: None}
    for _ in jobs if state in outcomes else ():
        await hand.run(outcomes[state])
    if state is JobState.ACTIVE:
        await hand.take(count)
    return jobs


async def listed(store: Broker, state: JobState, *, limit: int = 3, match: TaskFilter = ANY) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = await store.tasks("default", state, cursor=cursor, limit=limit, match=match)
        assert len(page.records) <= limit
        assert {record.state for record in page.records} <= {state}
        found += [record.job.id for record in page.records]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("state", JobState)
async def test_all_of_a_state_are_listed_once_page_by_page(
    store: Broker, hand: Hand, state: JobState
) -> None:
    jobs = await put(store, hand, state, 10)
    assert sorted(await listed(store, state)) == sorted(ids(jobs))
    for other in set(JobState) - {state}:
        assert await listed(store, other) == []


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.ACTIVE])
async def test_pending_and_active_come_newest_first(store: Broker, hand: Hand, state: JobState) -> None:
    jobs = await put(store, hand, state, 7)
    assert await listed(store, state) == ids(jobs)[::-1]


@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.RETRY])
async def test_what_waits_for_its_time_comes_by_that_time(store: Broker, hand: Hand, state: JobState) -> None:
    jobs = await put(store, hand, state, 7)
    await store.enqueue([new(delay_ms=1000)])
    assert [i for i in await listed(store, state) if i in ids(jobs)] == ids(jobs)


@pytest.mark.parametrize("state", ENDED)
async def test_what_has_ended_comes_newest_first(store: Broker, hand: Hand, state: JobState) -> None:
    jobs = await put(store, hand, state, 7)
    assert await listed(store, state) == ids(jobs)[::-1]


async def test_a_page_goes_on_where_the_last_one_stopped_whatever_changed_meanwhile(
    store: Broker, hand: Hand
) -> None:
    """Nobody is skipped or told twice because of deletes of what was told, or of newcomers."""
    jobs = await put(store, hand, JobState.ARCHIVED, 12)
    first = await store.tasks("default", JobState.ARCHIVED, cursor=None, limit=5)
    for record in first.records[2:]:  # among them the one that the cursor stands at
        await store.delete(record.job.id)
    await put(store, hand, JobState.ARCHIVED, 3)
    second = await store.tasks("default", JobState.ARCHIVED, cursor=first.next_cursor, limit=100)
    told = [record.job.id for record in (*first.records, *second.records)]
    assert told == ids(jobs)[::-1]
    assert second.next_cursor is None


async def test_a_page_that_is_exactly_full_is_followed_by_nothing_or_an_empty_one(
    store: Broker, hand: Hand
) -> None:
    jobs = await put(store, hand, JobState.PENDING, 6)
    assert await listed(store, JobState.PENDING, limit=6) == ids(jobs)[::-1]
    assert await listed(store, JobState.PENDING, limit=1) == ids(jobs)[::-1]


@pytest.mark.parametrize("cursor", ["x", "AAAA", "%%%", "é", "bnVsbA", "W10", "1" * 5000])
async def test_a_cursor_made_by_hand_is_refused(store: Broker, cursor: str) -> None:
    with pytest.raises((CursorInvalid, CursorExpired)):
        await store.tasks("default", JobState.PENDING, cursor=cursor, limit=5)


async def test_a_cursor_of_another_listing_is_refused(store: Broker, hand: Hand) -> None:
    await put(store, hand, JobState.PENDING, 4)
    cursor = (await store.tasks("default", JobState.PENDING, cursor=None, limit=2)).next_cursor
    assert cursor is not None
    with pytest.raises(CursorInvalid):
        await store.tasks("default", JobState.ARCHIVED, cursor=cursor, limit=2)
    with pytest.raises(CursorInvalid):
        await store.tasks("summary", JobState.PENDING, cursor=cursor, limit=2)


async def test_a_listing_is_narrowed_by_type_scope_and_error(store: Broker, hand: Hand) -> None:
    scope = Scope("knowledge", "k")
    by_scope, by_type, by_error = new(scopes=(scope,)), new(type="test:other"), new()
    await store.enqueue([*news(5), by_scope, by_type, by_error])
    for delivery in await hand.take(20):
        failure = "disk is full" if delivery.job_id == by_error.job.id else "no"
        await hand.settle(delivery, Skip(failure))
    for match, job in (
        (TaskFilter(scope=scope), by_scope),
        (TaskFilter(type="test:other"), by_type),
        (TaskFilter(error="disk is"), by_error),
    ):
        assert await listed(store, JobState.ARCHIVED, match=match) == [job.job.id]
    assert await listed(store, JobState.ARCHIVED, match=TaskFilter(type="nobody")) == []


ODD: list[tuple[Any, Any, Any]] = [
    (float("inf"), 1, ""), (None, None, None), (True, 2, 'a "word"'), ("half", 1, "\x00"), (0.5, 10**30, "\ud800"),
]  # fmt: skip


@pytest.mark.parametrize("said", ODD, ids=repr)
async def test_whatever_a_handler_says_of_its_progress_the_job_can_be_seen(
    store: Broker, hand: Hand, said: tuple[Any, Any, Any]
) -> None:
    """It made the record unreadable, and with it every list that the job was in."""
    job = new(retention_ms=60_000)
    await store.enqueue([job])
    delivery = await hand.take_one()
    assert await store.report(delivery, Progress(*said))
    (record,) = (await store.tasks("default", JobState.ACTIVE, cursor=None, limit=5)).records
    assert record.progress is not None
    assert (record.progress.done, record.progress.total, record.progress.stage) == said


async def test_a_record_says_all_that_is_known(store: Broker, hand: Hand) -> None:
    job = new(scopes=(Scope("tenant", "7"),), data='{"a":1}')
    before = now_ms()
    await store.enqueue([job])
    delivery = await hand.take_one()
    assert await store.report(delivery, Progress(3, 9, "embedding"))
    record = await store.job(job.job.id)
    assert record is not None
    assert (record.state, record.consumer) == (JobState.ACTIVE, hand.name)
    assert (record.job.data, record.job.scopes) == ('{"a":1}', (Scope("tenant", "7"),))
    assert record.claimed_at >= record.job.enqueued_at >= before - 1000
    progress = record.progress
    assert progress is not None
    assert (progress.done, progress.total, progress.stage) == (3, 9, "embedding")
    await hand.settle(delivery, Skip("no"))
    ended = await store.job(job.job.id)
    assert ended is not None
    assert ended.ended_at >= record.claimed_at
    assert await store.job("never-heard-of") is None
    assert await store.states(["never-heard-of"]) == [None]


async def test_every_queue_has_a_row_in_registry_order_also_where_nothing_ever_was(store: Broker) -> None:
    stats = await store.queue_stats()
    assert [stat.name for stat in stats] == list(QUEUES)
    assert all(stat.size == stat.processed == stat.latency_ms == 0 and not stat.paused for stat in stats)
    assert [(stat.pool, stat.weight) for stat in stats] == [(q.pool, q.weight) for q in QUEUES.values()]


async def test_a_queue_counts_its_jobs_by_state_and_its_day(store: Broker, hand: Hand) -> None:
    for number, state in enumerate(
        [JobState.COMPLETED, JobState.ARCHIVED, JobState.CANCELLED, JobState.RETRY, JobState.ACTIVE], 1
    ):
        await put(store, hand, state, number)
    await put(store, hand, JobState.SCHEDULED, 6)
    await put(store, hand, JobState.PENDING, 7)
    (stat,) = [stat for stat in await store.queue_stats() if stat.name == "default"]
    counted = (
        stat.completed,
        stat.archived,
        stat.cancelled,
        stat.retry,
        stat.active,
        stat.scheduled,
        stat.pending,
    )
    assert counted == (1, 2, 3, 4, 5, 6, 7)
    assert stat.size == 4 + 5 + 6 + 7
    # processed counts attempts that ended, failed those that did not end well
    assert (stat.processed, stat.failed, stat.cancelled_today) == (1 + 2 + 4, 2 + 4, 3)


async def test_the_latency_of_a_queue_is_the_age_of_its_oldest_pending_job(store: Broker) -> None:
    await store.enqueue([new()])

    async def aged() -> bool:
        (stat,) = [stat for stat in await store.queue_stats() if stat.name == "default"]
        return stat.latency_ms >= 50

    await wait_until(aged, describe="the oldest job is 50 ms old")
    await run_all(store)
    assert not await aged()


async def test_a_counted_day_survives_a_restart(backend: Backend, store: Broker, hand: Hand) -> None:
    await store.enqueue([new()])
    await hand.run()
    store = await backend.restart()
    (stat,) = [stat for stat in await store.queue_stats() if stat.name == "default"]
    assert (stat.processed, stat.failed) == (1, 0)


async def test_who_works_is_listed_while_it_lives(store: Broker, insist: Insist) -> None:
    beat = WorkerBeat("w1", "host", 4711, now_ms(), "running", (PoolBeat("core", 8, 3, {"default": 1}),))
    await insist(store.heartbeat, beat, 60_000)
    (seen,) = await store.workers()
    assert (seen.worker, seen.pid, seen.pools) == ("w1", 4711, beat.pools)
    assert seen.seen_at > 0
    await insist(store.forget, "w1")
    assert await store.workers() == []


async def test_a_worker_that_says_nothing_any_more_is_no_longer_listed(store: Broker) -> None:
    await store.heartbeat(WorkerBeat("w1", "host", 1, now_ms(), "running", ()), 40)

    async def gone() -> bool:
        return await store.workers() == []

    await wait_until(gone, describe="its time is over")


async def test_a_worker_of_a_newer_version_is_listed_though_it_says_more(store: Broker) -> None:
    @dataclass(frozen=True)
    class NewerPool(PoolBeat):
        mood: str = "good"

    @dataclass(frozen=True)
    class Newer(WorkerBeat):
        mood: str = "good"

    pools = (NewerPool("core", 8, 3, {"default": 1}),)
    await store.heartbeat(Newer("w1", "host", 4711, now_ms(), "running", pools), 60_000)
    (seen,) = await store.workers()
    assert (seen.worker, seen.pools) == ("w1", (PoolBeat("core", 8, 3, {"default": 1}),))
