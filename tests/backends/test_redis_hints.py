"""The channel of hints: what one listener does is no harm to the others."""

from typing import Any

import pytest
from pipeline.backends.redis import server as server_module
from pipeline.backends.redis.address import parse
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.server import Server
from pipeline.config import load

from tests.support.waiting import wait_until


async def test_a_listener_that_fails_takes_no_hint_from_the_others(store: RedisBroker) -> None:
    heard = list[str]()

    def fail() -> None:
        heard.append("failing")
        raise ValueError("no")

    remove = store.on_signal(fail)
    store.on_signal(lambda: heard.append("other"))
    await wait_until(lambda: "failing" in heard, describe="the first one fails")
    remove()
    await wait_until(lambda: "other" in heard, describe="they are told that anything may have happened")
    heard.clear()
    await store.pause("wiki")
    await wait_until(lambda: "other" in heard, describe="the next hint comes")


async def test_a_hint_that_comes_while_the_connection_is_looked_at_is_heard(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HINT_S", 0.01)
    server = Server(parse(load(redis_url=redis_url)), timeout_s=5)
    try:
        async with server.subscribed("sl:hints") as hints:
            ping = hints.ping

            async def late() -> Any:
                await server.call("PUBLISH", "sl:hints", "signal")
                return await ping()

            monkeypatch.setattr(hints, "ping", late)
            assert await server.next_hint(hints) == "signal"
            assert await server.next_hint(hints) is None
    finally:
        await server.close()
