"""What Redis alone has to get right when it is looked at: two streams in one list, many jobs at one time, large lists."""

import pytest
from contracts.jobs import Scope
from contracts.outcomes import Skip
from contracts.states import JobState
from pipeline import cursors
from pipeline.backends.redis import listing
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.keys import Keys
from pipeline.broker import CancelOutcome
from pipeline.clock import now_ms
from pipeline.errors import CursorInvalid, WaitTimeout
from pipeline.records import ANY, TaskFilter

from tests.support.hand import Hand, ids, new, news
from tests.support.redis_server import RedisServer, shared
from tests.support.redis_workers import opened
from tests.support.waiting import wait_until
from tests.support.work import Work

DEFAULT = Keys().stream("default")
AGAIN = Keys().stream("default", again=True)


async def listed(
    store: RedisBroker, state: JobState, *, limit: int = 3, match: TaskFilter = ANY, queue: str = "default"
) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = await store.tasks(queue, state, cursor=cursor, limit=limit, match=match)
        found += [record.job.id for record in page.records]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def next_millisecond() -> None:
    """Within one, two streams have no common order."""
    with shared().client() as client:
        before = client.time()
        await wait_until(lambda: client.time()[1] // 1000 != before[1] // 1000, describe="time passes")


async def test_what_is_fresh_and_what_comes_again_are_one_list_newest_first(store: RedisBroker) -> None:
    first = news(2)
    await store.enqueue(first)
    taken = await Hand(store).take(2)
    between = news(3)
    await store.enqueue(between)
    await next_millisecond()
    for one in taken:
        await store.release([one])
    await next_millisecond()
    last = news(2)
    await store.enqueue(last)
    order = [*ids(between), *ids(first), *ids(last)][::-1]
    for limit in (1, 2, 3, 100):
        assert await listed(store, JobState.PENDING, limit=limit) == order
    running = await Hand(store).take(5)
    active = {one.job_id for one in running}
    assert await listed(store, JobState.PENDING, limit=2) == [one for one in order if one not in active]
    assert await listed(store, JobState.ACTIVE, limit=2) == [one for one in order if one in active]


async def test_two_entries_with_one_id_are_both_told_once(store: RedisBroker) -> None:
    jobs = news(6)
    with shared().client() as client:
        for number, job in enumerate(jobs):
            again = number % 2 == 1
            entry = f"{1000 + number // 2}-5"
            body = {"id": job.job.id, "type": "test:work", "data": "{}", "opts": "{}"}
            client.xadd(AGAIN if again else DEFAULT, body, id=entry)
            state = {"queue": "default", "state": "pending", "entry": f"again:{entry}" if again else entry}
            client.hset(f"{Keys().prefix('core')}job:{job.job.id}", mapping=state)
    for limit in (1, 2, 3, 4, 5):
        assert await listed(store, JobState.PENDING, limit=limit) == ids(jobs)[::-1]


async def test_many_jobs_of_one_time_are_each_told_once_whoever_of_them_goes(store: RedisBroker) -> None:
    at = now_ms() + 3_600_000
    jobs = [new(run_at=at) for _ in range(40)]
    await store.enqueue(jobs)
    in_order = sorted(ids(jobs))
    page = await store.tasks("default", JobState.SCHEDULED, cursor=None, limit=13)
    assert [record.job.id for record in page.records] == in_order[:13]
    await store.cancel(in_order[11:15])  # among them the one that the cursor stands at
    rest = await store.tasks("default", JobState.SCHEDULED, cursor=page.next_cursor, limit=100)
    assert [record.job.id for record in rest.records] == in_order[15:]
    with shared().client() as client:
        cancelled = [
            one for one, _ in client.zrange(f"{DEFAULT}:cancelled", 0, -1, desc=True, withscores=True)
        ]
    assert await listed(store, JobState.CANCELLED, limit=1) == cancelled


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.SCHEDULED])
async def test_a_filter_that_finds_little_gives_short_pages_and_misses_nothing(
    store: RedisBroker, monkeypatch: pytest.MonkeyPatch, state: JobState
) -> None:
    monkeypatch.setattr(listing, "LOOK_S", 0)
    delay = 60_000 if state is JobState.SCHEDULED else 0
    many = [new(delay_ms=delay) for _ in range(1_400)]
    wanted = [new(delay_ms=delay, type="test:other") for _ in range(3)]
    await store.enqueue([*many[:700], wanted[0], *many[700:], *wanted[1:]])
    match = TaskFilter(type="test:other")
    page = await store.tasks("default", state, cursor=None, limit=100, match=match)
    assert page.next_cursor is not None
    assert sorted(await listed(store, state, limit=100, match=match)) == sorted(ids(wanted))
    number, more = await store.count("default", state, match)
    assert number < 3 or not more


@pytest.mark.parametrize("few", [2_000, 0], ids=["by its index", "by the queue"])
async def test_the_jobs_of_a_scope_come_in_the_same_order_however_they_are_found(
    store: RedisBroker, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(listing, "FEW", few)
    match = TaskFilter(scope=Scope("knowledge", "k"))
    jobs = news(12, scopes=(match.scope,))
    for mine, other in zip(jobs, news(12), strict=True):
        await store.enqueue([other, mine])
    for delivery in await Hand(store).take(6):
        await next_millisecond()
        await store.release([delivery])
    order = [*ids(jobs[:3])[::-1], *ids(jobs[3:])[::-1]]
    for limit in (1, 5, 100):
        assert await listed(store, JobState.PENDING, limit=limit, match=match) == order
    assert await store.count("default", JobState.PENDING, match) == (12, False)
    late = [new(delay_ms=60_000 + n, scopes=(match.scope,)) for n in range(5)]
    await store.enqueue([*late[::-1], new(delay_ms=60_000)])
    for limit in (1, 2, 100):
        assert await listed(store, JobState.SCHEDULED, limit=limit, match=match) == ids(late)


async def test_a_page_of_a_scope_goes_on_where_a_page_of_the_queue_ended(
    store: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    match = TaskFilter(scope=Scope("knowledge", "k"))
    jobs = news(6, scopes=(match.scope,))
    await store.enqueue(jobs)
    monkeypatch.setattr(listing, "FEW", 0)
    page = await store.tasks("default", JobState.PENDING, cursor=None, limit=2, match=match)
    monkeypatch.setattr(listing, "FEW", 2_000)
    rest = await store.tasks("default", JobState.PENDING, cursor=page.next_cursor, limit=10, match=match)
    assert [record.job.id for record in rest.records] == ids(jobs)[::-1][2:]


async def test_a_fence_that_the_sweep_has_not_come_to_yet_is_named(store: RedisBroker) -> None:
    job = new(scopes=(Scope("tenant", "7"), Scope("knowledge_base", "kb")))
    await store.enqueue([job])
    with shared().client() as client:
        client.hset("sl:{core}:fence:knowledge_base|kb", "*kb:delete", now_ms() + 60_000)
        client.zadd("sl:{core}:fences", {"knowledge_base|kb": now_ms() + 60_000})
    found = await store.obstacles("default", job.job.id)
    assert found.fence == Scope("knowledge_base", "kb")


async def test_large_bodies_come_in_several_answers(store: RedisBroker) -> None:
    jobs = news(8, data=f'"{"x" * 400_000}"')
    for job in jobs:
        await store.enqueue([job])
    assert await listed(store, JobState.PENDING, limit=100) == ids(jobs)[::-1]


ACTIVE, RETRY = JobState.ACTIVE, JobState.RETRY
MADE_UP: list[tuple[JobState, cursors.Place]] = [
    (ACTIVE, (0, "x")), (ACTIVE, (0, "0-0")), (ACTIVE, (1, "9" * 20 + "-1")), (ACTIVE, (0, "")), (ACTIVE, (0, "1-1 ")),
    (ACTIVE, (1, 2)), (RETRY, (1, 2)), (RETRY, (0, "")), (RETRY, (0, "\ud800")),
]  # fmt: skip


@pytest.mark.parametrize(("state", "place"), MADE_UP)
async def test_a_place_that_was_made_up_is_refused(
    store: RedisBroker, state: JobState, place: cursors.Place
) -> None:
    with pytest.raises(CursorInvalid):
        await store.tasks("default", state, cursor=cursors.encode("default", state, place), limit=5)


async def test_an_envelope_that_cannot_be_read_is_seen_all_the_same(store: RedisBroker) -> None:
    with shared().client() as client:
        client.xadd(
            DEFAULT, {"id": "odd", "type": "test:work", "data": "no JSON", "opts": "none", "state": "x"}
        )
    await Hand(store).take_one()
    found = await store.job("odd")
    assert found is not None
    assert (found.state, found.job.type, found.job.data) == (JobState.ACTIVE, "test:work", "no JSON")
    assert await listed(store, JobState.ACTIVE) == ["odd"]


async def test_the_scopes_with_work_are_all_found_however_many(store: RedisBroker) -> None:
    names = {f"k{number}" for number in range(1200)}
    await store.enqueue([new(scopes=(Scope("knowledge", name),)) for name in sorted(names)])
    await store.enqueue([new(type="test:other", scopes=(Scope("knowledge", "k7"),), queue="wiki")])
    await store.enqueue([new(scopes=(Scope("knowledge_base", "b"),))])
    types = frozenset({"test:other", *(f"test:{number}" for number in range(20))})
    assert await store.queued_ids("knowledge") == names
    assert await store.queued_ids("knowledge", types) == {"k7"}
    assert await store.queued_ids("knowledge", frozenset()) == set()
    assert await store.has_queued(Scope("knowledge", "k7"), types)
    assert not await store.has_queued(Scope("knowledge", "k8"), types)
    assert not await store.has_queued(Scope("knowledge", "k"), None)
    assert not await store.has_queued(Scope("knowledge", "k7"), frozenset())


async def test_an_id_that_lives_in_one_home_and_ended_in_another_lives(store: RedisBroker) -> None:
    for queue in ("agent", "wiki", "default"):
        await store.enqueue([new(id="one", named=True, queue=queue)])
        if queue != "wiki":
            await Hand(store).run(queue=queue)
    assert await store.states(["one", "none"]) == [JobState.PENDING, None]
    found = await store.job("one")
    assert found is not None
    assert found.job.queue == "wiki"
    assert await store.cancel(["one", "none"]) == [CancelOutcome.CANCELLED, CancelOutcome.NOT_FOUND]


async def test_what_is_counted_needs_no_group_and_says_what_it_costs(store: RedisBroker) -> None:
    await store.enqueue([*news(5), *news(4, delay_ms=60_000)])
    (stat,) = [stat for stat in await store.queue_stats() if stat.name == "default"]
    assert (stat.pending, stat.active, stat.scheduled) == (5, 0, 4)
    assert stat.memory_usage_bytes > 9 * 100
    with shared().client() as client:
        assert client.xinfo_groups(DEFAULT) == []
    await Hand(store).take(2)
    (stat,) = [stat for stat in await store.queue_stats() if stat.name == "default"]
    assert (stat.pending, stat.active) == (3, 2)


async def test_who_waits_for_a_job_asks_less_and_less_often(redis_server: RedisServer) -> None:
    async with opened(redis_server.url) as pipeline:
        receipt = await pipeline.enqueue(Work(), delay=60)
        with pytest.raises(WaitTimeout):
            await pipeline.wait(receipt.id, timeout=2)
    with redis_server.client() as client:
        assert client.info("commandstats")["cmdstat_evalsha"]["calls"] < 500


async def test_a_history_that_somebody_spoilt_keeps_no_job_from_ending(store: RedisBroker) -> None:
    for spoilt in ("{", '"x"', "[1]", '[[1, "failed", 2, 3, 4, 5]]', '{"a": 1}', "[]", "null"):
        job = new()
        await store.enqueue([job])
        with shared().client() as client:
            client.hset(f"sl:{{core}}:job:{job.job.id}", "history", spoilt)
        record = await store.job(job.job.id)
        assert record is not None
        assert record.history == ()
        assert await Hand(store).run(Skip("no")) is JobState.ARCHIVED
        assert (await store.job(job.job.id)) is not None


async def test_what_was_counted_before_hours_were_is_still_part_of_the_day(store: RedisBroker) -> None:
    await store.enqueue([new()])
    await Hand(store).run()
    with shared().client() as client:
        (key,) = client.scan_iter(match="sl:{core}:stats:default:*")
        client.hset(str(key), "processed", 3)
    (stat,) = [stat for stat in await store.queue_stats() if stat.name == "default"]
    assert stat.processed == 4
    assert sum(row.processed for row in await store.history(24)) == 1
