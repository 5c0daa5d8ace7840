"""Sentinel and Cluster, when the server that workers talk to changes under them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contracts.states import JobState
from contracts.topology import QUEUES, home
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.keys import Keys
from pipeline.broker import Delivery, Retention
from pipeline.config import load
from pipeline.errors import StoreUnavailable
from pipeline.handlers import Context
from redis import Redis

from tests.support.hand import Hand, ids, new, news, run_all
from tests.support.redis_topologies import Cluster, Sentinel
from tests.support.redis_workers import done, insist, opened, working
from tests.support.waiting import stays_true, wait_until
from tests.support.work import Work, marks

pytestmark = pytest.mark.slow
FAILOVER_S = 15
"""In which a failover is over, and noticed."""
CORE, WIKI = "sl:{core}:", "sl:{wiki}:"


@pytest.fixture
async def sentinel() -> AsyncIterator[Sentinel]:
    async with Sentinel() as started:
        yield started


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster() as started:
        yield started


async def test_workers_go_on_after_a_failover_in_peace_and_run_nothing_twice(sentinel: Sentinel) -> None:
    starts, end = list[str](), asyncio.Event()

    async def handle(job: Work, ctx: Context) -> None:
        starts.append(ctx.id)
        if job.act == "hang":
            await end.wait()

    async with working(sentinel.url, handle, lease_s=3.0) as (pipeline, crew):
        await done(pipeline, Work())
        running = await pipeline.enqueue(Work(act="hang"), retention=60)
        await wait_until(lambda: running.id in starts, describe="it runs")
        waiting = [await pipeline.enqueue(Work(), delay=1, retention=60) for _ in range(20)]
        named = await pipeline.enqueue(Work(), id="order-1", retention=60)
        await pipeline.wait(named.id, timeout=5)
        await sentinel.failover()
        await done(pipeline, Work(), timeout=FAILOVER_S)
        assert (await insist(pipeline, Work(), id="order-1")).duplicate
        for receipt in waiting:
            await pipeline.wait(receipt.id, timeout=FAILOVER_S)
        end.set()
        await pipeline.wait(running.id, timeout=FAILOVER_S)
        assert (await pipeline.inspector.job(running.id)).job.crashes == 0
        assert [starts.count(one) for one in (running.id, named.id, *(one.id for one in waiting))] == [1] * 22
        await wait_until(lambda: not crew.failing, describe="it is ready")


async def test_what_a_replica_had_is_not_lost_with_the_primary(sentinel: Sentinel, tmp_path: Path) -> None:
    async with (
        opened(sentinel.url, redis_wait_replicas=1) as careful,
        working(sentinel.url) as (pipeline, crew),
    ):
        await done(careful, Work(folder=str(tmp_path)))
        receipts = [await careful.enqueue(Work(folder=str(tmp_path)), delay=1) for _ in range(50)]
        before = sentinel.primary
        before.kill()
        await sentinel.promoted(before)
        await done(pipeline, Work(folder=str(tmp_path)), timeout=FAILOVER_S)
        await wait_until(
            lambda: {one.job for one in marks(tmp_path, "done")} >= {one.id for one in receipts},
            describe="all have run",
            timeout=FAILOVER_S,
        )
        await wait_until(lambda: not crew.failing, describe="it is ready")


async def test_an_enqueue_that_no_replica_took_is_not_confirmed(sentinel: Sentinel) -> None:
    store = await RedisBroker.open(load(redis_url=sentinel.url, redis_wait_replicas=1))
    try:
        job = new(named=True)
        sentinel.replica.suspend()
        with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
            await store.enqueue([job])
        sentinel.replica.resume()

        async def confirmed() -> bool:
            try:
                (receipt,) = await store.enqueue([job])
            except StoreUnavailable:
                return False
            return receipt.duplicate

        await wait_until(confirmed, describe="the same is confirmed, once", timeout=FAILOVER_S)
        assert await run_all(store) == [job.job.id]
    finally:
        await store.close()


async def test_any_sentinel_is_enough_however_many_ask_at_once(sentinel: Sentinel) -> None:
    store = await RedisBroker.open(load(redis_url=sentinel.url))

    async def asked() -> bool:
        try:
            await asyncio.gather(*(store.states([f"job-{number}"]) for number in range(30)))
        except StoreUnavailable:
            return False
        return True

    try:
        for survivor in (*sentinel.sentinels, *sentinel.sentinels):
            others = [one for one in sentinel.sentinels if one is not survivor]
            for other in others:
                other.kill()
            with sentinel.servers[0].client() as client:
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await wait_until(asked, describe="all are answered", timeout=FAILOVER_S)
            for other in others:
                other.start()
    finally:
        await store.close()


async def test_workers_outlive_the_loss_of_every_node_of_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    async with working(cluster.url) as (pipeline, crew):
        await done(pipeline, Work(folder=str(tmp_path)))
        for node in cluster.servers:
            node.restart()
        await cluster.complete()
        await done(pipeline, Work(folder=str(tmp_path)), timeout=FAILOVER_S)
        await wait_until(lambda: not crew.failing, describe="it is ready")


async def test_a_pool_whose_slot_moves_stands_still_and_goes_on_at_the_other_node(
    cluster: Cluster, tmp_path: Path
) -> None:
    starts, end = list[str](), asyncio.Event()

    async def handle(job: Work, ctx: Context) -> None:
        starts.append(ctx.id)
        if job.act == "hang":
            await end.wait()

    async with working(cluster.url, handle, lease_s=2.0) as (pipeline, crew):
        await done(pipeline, Work())
        running = await pipeline.enqueue(Work(act="hang"), retention=60)
        await wait_until(lambda: running.id in starts, describe="it runs")
        waiting = [await pipeline.enqueue(Work(), delay=0.5, retention=60) for _ in range(50)]
        for _ in range(4):
            there = next(node for node in cluster.servers if node is not cluster.home_of(CORE))
            await asyncio.to_thread(cluster.move, CORE, there)
            assert cluster.home_of(CORE) is there
            await done(pipeline, Work(), timeout=FAILOVER_S)
        for receipt in waiting:
            await pipeline.wait(receipt.id, timeout=FAILOVER_S)
        end.set()
        await pipeline.wait(running.id, timeout=FAILOVER_S)
        assert [starts.count(one) for one in (running.id, *(one.id for one in waiting))] == [1] * 51
        await wait_until(lambda: not crew.failing, describe="it is ready")


async def test_nothing_is_done_to_a_home_whose_slot_is_half_moved(cluster: Cluster) -> None:
    """What has not arrived at the other node would be missing there to a script, and made anew."""
    store = await RedisBroker.open(load(redis_url=cluster.url))
    try:
        hand, jobs = Hand(store), news(3)
        await store.enqueue(jobs)
        delivery = await hand.take_one()
        source = cluster.home_of(CORE)
        target = next(node for node in cluster.servers if node is not source)
        with source.client() as leaving, target.client() as taking:
            begin_to_move(leaving, taking)
            for asked in (store.enqueue([new()]), hand.take(), hand.settle(delivery), store.promote()):
                with pytest.raises(StoreUnavailable, match="slots are moving"):
                    await asked
            with pytest.raises(StoreUnavailable, match="slots are moving"):
                await hand.renewing([delivery])
            assert taking.keys("sl:{core}:*") == []
            leaving.execute_command("CLUSTER", "SETSLOT", slot_of(leaving), "STABLE")
            taking.execute_command("CLUSTER", "SETSLOT", slot_of(leaving), "STABLE")
        await settled(store, hand, delivery)
        assert await run_all(store) == ids(jobs)[1:]
    finally:
        await store.close()


async def test_who_only_enqueues_and_waits_for_replicas_follows_a_slot_that_moves(cluster: Cluster) -> None:
    store = await RedisBroker.open(load(redis_url=cluster.url, redis_wait_replicas=1))
    try:
        jobs = news(2)
        with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
            await store.enqueue(jobs[:1])
        there = next(node for node in cluster.servers if node is not cluster.home_of(CORE))
        await asyncio.to_thread(cluster.move, CORE, there)
        with pytest.raises(StoreUnavailable, match="slots are moving"):
            await store.enqueue(jobs[1:])
        with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
            await store.enqueue(jobs[1:])
        assert await run_all(store) == ids(jobs)
    finally:
        await store.close()


async def settled(store: RedisBroker, hand: Hand, delivery: Delivery) -> None:
    assert await hand.renewing([delivery]) == ["held"]
    assert await hand.settle(delivery) is JobState.COMPLETED


def slot_of(client: Redis) -> int:
    return int(client.execute_command("CLUSTER", "KEYSLOT", CORE))


def begin_to_move(leaving: Redis, taking: Redis) -> None:
    mine, theirs = (client.execute_command("CLUSTER", "MYID") for client in (leaving, taking))
    taking.execute_command("CLUSTER", "SETSLOT", slot_of(leaving), "IMPORTING", mine)
    leaving.execute_command("CLUSTER", "SETSLOT", slot_of(leaving), "MIGRATING", theirs)


async def test_many_callers_at_once_wait_for_the_connections_of_a_cluster(cluster: Cluster) -> None:
    store = await RedisBroker.open(load(redis_url=cluster.url, redis_op_timeout_ms=5000))
    try:
        jobs = news(5)
        await store.enqueue(jobs)
        asked = [store.states(ids(jobs)) for _ in range(300)]
        assert await asyncio.gather(*asked) == [[JobState.PENDING] * 5] * 300
    finally:
        await store.close()


async def test_a_hint_reaches_every_worker_whichever_node_it_listens_at(cluster: Cluster) -> None:
    stores = [await RedisBroker.open(load(redis_url=cluster.url)) for _ in range(3)]
    heard = [asyncio.Event() for _ in stores]
    try:
        for store, event in zip(stores, heard, strict=True):
            store.on_signal(event.set)
        await wait_until(lambda: all(one.is_set() for one in heard), describe="all listen")
        for event in heard:
            event.clear()
        await stores[0].pause("wiki")
        await wait_until(lambda: all(one.is_set() for one in heard), describe="all hear of it")
        await stays_true(lambda: True, describe="nothing breaks", during=0.1)
    finally:
        for store in stores:
            await store.close()


@pytest.fixture
async def loose() -> AsyncIterator[Cluster]:
    """A cluster whose nodes serve what they have though others are lost."""
    async with Cluster(cluster_require_full_coverage="no") as started:
        yield started


async def test_hints_come_again_from_another_node_when_the_one_they_came_from_is_lost(loose: Cluster) -> None:
    store, heard = await RedisBroker.open(load(redis_url=loose.url)), list[float]()
    try:
        store.on_signal(lambda: heard.append(asyncio.get_running_loop().time()))
        await wait_until(lambda: heard, describe="it listens")
        heard.clear()
        lost = loose.home_of("")
        heir = next(node for node in loose.servers if node is not lost)
        await asyncio.to_thread(loose.move, "", heir)
        lost.kill()
        await wait_until(lambda: heard, describe="it listens again", timeout=FAILOVER_S)
    finally:
        await store.close()


async def test_the_leases_at_a_node_are_renewed_though_another_is_lost(loose: Cluster) -> None:
    store = await RedisBroker.open(load(redis_url=loose.url))
    try:
        hand = Hand(store)
        lost = loose.home_of(CORE)
        queue = next(name for name in QUEUES if loose.home_of(Keys().prefix(home(name))) is not lost)
        await store.enqueue([new(), new(queue=queue)])
        held = [await hand.take_one(), await hand.take_one(queue)]
        await stays_true(lambda: True, describe="time passes", during=1)
        lost.kill()
        with pytest.raises(StoreUnavailable):
            await hand.renewing(held)
        with loose.home_of(Keys().stream(queue)).client() as client:
            (entry,) = client.xpending_range(Keys().stream(queue), home(queue), "-", "+", 1)
        assert entry["time_since_delivered"] < 1000
    finally:
        await store.close()


async def test_a_consumer_finds_what_it_holds_at_one_node_though_another_is_lost(loose: Cluster) -> None:
    store = await RedisBroker.open(load(redis_url=loose.url))
    try:
        hand = Hand(store)
        lost = loose.home_of(CORE)
        queue = next(name for name in QUEUES if loose.home_of(Keys().prefix(home(name))) is not lost)
        await store.enqueue([new(queue=queue)])
        held = await hand.take_one(queue)
        lost.kill()
        assert await store.held(hand.name, [queue]) == [held]
    finally:
        await store.close()


async def test_what_was_kept_long_enough_is_removed_at_the_nodes_that_are_there(loose: Cluster) -> None:
    store = await RedisBroker.open(load(redis_url=loose.url))
    try:
        lost = loose.home_of(CORE)
        queue = next(name for name in QUEUES if loose.home_of(Keys().prefix(home(name))) is not lost)
        await store.enqueue([job := new(queue=queue)])
        await store.cancel([job.job.id])
        lost.kill()
        with pytest.raises(StoreUnavailable):
            await store.prune(Retention(cancelled_ms=0))
        assert (await store.tasks(queue, JobState.CANCELLED, cursor=None, limit=5)).records == ()
    finally:
        await store.close()


async def test_a_pool_whose_node_is_there_goes_on_though_another_is_lost(
    loose: Cluster, tmp_path: Path
) -> None:
    async with working(loose.url) as (pipeline, crew):
        await done(pipeline, Work(folder=str(tmp_path)))
        next(node for node in loose.servers if node is not loose.home_of(CORE)).kill()
        now = await insist(pipeline, Work(folder=str(tmp_path)))
        later = await insist(pipeline, Work(folder=str(tmp_path)), delay=0.2)
        await wait_until(
            lambda: {one.job for one in marks(tmp_path, "done")} >= {now.id, later.id},
            describe="both have run",
            timeout=FAILOVER_S,
        )
        await wait_until(lambda: not crew.failing, describe="it is ready")
