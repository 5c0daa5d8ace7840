"""What a job went through, and what queues did by the hour."""

import json

import pytest
from contracts.outcomes import Cancel, Retry, Skip, Snooze
from contracts.states import JobState
from contracts.topology import QUEUES
from pipeline.broker import Broker
from pipeline.clock import DAY_MS, HOUR_MS, now_ms
from pipeline.records import KEPT, Happened, Happening, HourStat

from tests.support.backends import NOTHING_KEPT, Backend
from tests.support.hand import Hand, ids, new, news, reclaimed, run_all


async def history(store: Broker, job_id: str) -> list[Happening]:
    record = await store.job(job_id)
    assert record is not None
    return list(record.history)


async def told(store: Broker, job_id: str) -> list[tuple[str, str, str]]:
    return [(str(one.what), one.error, one.worker) for one in await history(store, job_id)]


async def test_the_record_tells_each_failure_snooze_and_run_by_hand_up_to_its_end(
    store: Broker, hand: Hand
) -> None:
    job = new(max_retry=2)
    (job_id,) = ids([job])
    before = now_ms()
    await store.enqueue([job])
    await hand.run(Retry(reason="the model is away", after=0))
    await hand.settle(await hand.take_when_due(), Snooze(0.1))
    await hand.settle(await hand.take_when_due(), Skip("no such file"))
    await store.run_now(job_id)
    await hand.run(Cancel("nobody wants it"))
    assert await told(store, job_id) == [
        ("failed", "the model is away", hand.name),
        ("snoozed", "", hand.name),
        ("archived", "no such file", hand.name),
        ("run_now", "", ""),
        ("cancelled", "nobody wants it", hand.name),
    ]
    times = [one.at for one in await history(store, job_id)]
    assert times == sorted(times)
    assert before - 1000 <= times[0] <= times[-1] <= now_ms() + 1000


async def test_a_lost_worker_is_told_with_its_name(store: Broker, hand: Hand) -> None:
    job = new()
    await store.enqueue([job])
    await hand.take_one()
    await reclaimed(store, max_crashes=1)
    other = Hand(store)
    await other.take_one()
    await reclaimed(store, max_crashes=1)
    assert await told(store, job.job.id) == [
        ("lost", "", hand.name),
        ("archived", "lost its worker 2 times", other.name),
    ]


async def test_a_job_that_simply_completes_has_no_history(store: Broker) -> None:
    job = new(retention_ms=60_000)
    await store.enqueue([job])
    await run_all(store)
    assert await history(store, job.job.id) == []


async def test_a_cancel_before_the_start_is_told(store: Broker) -> None:
    job = new()
    await store.enqueue([job])
    await store.cancel([job.job.id])
    assert await told(store, job.job.id) == [("cancelled", "", "")]


async def test_only_the_last_of_many_happenings_are_kept_and_long_errors_are_cut(
    store: Broker, hand: Hand
) -> None:
    job = new(max_retry=100)
    await store.enqueue([job])
    for number in range(KEPT + 5):
        await hand.settle(await hand.take_one(), Retry(reason=f"{number} " + "ошибка" * 200, after=60))
        await store.run_now(job.job.id)
    found = await history(store, job.job.id)
    assert len(found) == KEPT
    assert found[-1].what is Happened.RUN_NOW
    assert found[-2].error.startswith(f"{KEPT + 4} ошибка")
    assert all(len(one.error.encode()) <= 512 for one in found)
    assert found[-2].error.endswith("...(truncated)")
    assert "\ufffd" not in found[-2].error


@pytest.mark.parametrize("state", [JobState.RETRY, JobState.ARCHIVED])
async def test_a_history_is_listed_with_its_job_and_lives_through_a_restart(
    backend: Backend, store: Broker, hand: Hand, state: JobState
) -> None:
    job = new(max_retry=1)
    await store.enqueue([job])
    await hand.run(Retry(reason="again", after=60) if state is JobState.RETRY else Skip("no"))
    before = await history(store, job.job.id)
    assert len(before) == 1
    store = await backend.restart()
    page = await store.tasks("default", state, cursor=None, limit=10)
    assert [list(record.history) for record in page.records] == [before]


async def test_nothing_of_a_history_stays_when_its_job_is_gone(
    backend: Backend, store: Broker, hand: Hand
) -> None:
    before = backend.footprint()
    await store.enqueue([new()])
    await hand.run(Skip("no"))
    (dead,) = await store.dead_letters(list(QUEUES), 10)
    assert "history" not in json.dumps(dict(dead.record))
    await store.forget_dead_letters([dead.death_id])
    await store.prune(NOTHING_KEPT)
    after = backend.footprint()
    assert {kind: number for kind, number in after.items() if number > before.get(kind, 0)} == {}


async def test_each_hour_counts_what_was_processed_failed_and_cancelled_in_it(
    store: Broker, hand: Hand
) -> None:
    jobs = news(6, max_retry=1)
    await store.enqueue(jobs)
    await store.cancel(ids(jobs[:1]))
    await hand.run(Retry(after=60))
    await hand.run(Skip("no"))
    await run_all(store)
    rows = await store.history(24)
    assert [row.queue for row in rows] == [queue for queue in QUEUES for _ in range(24)]
    default = [row for row in rows if row.queue == "default"]
    assert [row.at for row in default] == [default[0].at + HOUR_MS * n for n in range(24)]
    assert default[-1].at % HOUR_MS == 0
    assert default[-1].at <= now_ms() + 1000
    # The hour may have changed meanwhile.
    assert sum(row.processed for row in default[-2:]) == 5
    assert sum(row.failed for row in default[-2:]) == 2
    assert sum(row.cancelled for row in default[-2:]) == 1
    assert [row for row in rows if row not in default[-2:]] == [
        HourStat(row.queue, row.at) for row in rows if row not in default[-2:]
    ]


async def test_the_figures_of_a_day_are_those_of_its_hours(store: Broker) -> None:
    await store.enqueue(news(7))
    await run_all(store)
    (stat,) = [stat for stat in await store.queue_stats() if stat.name == "default"]
    midnight = now_ms() // DAY_MS * DAY_MS
    hours = [row for row in await store.history(24) if row.queue == "default" and row.at >= midnight]
    assert stat.processed == sum(row.processed for row in hours)


@pytest.mark.parametrize("hours", [1, 2, 23, 24, 25, 48, 168])
async def test_as_many_hours_as_asked_for_are_told(store: Broker, hours: int) -> None:
    await store.enqueue([new()])
    await run_all(store)
    rows = [row for row in await store.history(hours) if row.queue == "default"]
    assert len(rows) == hours
    assert rows[-1].at - rows[0].at == (hours - 1) * HOUR_MS
    assert sum(row.processed for row in rows[-2:]) == 1
