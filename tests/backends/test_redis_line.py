"""One connection for all whose order counts: what one caller does wrong, or does not wait for, touches no other."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from pipeline.backends.redis.address import parse
from pipeline.backends.redis.connecting import client, close
from pipeline.backends.redis.direct import Direct
from pipeline.config import load
from redis.exceptions import ConnectionError, ResponseError, TimeoutError  # noqa: A004

from tests.support.jobs import turn
from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until


@pytest.fixture
async def direct(redis_server: RedisServer) -> AsyncIterator[Direct]:
    opened: Direct = client(parse(load(redis_url=redis_server.url)), 1.0, 2)
    yield opened
    await close(opened)


async def test_answers_go_to_those_who_asked_whatever_others_sent(direct: Direct) -> None:
    async def echo(number: int) -> None:
        if number % 5 == 0:
            with pytest.raises(UnicodeEncodeError):
                await direct.send_in_order("ECHO", "\ud800")
        elif number % 5 == 1:
            with pytest.raises(ResponseError):
                await direct.send_in_order("NOSUCH", number)
        elif number % 5 == 2:
            gone = asyncio.create_task(direct.send_in_order("ECHO", f"{number}"))
            await turn()
            gone.cancel()
        else:
            assert await direct.send_in_order("ECHO", f"{number}") == f"{number}"

    await asyncio.gather(*map(echo, range(200)))


async def test_a_server_that_is_silent_is_given_up_by_all_who_wait_and_asked_again_anew(
    direct: Direct, redis_server: RedisServer
) -> None:
    assert await direct.send_in_order("PING") == "PONG"
    redis_server.suspend()
    try:
        said = await asyncio.gather(
            *(direct.send_in_order("ECHO", f"{n}") for n in range(10)), return_exceptions=True
        )
    finally:
        redis_server.resume()
    assert all(isinstance(one, TimeoutError | ConnectionError | asyncio.TimeoutError) for one in said)
    assert await direct.send_in_order("ECHO", "again") == "again"


async def test_a_connection_that_is_killed_between_two_commands_is_replaced_unnoticed(
    direct: Direct, redis_server: RedisServer
) -> None:
    for number in range(5):
        assert await direct.send_in_order("ECHO", f"{number}") == f"{number}"
        with redis_server.client() as other:
            other.client_kill_filter(_type="normal", skipme=True)
        await wait_until(
            lambda: direct._line is None or direct._line.lost is not None, describe="the loss is noticed"
        )


async def test_a_connection_that_is_lost_while_others_take_theirs_is_given_back(
    direct: Direct, redis_server: RedisServer
) -> None:
    """A pool of two is empty after two that were not."""
    for number in range(4):
        assert await direct.send_in_order("ECHO", f"{number}") == f"{number}"
        line = direct._line
        assert line is not None
        async with direct.connection_pool._condition:  # type: ignore[attr-defined]
            with redis_server.client() as other:
                other.client_kill_filter(_type="normal", skipme=True)
            await wait_until(lambda: line.lost is not None, describe="the loss is noticed")  # noqa: B023
            await turn()
