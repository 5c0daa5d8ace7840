"""What Redis may lose, forget or refuse: workers say so once, are not ready meanwhile, and go on by themselves."""

import asyncio
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contracts.jobs import Unique
from contracts.outcomes import Skip, Snooze
from contracts.states import JobState
from pipeline.backends.redis.broker import RedisBroker
from pipeline.broker import Retention
from pipeline.config import load
from pipeline.errors import EnqueueFailed, JobNotFound, StoreFull, StoreUnavailable
from pipeline.handlers import Context
from pipeline.records import WorkerBeat
from pipeline.runtime import Pipeline
from structlog.testing import capture_logs

from tests.support.crash import Process
from tests.support.hand import Hand, new, settlement
from tests.support.redis_server import RedisServer, free_port, pause
from tests.support.redis_workers import (
    SHORT,
    SOON_S,
    consumers,
    done,
    insist,
    opened,
    settings,
    working,
)
from tests.support.waiting import stays_true, wait_until
from tests.support.work import Work, marks

STREAM = "sl:{core}:q:default"
ANEW = "consumer groups were gone and are made anew; what waits there runs, also again"


def flush(server: RedisServer) -> None:
    with server.client() as client:
        client.flushall()


def delete_stream(server: RedisServer) -> None:
    with server.client() as client:
        client.delete(STREAM)


def destroy_group(server: RedisServer) -> None:
    with server.client() as client:
        client.xgroup_destroy(STREAM, "core")


@pytest.mark.parametrize("harm", [flush, delete_stream, destroy_group, RedisServer.restart])
async def test_what_comes_after_a_loss_runs_within_seconds_and_one_warning_tells_of_it(
    redis_server: RedisServer, tmp_path: Path, harm: Callable[[RedisServer], None]
) -> None:
    with capture_logs() as said:
        async with working(redis_server.url) as (pipeline, _):
            await done(pipeline, Work(folder=str(tmp_path)))
            harm(redis_server)
            await done(pipeline, Work(folder=str(tmp_path)))
            await done(pipeline, Work(folder=str(tmp_path)), delay=0.05)
    assert [line["log_level"] for line in said if line["event"] == ANEW] == ["warning"]


async def test_a_loss_is_told_of_though_much_of_what_came_after_it_never_runs(
    redis_server: RedisServer,
) -> None:
    store = await RedisBroker.open(load(redis_url=redis_server.url))
    try:
        hand = Hand(store)
        assert await hand.take() == []
        delete_stream(redis_server)
        await store.enqueue([new(deadline=1) for _ in range(60)])
        with capture_logs() as said:
            assert await hand.take() == []
        assert [line["event"] for line in said if line["event"] == ANEW] == [ANEW]
    finally:
        await store.close()


async def test_a_server_that_keeps_a_file_has_everything_after_its_restart(tmp_path: Path) -> None:
    server = RedisServer(appendonly="yes", appendfsync="always").start()
    try:
        with capture_logs() as said:
            async with working(server.url) as (pipeline, _):
                await done(pipeline, Work(folder=str(tmp_path)))
                later = await insist(pipeline, Work(folder=str(tmp_path)), delay=0.5, retention=60)
                server.restart()
                await done(pipeline, Work(folder=str(tmp_path)))
                await pipeline.wait(later.id, timeout=SOON_S)
    finally:
        server.close()
    assert ANEW not in [line["event"] for line in said]
    events = [line["event"] for line in said]
    assert len(events) == len(set(events))


async def test_a_worker_is_not_ready_while_redis_is_away_and_says_so_once(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with working(redis_server.url) as (pipeline, crew):
        await done(pipeline, Work(folder=str(tmp_path)))
        await wait_until(lambda: not crew.failing, describe="it is ready")
        with capture_logs() as said:
            redis_server.stop()
            await wait_until(lambda: crew.failing, describe="it is not ready")
            with pytest.raises(StoreUnavailable):
                await pipeline.broker.ping()
            await stays_true(lambda: crew.failing, describe="it stays so", during=1)
            redis_server.start()
            await wait_until(lambda: not crew.failing, describe="it is ready again")
            await done(pipeline, Work(folder=str(tmp_path)))
        claims = [line["event"] for line in said if "claiming for pool core" in line["event"]]
        assert len(claims) == 2


async def test_a_group_that_is_lost_does_not_let_a_running_job_start_again_in_its_own_worker(
    redis_server: RedisServer,
) -> None:
    starts, end = list[str](), asyncio.Event()

    async def handle(job: Work, ctx: Context) -> None:
        starts.append(ctx.id)
        await end.wait()

    async with working(redis_server.url, handle) as (pipeline, _):
        running = await pipeline.enqueue(Work(), retention=60)
        await wait_until(lambda: starts, describe="it runs")
        destroy_group(redis_server)
        other = await pipeline.enqueue(Work(), retention=60)
        await wait_until(lambda: other.id in starts, describe="the other runs, so the group is there again")
        await stays_true(lambda: starts == [running.id, other.id], describe="each runs once", during=1.5)
        end.set()
        await pipeline.wait(running.id, timeout=SOON_S)
        assert (await pipeline.inspector.job(running.id)).job.crashes == 0


async def test_all_that_was_enqueued_before_any_worker_started_runs(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    for _ in range(2):
        async with opened(redis_server.url) as producer:
            receipts = await producer.enqueue_many([Work(folder=str(tmp_path))] * 100)
        async with working(redis_server.url) as (pipeline, _):
            for receipt in receipts:
                await pipeline.wait(receipt.id, timeout=SOON_S)
        with redis_server.client() as client:
            client.xgroup_destroy(STREAM, "core")
    assert len(marks(tmp_path, "done")) == 200


async def test_idle_workers_whose_group_is_lost_hardly_read(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with working(redis_server.url) as (pipeline, _):
        await done(pipeline, Work(folder=str(tmp_path)))
        destroy_group(redis_server)
        before = reads(redis_server)
        await stays_true(lambda: reads(redis_server) - before <= 4, describe="they wait", during=3)


def reads(server: RedisServer) -> int:
    with server.client() as client:
        stats = client.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in ("xread", "xreadgroup"))


async def test_the_jobs_of_a_killed_worker_run_elsewhere(redis_server: RedisServer, tmp_path: Path) -> None:
    async with opened(redis_server.url) as producer:
        async with Process("worker", settings(redis_server.url)) as victim:
            receipts = await producer.enqueue_many([Work(act="hang", folder=str(tmp_path))] * 5)
            await wait_until(lambda: len(marks(tmp_path, "started")) == 5, describe="all run", timeout=20)
            victim.kill()
        async with working(redis_server.url) as (pipeline, _):
            for receipt in receipts:
                await pipeline.wait(receipt.id, timeout=SHORT["lease_s"] + 2 + SOON_S)


async def test_what_a_frozen_worker_settles_when_it_wakes_up_is_refused(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """It is frozen in the midst of a handler that cannot be cancelled, and ends it as if nothing had been."""
    async with opened(redis_server.url) as producer:
        async with Process("worker", settings(redis_server.url)) as frozen:
            receipt = await producer.enqueue(Work(act="block", n=1500, folder=str(tmp_path)), retention=60)
            await wait_until(lambda: marks(tmp_path, "started"), describe="it runs", timeout=20)
            frozen.freeze()
            async with working(redis_server.url) as (pipeline, _):
                await pipeline.wait(receipt.id, timeout=SHORT["lease_s"] + 4 + SOON_S)
            frozen.thaw()
            await wait_until(lambda: len(marks(tmp_path, "done")) == 2, describe="it ends there, too")
            frozen.ask_to_stop()
            assert await frozen.ended() == 0
        record = await producer.inspector.job(receipt.id)
        (stat,) = [one for one in await producer.inspector.queues() if one.name == "default"]
    assert (record.state, record.job.crashes, stat.processed) == (JobState.COMPLETED, 1, 1)


async def test_entries_deleted_under_a_lost_worker_are_reported_and_the_others_recovered(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with opened(redis_server.url) as producer:
        async with Process("worker", settings(redis_server.url)) as victim:
            await producer.enqueue_many([Work(act="hang", folder=str(tmp_path))] * 6)
            await wait_until(lambda: len(marks(tmp_path, "started")) == 6, describe="all run", timeout=20)
            victim.kill()
        with redis_server.client() as client:
            deleted = [entry for entry, _ in client.xrange(STREAM)][::3]
            client.xdel(STREAM, *deleted)
        with capture_logs() as said:
            async with working(redis_server.url):
                await wait_until(
                    lambda: len(marks(tmp_path, "done")) == 4, describe="four are recovered", timeout=15
                )
                await wait_until(lambda: lost(said) == deleted, describe="two are reported")
                await stays_true(lambda: lost(said) == deleted, describe="once", during=0.5)
        with redis_server.client() as client:
            assert client.xpending(STREAM, "core")["pending"] == 0


def lost(said: Any) -> list[str]:
    return sorted(line["entry"] for line in said if "is lost" in line["event"] and line["queue"] == "default")


async def test_a_running_job_whose_entry_is_deleted_is_stopped(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with working(redis_server.url) as (pipeline, crew):
        await pipeline.enqueue(Work(act="hang", folder=str(tmp_path)))
        await wait_until(lambda: marks(tmp_path, "started"), describe="it runs")
        with redis_server.client() as client:
            client.xdel(STREAM, *[entry for entry, _ in client.xrange(STREAM)])
        await wait_until(lambda: marks(tmp_path, "stopped"), describe="its handler is cancelled", timeout=5)
        await wait_until(lambda: crew.left == 0, describe="its slot is free")


async def test_many_workers_that_come_and_go_leave_no_consumers(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    store = await RedisBroker.open(load(redis_url=redis_server.url))
    try:
        for number in range(500):
            beat = WorkerBeat(f"host:1:{number}", "host", 1, 1, "running", ())
            await store.heartbeat(beat, 60_000)
            await store.claim(f"{beat.worker}/core", [("default", 1)])
            await store.forget(beat.worker)
        await store.enqueue([new()])
        assert await store.claim("host:1:holder/core", [("default", 1)])
    finally:
        await store.close()
    async with working(redis_server.url):
        await wait_until(lambda: len(consumers(redis_server)) <= 2, describe="the first round removed them")
        assert "host:1:holder/core" in {one["name"] for one in consumers(redis_server)}
    for _ in range(5):
        async with working(redis_server.url) as (pipeline, _):
            await done(pipeline, Work(folder=str(tmp_path)))
    assert len(consumers(redis_server)) <= 4


BIG = "x" * 200_000


async def fill(producer: Pipeline) -> list[str]:
    """Enqueue until the store is full, and return the ids of what it has taken."""
    accepted, refused = list[str](), list[BaseException | None]()
    while not refused:
        try:
            receipt = await producer.enqueue(Work(n=len(accepted), folder=BIG), max_retry=0)
        except EnqueueFailed as failed:
            refused.append(failed.__cause__)
        else:
            accepted.append(receipt.id)
    assert isinstance(refused[0], StoreFull)
    return accepted


async def test_a_full_redis_refuses_new_jobs_and_workers_make_room(redis_server: RedisServer) -> None:
    ended = list[str]()

    async def handle(job: Work, ctx: Context) -> None:
        await ctx.progress(1, 2, "half")
        ended.append(ctx.id)
        if job.n % 3 == 1:
            raise RuntimeError("no")
        if job.n % 3 == 2:
            raise Snooze(0.1) if ended.count(ctx.id) == 1 else Skip("archived at once")

    with redis_server.client() as client:
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 8_000_000)
        async with opened(redis_server.url) as producer:
            accepted = await fill(producer)
            assert len(accepted) > 10
            full = client.info("memory")["used_memory"]
            async with working(redis_server.url, handle) as (pipeline, crew):
                with pytest.raises(EnqueueFailed):
                    await producer.enqueue(Work(folder=BIG * 2))
                await wait_until(lambda: set(accepted) <= set(ended), describe="all have run", timeout=20)
                await pipeline.inspector.purge("default")
                await insist(pipeline, Work(folder=BIG), timeout=20)
                await wait_until(lambda: not crew.failing, describe="it is ready")
                await wait_until(
                    lambda: client.info("memory")["used_memory"] < full, describe="it needs less"
                )


async def test_a_policy_that_deletes_is_warned_of_at_the_start(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    with capture_logs() as said:
        store = await RedisBroker.open(load(redis_url=redis_server.url))
        await store.close()
    (warning,) = said
    assert (warning["log_level"], warning["policy"]) == ("warning", "allkeys-lru")
    assert "noeviction" in warning["event"]


async def test_keys_deleted_at_random_stop_no_worker(redis_server: RedisServer, tmp_path: Path) -> None:
    chance = random.Random(3)
    with capture_logs() as said:
        async with working(redis_server.url) as (pipeline, crew):
            with redis_server.client() as client:
                for number in range(400):
                    delay = chance.choice([None, 0.01, 0.2])
                    scope = {"knowledge_id": f"k{number % 5}"} if number % 2 else {}
                    await pipeline.enqueue(
                        Work(n=number, folder=str(tmp_path), **scope), delay=delay, retention=5
                    )
                    if number % 4 == 0 and (key := client.randomkey()):
                        client.delete(key)
                    if number % 50 == 0:
                        await pipeline.inspector.cancel_scope("knowledge", f"k{chance.randrange(5)}")
            await done(pipeline, Work(folder=str(tmp_path)))
            for name in ("pending", "active", "scheduled", "retry", "archived"):
                await pipeline.inspector.tasks("default", JobState(name))
            await wait_until(lambda: not crew.failing, describe="it is ready")
            await pipeline.broker.prune(Retention(repeat_ms=0, tombstone_ms=0, cancelled_ms=0))
    assert [line for line in said if line["log_level"] in {"error", "critical"}] == []


async def test_ten_thousand_unique_keys_leave_none(redis_server: RedisServer) -> None:
    store = await RedisBroker.open(load(redis_url=redis_server.url, redis_op_timeout_ms=5000))
    try:
        hand = Hand(store)
        for first in range(0, 10_000, 500):
            jobs = [new(unique=Unique(f"k{number}", 60)) for number in range(first, first + 500)]
            await store.enqueue(jobs)
            while taken := await hand.take(100):
                await store.settle([settlement(one) for one in taken])
        await store.prune(Retention(repeat_ms=0, tombstone_ms=0))
        with redis_server.client() as client:
            assert list(client.scan_iter("*unique*")) == []
            assert client.dbsize() < 20
    finally:
        await store.close()


def become_replica(server: RedisServer) -> None:
    with server.client() as client:
        client.replicaof(server.host, free_port())


def become_primary(server: RedisServer) -> None:
    with server.client() as client:
        client.execute_command("REPLICAOF", "NO", "ONE")


def lose_the_disk(server: RedisServer) -> None:
    (server.folder / "dump.rdb" / "in the way").mkdir(parents=True)
    with server.client() as client:
        client.config_set("save", "3600 1")
        client.bgsave()
        while client.info("persistence")["rdb_last_bgsave_status"] == "ok":
            pause.wait(0.01)


def find_the_disk(server: RedisServer) -> None:
    shutil.rmtree(server.folder / "dump.rdb")
    with server.client() as client:
        client.save()


@pytest.mark.parametrize(
    ("refuse", "serve", "said"),
    [(become_replica, become_primary, "it is a replica"), (lose_the_disk, find_the_disk, "MISCONF")],
    ids=["read-only", "no disk"],
)
async def test_a_server_that_takes_no_writes_is_waited_for(
    redis_server: RedisServer,
    tmp_path: Path,
    refuse: Callable[[RedisServer], None],
    serve: Callable[[RedisServer], None],
    said: str,
) -> None:
    async with working(redis_server.url) as (pipeline, crew):
        waits = await pipeline.enqueue(Work(folder=str(tmp_path)), delay=0.5)
        refuse(redis_server)
        with pytest.raises(EnqueueFailed, match=said):
            await pipeline.enqueue(Work(folder=str(tmp_path)))
        with pytest.raises(StoreUnavailable, match=said):
            await pipeline.broker.ping()
        serve(redis_server)
        await pipeline.wait(waits.id, timeout=SOON_S)
        await done(pipeline, Work(folder=str(tmp_path)))
        await wait_until(lambda: not crew.failing, describe="it is ready")


async def test_a_server_that_loads_its_data_is_waited_for(tmp_path: Path) -> None:
    server = RedisServer(appendonly="yes", appendfsync="everysec", key_load_delay=500).start()
    try:
        async with working(server.url) as (pipeline, _):
            waits = await pipeline.enqueue(Work(folder=str(tmp_path)), delay=0.5)
            with server.client() as client:  # every 1024 commands it answers in between
                client.eval("for i = 1, 5000 do redis.call('SET', 'ballast:' .. i, '') end", 0)
            server.stop()
            starting = asyncio.ensure_future(asyncio.to_thread(server.start))

            async def loading() -> bool:
                try:
                    await pipeline.broker.ping()
                except StoreUnavailable as error:
                    return "it is loading its data" in str(error)
                return False

            await wait_until(loading, describe="it says so", longest_pause=0.02)
            await starting
            await pipeline.wait(waits.id, timeout=SOON_S)
            await done(pipeline, Work(folder=str(tmp_path)))
    finally:
        server.close()


async def test_an_older_snapshot_brings_back_what_was_then_and_nothing_stands_still(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with working(redis_server.url) as (pipeline, crew):
        await done(pipeline, Work(folder=str(tmp_path)))
        running = await pipeline.enqueue(Work(act="hang", folder=str(tmp_path)))
        await wait_until(lambda: len(marks(tmp_path, "started")) == 2, describe="it runs")
        waiting = await pipeline.enqueue(Work(folder=str(tmp_path)), delay=1, retention=60)
        with redis_server.client() as client:
            client.save()
        await pipeline.wait(waiting.id, timeout=SOON_S)
        gone = await pipeline.enqueue(Work(folder=str(tmp_path)), delay=60)
        redis_server.kill()
        redis_server.start()
        await wait_until(
            lambda: [one.job for one in marks(tmp_path, "done")].count(waiting.id) == 2,
            describe="it runs again",
        )
        assert (await pipeline.inspector.job(running.id)).state is JobState.ACTIVE
        with pytest.raises(JobNotFound):
            await pipeline.inspector.job(gone.id)
        await done(pipeline, Work(folder=str(tmp_path)))
        await wait_until(lambda: not crew.failing, describe="it is ready")
