"""What Redis keeps, and for how long: retention in steps, consumers of lost workers, deaths, locks, workers."""

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope, Unique
from contracts.outcomes import Retry, Skip, Snooze
from contracts.states import JobState
from pipeline.backends.redis import retention
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.keys import Keys
from pipeline.broker import ReclaimPolicy, Retention
from pipeline.clock import now_ms
from pipeline.records import WorkerBeat

from tests.support.hand import Hand, ids, new, news, reclaimed, settlement, state
from tests.support.redis_server import shared
from tests.support.waiting import wait_until

K = Scope("knowledge", "k")
DAY_MS = 86_400_000


async def archived(store: RedisBroker, count: int, queue: str = "default") -> list[str]:
    jobs = news(count, queue=queue)
    await store.enqueue(jobs)
    for _ in jobs:
        await Hand(store).run(Skip("no"), queue)
    return ids(jobs)


async def test_an_id_that_we_made_is_known_for_a_minute_after_its_end(store: RedisBroker) -> None:
    job = new()
    await store.enqueue([job])
    await Hand(store).run()
    await store.prune(Retention(tombstone_ms=0))
    assert await state(store, job.job.id) is JobState.COMPLETED
    await store.prune(Retention(repeat_ms=0))
    assert await state(store, job.job.id) is None


async def test_more_than_one_step_removes_is_removed_all_the_same(
    store: RedisBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    jobs = [*await archived(store, 6), *await archived(store, 5, "chat_attachment")]
    done = news(7, retention_ms=1)
    await store.enqueue(done)
    for _ in done:
        await Hand(store).run()
    assert (await store.prune(Retention(archived_max=4))).jobs >= 7
    assert [bool(await store.job(one)) for one in jobs] == [False] * 7 + [True] * 4

    async def gone() -> bool:
        await store.prune(Retention())
        return not any([await store.job(one) for one in ids(done)])

    await wait_until(gone, describe="what was kept for a moment is gone")
    assert (await store.prune(Retention(archived_ms=0, tombstone_ms=0, repeat_ms=0))).jobs == 4
    assert await store.states(jobs) == [None] * 11


async def test_a_fence_is_kept_from_when_it_was_written_not_from_its_cut(store: RedisBroker) -> None:
    old = now_ms() - 8 * DAY_MS
    await store.cancel_scope(K, EVERYTHING, old)
    assert (await store.prune(Retention())).fences == 0
    late = new(scopes=(K,), root_at=old, root_id="r")
    (receipt,) = await store.enqueue([late])
    assert receipt.state is JobState.CANCELLED
    with shared().client() as client:
        for key in client.scan_iter("sl:*fence:knowledge|k"):
            assert client.pttl(key) > 6 * DAY_MS
            client.delete(key)  # its time is over
        assert (await store.prune(Retention())).fences > 0
        assert not list(client.scan_iter("sl:*fences"))


async def test_consumers_go_with_their_worker_but_for_what_they_hold(store: RedisBroker) -> None:
    await store.enqueue(news(4))
    for name in ("lives/core", "gone/core", "gone/shared", "alone"):
        (delivery,) = await store.claim(name, [("default", 1)])
        if name != "gone/shared":
            await store.settle([settlement(delivery)])
    await store.heartbeat(WorkerBeat("lives", "host", 1, 1, "running", ()), 60_000)
    await store.prune(Retention())
    with shared().client() as client:
        left = client.xinfo_consumers(Keys().stream("default"), "core")
    assert {one["name"] for one in left} == {"lives/core", "gone/shared"}


async def test_the_oldest_deaths_come_first_whichever_home_they_are_in(store: RedisBroker) -> None:
    died = []
    for queue in ("default", "wiki", "chat_attachment", "default", "wiki"):
        died += await archived(store, 1, queue)
    everywhere = await store.dead_letters(["default", "wiki", "chat_attachment"], 4)
    assert [one.died_at for one in everywhere] == sorted(one.died_at for one in everywhere)
    assert {one.job_id for one in everywhere} == set(died[:4])
    assert [one.job_id for one in await store.dead_letters(["chat_attachment"], 9)] == [died[2]]
    await store.forget_dead_letters([one.death_id for one in everywhere])
    await store.forget_dead_letters([one.death_id for one in everywhere])
    (last,) = await store.dead_letters(["wiki", "default", "chat_attachment"], 9)
    assert (last.job_id, last.queue, last.record["id"]) == (died[4], "wiki", died[4])


async def test_of_two_deaths_with_one_entry_id_the_other_stays(store: RedisBroker) -> None:
    with shared().client() as client:
        for last, stream in enumerate(
            ("dead", "dead:tended")
        ):  # what is written in one millisecond is counted
            client.xadd(f"{Keys().prefix('core')}{stream}", {"queue": "wiki"}, f"9999999999999-{last}")
            client.xtrim(f"{Keys().prefix('core')}{stream}", maxlen=0)
    first, second = await archived(store, 2)
    tended, untended = await store.dead_letters(["default"], 5)
    assert (tended.job_id, untended.job_id) == (first, second)
    for _ in range(3):  # whoever missed the reply asks again
        await store.tend_dead_letters([tended.death_id])
    assert await store.dead_letters(["default"], 5) == [untended]
    for _ in range(3):
        await store.forget_dead_letters([tended.death_id])
    assert await store.dead_letters(["default"], 5, tended=True) == []
    assert await store.dead_letters(["default"], 5) == [untended]


async def test_a_death_behind_many_of_another_queue_is_found(store: RedisBroker) -> None:
    with shared().client() as client:
        for number in range(700):
            client.xadd(f"{Keys().prefix('core')}dead", {"queue": "default", "death_id": f"{number}"})
    (job,) = await archived(store, 1, "chat_attachment")
    assert [one.job_id for one in await store.dead_letters(["chat_attachment"], 1)] == [job]


async def test_a_lock_lives_as_long_as_its_longest_place_and_leaves_nothing(store: RedisBroker) -> None:
    first = await store.lock("page", "a", 60_000, 2)
    second = await store.lock("page", "b", 1_000, 2)
    assert first is not None
    assert second is not None
    assert second > first
    with shared().client() as client:
        assert client.pttl(Keys().lock("page")) > 50_000
        assert await store.unlock("page", "a")
        assert await store.unlock("page", "b")
        assert not client.exists(Keys().lock("page"))
    third = await store.lock("page", "c", 60_000, 2)
    assert third is not None
    assert third > second


async def test_a_place_whose_time_is_over_is_not_given_back(store: RedisBroker) -> None:
    await store.lock("page", "a", 60_000, 2)
    await store.lock("page", "b", 1, 2)

    async def over() -> bool:
        return await store.lock("page", "c", 60_000, 2) is not None

    await wait_until(over, describe="b's time is over")
    assert not await store.unlock("page", "b")


async def test_a_worker_that_says_nothing_is_removed_when_another_speaks(store: RedisBroker) -> None:
    await store.heartbeat(WorkerBeat("silent", "host", 1, 1, "running", ()), 1)

    async def alone() -> bool:
        await store.heartbeat(WorkerBeat("lives", "host", 2, 1, "running", ()), 60_000)
        with shared().client() as client:
            return list(client.hkeys(Keys().workers)) == ["lives"]

    await wait_until(alone, describe="the other is removed")
    (beat,) = await store.workers()
    assert (beat.worker, beat.pid) == ("lives", 2)
    assert abs(beat.seen_at - now_ms()) < 60_000


@pytest.mark.parametrize("how", ["snoozed", "retried", "debounced"])
async def test_a_lock_lasts_until_its_job_is_due_however_late_that_is(store: RedisBroker, how: str) -> None:
    unique = Unique("k", on_conflict="debounce")
    await store.enqueue([new(unique=unique, delay_ms=DAY_MS if how == "debounced" else 0)])
    match how:
        case "snoozed":
            await Hand(store).run(Snooze(400 * 86_400))
        case "retried":
            await Hand(store).run(Retry(after=400 * 86_400))
        case "debounced":
            await store.enqueue([new(unique=unique, delay_ms=400 * DAY_MS)])
    with shared().client() as client:
        assert client.pttl("sl:{core}:unique:test:work|k") > 400 * DAY_MS


async def test_when_the_clock_is_set_back_leases_begin_anew(store: RedisBroker) -> None:
    """What was delivered in the future, and whose worker is lost, was nobody's until the clock had caught up."""
    await store.enqueue(news(3))
    hand = Hand(store)
    first = (await hand.take_one()).entry
    await store.release(await hand.take(1))
    again = (await hand.take_one()).entry.removeprefix("again:")
    with shared().client() as client:

        def idle() -> list[int]:
            streams = [(Keys().stream("default"), first), (Keys().stream("default", again=True), again)]
            return [
                client.xpending_range(stream, "core", entry, entry, 1)[0]["time_since_delivered"]
                for stream, entry in streams
            ]

        await wait_until(lambda: min(idle()) > 200, describe="both are idle for a while")
        client.hset("sl:{core}:meta", "reclaimed_at", now_ms() + 3_600_000)
        assert await store.reclaim(ReclaimPolicy(lease_ms=100)) == []
        assert max(idle()) < 200
    assert len(await reclaimed(store, count=2)) == 2
