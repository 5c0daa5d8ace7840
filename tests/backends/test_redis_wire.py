"""What only a wire can do: replies lost in the midst of an operation of several steps, a frozen server, bytes that come late."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.backends.redis.address import parse
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.connecting import client
from pipeline.backends.redis.scripts import script
from pipeline.broker import ReclaimPolicy
from pipeline.config import load
from pipeline.errors import StoreUnavailable

from tests.support.faults import Loss
from tests.support.hand import LOST_MS, Hand, envelope, ids, new, news, pending, reclaimed, state
from tests.support.redis_backend import Redis
from tests.support.redis_server import RedisServer
from tests.support.tcp_proxy import Way, evaluates
from tests.support.waiting import wait_until

KNOWLEDGE = Scope("knowledge", "k")


@pytest.fixture
async def redis(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Redis]:
    backend = Redis(tmp_path, redis_server, redis_op_timeout_ms=250)
    yield backend
    await backend.close()


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY])
async def test_a_reclaim_that_was_cut_counts_one_crash(redis: Redis, loss: Loss) -> None:
    """The list of what is stale has come; what becomes of it is lost on its way."""
    store = await redis.open()
    await store.enqueue([new()])
    await Hand(store).take_one()
    redis.proxy.lose(loss, evaluates(script("reclaim_jobs").digest, script("reclaim_jobs").text))
    failures = list[StoreUnavailable]()

    async def reclaims() -> int:
        try:
            await store.reclaim(ReclaimPolicy(lease_ms=LOST_MS))
        except StoreUnavailable as error:
            failures.append(error)
        return await pending(store)

    await wait_until(reclaims, describe="it waits again", longest_pause=LOST_MS / 10_000)
    assert len(failures) == 1
    assert envelope(await Hand(store).take_one()).crashes == 1


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY])
async def test_a_cancel_of_a_scope_that_was_cut_is_complete_when_repeated(redis: Redis, loss: Loss) -> None:
    store = await redis.open()
    jobs = news(3, scopes=(KNOWLEDGE,))
    await store.enqueue(jobs)
    redis.proxy.lose(loss, evaluates(script("fence_scope").digest, script("fence_scope").text))
    with pytest.raises(StoreUnavailable):
        await store.cancel_scope(KNOWLEDGE, EVERYTHING)
    await store.cancel_scope(KNOWLEDGE, EVERYTHING)
    assert await store.states(ids(jobs)) == [JobState.CANCELLED] * 3


async def test_a_frozen_server_is_given_up_on_and_what_it_does_later_happens_once(
    redis: Redis, redis_server: RedisServer
) -> None:
    store = await redis.open()
    job = new(named=True)
    redis_server.suspend()
    try:
        async with asyncio.timeout(5):
            with pytest.raises(StoreUnavailable):
                await store.enqueue([job])
    finally:
        redis_server.resume()
    await store.enqueue([job])
    assert await pending(store) == 1


async def test_a_settlement_that_arrives_after_a_reclaim_changes_nothing(
    redis: Redis, redis_server: RedisServer
) -> None:
    """The wire to a worker breaks while its job ends, for longer than its lease; what it sent comes through after all."""
    store = await redis.open()
    elsewhere = await RedisBroker.open(load(**{**redis.settings(), "redis_url": redis_server.url}))
    try:
        await store.enqueue([new()])
        hand = Hand(store)
        delivery = await hand.take_one()
        with redis.proxy.silent(Way.REQUESTS):
            with pytest.raises(StoreUnavailable):
                await hand.settle(delivery)
            await reclaimed(elsewhere)
            before = scripts_run(redis_server)
        await wait_until(lambda: scripts_run(redis_server) > before, describe="the settlement has arrived")
        assert await state(elsewhere, delivery.job_id) is JobState.PENDING
        assert await hand.settle(delivery) is None
        assert envelope(await Hand(elsewhere).take_one()).crashes == 1
    finally:
        await elsewhere.close()


def scripts_run(server: RedisServer) -> int:
    with server.client() as client:
        stats = client.info("commandstats")
        return sum(stats.get(name, {"calls": 0})["calls"] for name in ("cmdstat_eval", "cmdstat_evalsha"))


async def test_who_waits_for_a_connection_gets_one_in_turn(redis_server: RedisServer) -> None:
    """Those who came later and asked without a pause had them all, and the others heard that Redis did not answer."""
    busy = client(parse(load(redis_url=redis_server.url)), 0.5, 2)

    async def ask() -> None:
        for _ in range(8):
            assert await busy.send("BLPOP", "nothing", 0.05) is None

    await asyncio.gather(*(ask() for _ in range(5)))
    await busy.aclose()
