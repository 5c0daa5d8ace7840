"""What a job costs the server on its way from enqueue to completed: every command of it is one for each of millions."""

from pipeline.backends.redis.broker import RedisBroker

from tests.support.hand import Hand, news, settlement
from tests.support.redis_server import RedisServer

JOBS = 50
A_JOB = 9
"""exists, xadd, hset; hmget, hset; hmget, hincrby, del, zadd: enqueue, claim and settlement of a job that completes."""
A_BATCH = 25
"""The scripts, and what they ask once for all."""


async def test_a_job_that_completes_costs_no_command_more(
    store: RedisBroker, redis_server: RedisServer
) -> None:
    hand = Hand(store)
    await store.enqueue(news(1))
    await hand.run()  # now the group is there, and the scripts are known
    with redis_server.client() as client:
        client.config_resetstat()
        await store.enqueue(news(JOBS))
        await store.settle([settlement(one) for one in await hand.take(JOBS)])
        calls = {name: said["calls"] for name, said in client.info("commandstats").items()}
    assert sum(calls.values()) <= A_JOB * JOBS + A_BATCH, calls
