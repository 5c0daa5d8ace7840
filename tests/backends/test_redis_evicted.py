"""Keys of ours that somebody deleted, or that an eviction policy took: what can still be told is told, and runs."""

import pytest
from contracts.jobs import Scope, Unique
from contracts.states import JobState
from pipeline.backends.redis import retention
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.keys import Keys
from pipeline.broker import Retention
from pipeline.receipt import Receipt
from pipeline.records import WorkerBeat
from redis import Redis

from tests.support.hand import Hand, ids, new, news, reclaimed, run_all
from tests.support.redis_server import shared
from tests.support.waiting import wait_until

TENANT = Scope("tenant", "7")


@pytest.fixture
def client(redis_url: str) -> Redis:
    return shared().client()


@pytest.mark.parametrize("until", ["done", "started", "ttl"])
async def test_a_pending_job_without_its_record_runs_though_its_own_lock_is_there(
    store: RedisBroker, client: Redis, until: str
) -> None:
    job = new(unique=Unique("k", 60 if until == "ttl" else 0, until))  # type: ignore[arg-type]
    await store.enqueue([job])
    client.delete(record(job.job.id))
    assert await Hand(store).run() is JobState.COMPLETED


async def test_a_running_job_without_its_record_is_handed_on_when_its_worker_is_lost(
    store: RedisBroker, client: Redis
) -> None:
    job = new(scopes=(TENANT,), unique=Unique("k"))
    await store.enqueue([job])
    await Hand(store).take_one()
    client.delete(record(job.job.id))
    (one,) = await reclaimed(store)
    assert (one.job_id, one.state) == (job.job.id, JobState.PENDING)
    assert (await store.enqueue([new(unique=Unique("k"))]))[0].duplicate
    assert await Hand(store).run() is JobState.COMPLETED


async def test_a_running_job_without_its_record_is_seen_and_cancelled_once_it_was_handed_back(
    store: RedisBroker, client: Redis
) -> None:
    job = new()
    await store.enqueue([job])
    delivery = await Hand(store).take_one()
    client.delete(record(job.job.id))
    assert await store.release([delivery]) == 1
    (seen,) = (await store.tasks("default", JobState.PENDING, cursor=None, limit=5)).records
    assert seen.job.id == job.job.id
    await store.cancel([job.job.id])
    assert await store.states([job.job.id]) == [JobState.CANCELLED]
    assert await Hand(store).take() == []


@pytest.mark.parametrize("active", [False, True])
async def test_a_job_whose_entry_was_deleted_is_in_the_way_of_no_enqueue(
    store: RedisBroker, client: Redis, active: bool
) -> None:
    derived, other = new(id="document-1", named=True), new(unique=Unique("k"))
    await store.enqueue([derived, other])
    if active:
        await Hand(store).take(2)
    client.delete(Keys().stream("default"))
    again = new(unique=Unique("k"))
    assert await store.enqueue([derived, again]) == [
        Receipt("document-1", JobState.PENDING),
        Receipt(again.job.id, JobState.PENDING),
    ]
    assert await run_all(store) == ["document-1", again.job.id]


@pytest.mark.parametrize("active", [False, True])
async def test_a_job_whose_entry_was_deleted_is_not_under_way_for_ever_and_its_death_is_told(
    store: RedisBroker, client: Redis, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    gone, kept = news(7, scopes=(TENANT,)), news(7, scopes=(TENANT,), queue="chat_attachment")
    await store.enqueue([*gone, *kept])
    if active:
        await Hand(store).take(7)
    client.delete(Keys().stream("default"))
    for _ in range(5):
        await store.prune(Retention())
    assert await store.states(ids(gone)) == [JobState.ARCHIVED] * 7
    assert {letter.job_id for letter in await store.dead_letters(["default"], 20)} == set(ids(gone))
    assert await run_all(store, "chat_attachment") == ids(kept)
    assert not await store.has_queued(TENANT)


async def test_a_scope_forgets_jobs_whose_records_were_deleted(store: RedisBroker, client: Redis) -> None:
    job = new(scopes=(TENANT,), delay_ms=60_000)
    await store.enqueue([job])
    client.delete(record(job.job.id))
    await store.prune(Retention())
    assert not await store.has_queued(TENANT)


async def test_a_kept_job_whose_record_was_deleted_is_counted_no_longer_than_it_was_to_be_kept(
    store: RedisBroker, client: Redis
) -> None:
    job = new(retention_ms=1)
    await store.enqueue([job])
    await Hand(store).run()
    client.delete(record(job.job.id))

    async def none_left() -> bool:
        await store.prune(Retention())
        return not client.keys("sl:{core}:q:default:completed") and not client.keys("sl:{core}:expiring")

    await wait_until(none_left, describe="nothing of it is left")


async def test_without_their_registry_no_workers_live_until_they_speak_again(
    store: RedisBroker, client: Redis
) -> None:
    beat = WorkerBeat("host:1:2", "host", 1, 1, "running", ())
    await store.heartbeat(beat, 60_000)
    client.delete("sl:{workers}")
    assert await store.workers() == []
    await store.prune(Retention())
    await store.heartbeat(beat, 60_000)
    assert [one.worker for one in await store.workers()] == [beat.worker]


def record(job_id: str) -> str:
    return f"sl:{{core}}:job:{job_id}"
