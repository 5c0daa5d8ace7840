"""The proxy of the tests loses what it was told to lose, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Broken
from redis.exceptions import NoScriptError

from tests.support.faults import Loss
from tests.support.redis_server import RedisServer
from tests.support.tcp_proxy import TcpProxy, Way, evaluates, says
from tests.support.waiting import wait_until


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[TcpProxy]:
    made = TcpProxy(redis_server.host, redis_server.port)
    yield made
    made.close()


@pytest.fixture
async def client(proxy: TcpProxy) -> AsyncIterator[Redis]:
    retry = Retry(NoBackoff(), 0)
    async with Redis(port=proxy.port, decode_responses=True, socket_timeout=10, retry=retry) as one:
        yield one


@pytest.fixture
async def straight(redis_server: RedisServer) -> AsyncIterator[Redis]:
    async with Redis(port=redis_server.port, decode_responses=True) as one:
        yield one


@pytest.mark.parametrize(("loss", "happened"), [(Loss.REQUEST, 0), (Loss.REPLY, 1)])
async def test_what_is_lost_is_the_next_request_or_its_reply(
    proxy: TcpProxy, client: Any, straight: Any, loss: Loss, happened: int
) -> None:
    waiting = proxy.lose(loss, says("INCRBY", "n"))
    assert await client.incr("other") == 1
    assert not waiting.happened.is_set()
    with pytest.raises(Broken):
        await client.incr("n")
    assert waiting.happened.is_set()
    assert int(await straight.get("n") or 0) == happened
    assert await client.incr("n") == happened + 1


async def test_the_reply_lost_of_a_script_is_that_of_its_run(
    proxy: TcpProxy, client: Any, straight: Any
) -> None:
    """A server that does not know a script yet says so; that is no run of it."""
    text = "return redis.call('INCR', KEYS[1])"
    digest = await straight.script_load(text)
    await straight.script_flush()
    proxy.lose(Loss.REPLY, evaluates(digest, text, "n"))
    with pytest.raises(NoScriptError):
        await client.evalsha(digest, 1, "n")
    with pytest.raises(Broken):
        await client.eval(text, 1, "n")
    assert await straight.get("n") == "1"


async def test_a_loss_that_hit_nothing_is_forgotten(proxy: TcpProxy, client: Any) -> None:
    with proxy.losing(Loss.REQUEST, says("INCRBY")):
        pass
    assert await client.incr("n") == 1


async def test_away_breaks_what_is_connected_and_refuses_what_comes(
    proxy: TcpProxy, client: Any, straight: Any
) -> None:
    blocked = asyncio.create_task(client.blpop(["nothing"], timeout=9))

    async def waits() -> bool:
        return bool((await straight.info("clients"))["blocked_clients"])

    await wait_until(waits, describe="the server lets it wait")
    with proxy.away():
        with pytest.raises(Broken):
            await blocked
        with pytest.raises(Broken):
            await client.ping()
    assert await client.ping()


async def test_what_a_silent_proxy_held_arrives_late(proxy: TcpProxy, client: Any, straight: Any) -> None:
    await client.ping()
    with proxy.silent(Way.REPLIES):
        asking = asyncio.create_task(client.incr("n"))

        async def there() -> bool:
            return bool(await straight.exists("n"))

        await wait_until(there, describe="the request has arrived")
        assert not asking.done()
    assert await asking == 1


async def test_a_slow_proxy_keeps_the_order(proxy: TcpProxy, client: Any) -> None:
    began = asyncio.get_running_loop().time()
    with proxy.slow(0.05):
        async with client.pipeline(transaction=False) as pipe:
            said = await pipe.incr("n").incr("n").execute()
    assert said == [1, 2]
    assert asyncio.get_running_loop().time() - began >= 0.1


async def test_nothing_is_lost_of_what_is_large_or_comes_together(proxy: TcpProxy, client: Any) -> None:
    large = "x" * 1_000_000
    await client.set("large", large)
    assert await client.get("large") == large
    async with client.pipeline(transaction=False) as pipe:
        for _ in range(1000):
            pipe.incr("n")
        assert await pipe.execute() == list(range(1, 1001))
