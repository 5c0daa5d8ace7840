"""Redis as the broker uses it: every call has a limit and is sent once.

redis-py repeats by itself whatever fails, which makes two entries of one XADD; here nothing is repeated that may have
happened. One server, Sentinel and Cluster look alike from here on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, TypeVar

from redis.exceptions import NoScriptError

from pipeline.backends.redis.address import Address
from pipeline.backends.redis.cluster import Nodes
from pipeline.backends.redis.connecting import client, close
from pipeline.backends.redis.errors import store_errors
from pipeline.backends.redis.scripts import Script
from pipeline.errors import StoreUnavailable

T = TypeVar("T")

HINT_S: Final = 5.0
CONNECTIONS: Final = 16
"""What a process uses at once for commands; whoever wants one more waits."""


class Server:
    """Sends scripts and commands. `timeout_s` limits each; `replicas` is how many must have what an enqueue wrote."""

    def __init__(self, address: Address, *, timeout_s: float, replicas: int = 0) -> None:
        self._timeout_s, self._replicas = timeout_s, replicas
        self._taught: set[str] = set()
        self._client = client(address, timeout_s, CONNECTIONS)
        self._blocking = client(address, None, 64)

    async def run(self, script: Script, key: str, *args: Any) -> Any:
        """Run a transition where `key` lies. Raises StoreUnavailable, StoreFull."""
        return await self._run(self._client.send, script, key, *args)

    async def run_in_order(self, script: Script, key: str, *args: Any) -> Any:
        """Run a transition before those that are asked for in order later, where all lie on one server.

        Raises StoreUnavailable, StoreFull.
        """
        return await self._run(self._client.send_in_order, script, key, *args)

    async def _run(self, send: Callable[..., Awaitable[Any]], script: Script, key: str, *args: Any) -> Any:
        with store_errors():
            if script.digest in self._taught:
                try:
                    return await send("EVALSHA", script.digest, 1, key, *args)
                except NoScriptError:  # it has not run: the server was started anew, or is another one
                    pass
            self._taught.add(script.digest)
            return await send("EVAL", script.text, 1, key, *args)

    async def write(self, script: Script, key: str, *args: Any) -> Any:
        """Run a transition, and return once as many replicas as were asked for have it.

        Raises StoreUnavailable (also where they are too few), StoreFull.
        """
        if not self._replicas:
            return await self.run(script, key, *args)
        with store_errors():
            async with node(self._client, key) as at, at.pipeline(transaction=False) as together:
                together.execute_command("EVAL", script.text, 1, key, *args)
                together.execute_command("WAIT", self._replicas, round(self._timeout_s * 500))
                said, reached = await together.execute()
        if reached < self._replicas:
            raise StoreUnavailable(
                f"{reached} of {self._replicas} replicas have it: wait until more follow, then repeat"
            )
        return said

    async def call(self, *command: Any) -> Any:
        """Send a single command. Raises StoreUnavailable, StoreFull."""
        with store_errors():
            return await self._client.send(*command)

    async def info(self, section: str) -> Any:
        """Return a section of INFO, of any node. Raises StoreUnavailable."""
        with store_errors():
            async with node(self._client) as at:
                return await at.info(section)

    async def listen(self, streams: Sequence[tuple[str, str]], block_s: float) -> list[Any]:
        """Return soon after one of these streams (all of one home) has an entry after the id given; [] after `block_s`.

        Nothing is taken by that. Raises StoreUnavailable.
        """
        keys, ids = [key for key, _ in streams], [last for _, last in streams]
        command = ("XREAD", "COUNT", 1, "BLOCK", round(block_s * 1000), "STREAMS", *keys, *ids)
        with store_errors():
            async with asyncio.timeout(block_s + self._timeout_s):
                said = await self._blocking.send(*command) or []
        # Redis 7.0 also answers, with no entry, when a group of the stream is destroyed.
        return [stream for stream in said if stream[1]]

    @asynccontextmanager
    async def subscribed(self, channel: str) -> AsyncIterator[Any]:
        """Subscribe to a channel; what it yields is for `next_hint`. Raises StoreUnavailable."""
        with store_errors():
            async with node(self._blocking) as at, at.pubsub(ignore_subscribe_messages=True) as pubsub:
                await pubsub.subscribe(channel)
                async with asyncio.timeout(self._timeout_s):
                    await pubsub.get_message(timeout=None)  # the server confirms, or refuses
                yield pubsub

    async def next_hint(self, pubsub: Any) -> str | None:
        """Return the next message, None after a few seconds without any. A connection that is silently dead is found
        by a ping in between. Raises StoreUnavailable.
        """
        with store_errors():
            message = await pubsub.get_message(timeout=HINT_S)
            if message is None:
                async with asyncio.timeout(self._timeout_s):
                    await pubsub.ping()
                    message = await pubsub.get_message(timeout=None)  # a hint may come before the answer
            return str(message["data"]) if message and message["type"] == "message" else None

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await close(self._client)
        await close(self._blocking)


def node(client: Any, key: str = "") -> AbstractAsyncContextManager[Any]:
    """Return the client of the node that has this key; of some node where none is named."""
    return client.at(key) if isinstance(client, Nodes) else nullcontext(client)


async def joined(parts: Iterable[Awaitable[T]]) -> list[T]:
    """Return what all parts return; an error is raised only when every part has ended, so that nothing goes on."""
    parts = list(parts)
    if len(parts) == 1:
        return [await parts[0]]
    answers = await asyncio.gather(*parts, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]
