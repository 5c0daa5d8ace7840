"""Redis as the broker uses it: every call has a limit and is sent once.

redis-py repeats by itself whatever fails, which makes two entries of one XADD; here nothing is repeated that may have
happened. One server, Sentinel and Cluster look alike from here on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import DefaultParser, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from pipeline.backends.redis.address import Address
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
        self._address, self._timeout_s, self._replicas = address, timeout_s, replicas
        self._client = _client(address, timeout_s, CONNECTIONS)
        self._blocking = _client(address, None, 64)

    async def run(self, script: Script, key: str, *args: Any) -> Any:
        """Run a transition where `key` lies. Raises StoreUnavailable, StoreFull."""
        with store_errors():
            try:
                return await self._client.execute_command("EVALSHA", script.digest, 1, key, *args)
            except NoScriptError:  # it has not run
                return await self._client.execute_command("EVAL", script.text, 1, key, *args)

    async def write(self, script: Script, key: str, *args: Any) -> Any:
        """Run a transition, and return once as many replicas as were asked for have it.

        Raises StoreUnavailable (also where they are too few), StoreFull.
        """
        if not self._replicas:
            return await self.run(script, key, *args)
        with store_errors():
            async with self._client.pipeline(transaction=False) as together:
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
            return await self._client.execute_command(*command)

    async def info(self, section: str) -> Any:
        """Return a section of INFO, of any node. Raises StoreUnavailable."""
        with store_errors():
            if isinstance(self._client, RedisCluster):
                await self._client.initialize()
                return await self._client.info(section, target_nodes=self._client.get_default_node())
            return await self._client.info(section)

    async def listen(self, streams: Sequence[tuple[str, str]], block_s: float) -> list[Any]:
        """Return soon after one of these streams (all of one home) has an entry after the id given; [] after `block_s`.

        Nothing is taken by that. Raises StoreUnavailable.
        """
        keys, ids = [key for key, _ in streams], [last for _, last in streams]
        command = ("XREAD", "COUNT", 1, "BLOCK", round(block_s * 1000), "STREAMS", *keys, *ids)
        with store_errors():
            async with asyncio.timeout(block_s + self._timeout_s):
                return await self._blocking.execute_command(*command) or []

    @asynccontextmanager
    async def subscribed(self, channel: str) -> AsyncIterator[Any]:
        """Subscribe to a channel; what it yields is for `next_hint`. Raises StoreUnavailable."""
        client = self._blocking
        with store_errors():
            if isinstance(client, RedisCluster):
                await client.initialize()
                node = client.get_default_node()
                here = ((node.host, int(node.port)),)
                client = _client(Address("redis", here, self._address.options), None, 2)
            async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
                await pubsub.subscribe(channel)
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
                    message = await pubsub.get_message(timeout=self._timeout_s)
                    return None
            return str(message["data"]) if message["type"] == "message" else None

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        await self._client.aclose()
        await self._blocking.aclose()


async def joined(parts: Iterable[Awaitable[T]]) -> list[T]:
    """Return what all parts return; an error is raised only when every part has ended, so that nothing goes on."""
    answers = await asyncio.gather(*parts, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def options_of(address: Address, timeout_s: float | None) -> dict[str, Any]:
    """Return what every connection is told, in whichever thread."""
    return {
        **address.options,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s or 2.0,
        "socket_keepalive": True,
        "health_check_interval": 0,
        "decode_responses": True,
        "encoding_errors": "replace",
        "protocol": 2,
    }


class Parser(DefaultParser):  # type: ignore[misc,valid-type]
    """Before a connection is used again redis-py looks whether it was closed meanwhile; here also, whether it was reset.
    Otherwise, after an outage, each one in the pool would fail once more.
    """

    async def can_read(self) -> bool:
        return self._stream.exception() is not None or await super().can_read()


def _client(address: Address, timeout_s: float | None, most: int) -> Any:
    options = options_of(address, timeout_s) | {"retry": Retry(NoBackoff(), 0)}
    if address.kind != "cluster":
        options["parser_class"] = Parser
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]
        del options["health_check_interval"]
        return RedisCluster(startup_nodes=nodes, max_connections=most, **options)
    if address.kind == "sentinel":
        asked = _sentinel_options(options)
        sentinel = Sentinel(list(address.hosts), sentinel_kwargs=asked, **options)  # type: ignore[no-untyped-call]
        return sentinel.master_for(address.service, connection_pool_class=SentinelConnectionPool)
    if address.path:
        pool: Any = BlockingConnectionPool(
            max_connections=most, connection_class=UnixDomainSocketConnection, path=address.path,
            **{k: v for k, v in options.items() if k not in {"socket_keepalive", "socket_connect_timeout"}},
        )  # fmt: skip
    else:
        (host, port), *_ = address.hosts
        secure: dict[str, Any] = {"connection_class": SSLConnection} if options.pop("ssl", False) else {}
        pool = BlockingConnectionPool(
            max_connections=most, timeout=timeout_s or 5.0, host=host, port=port, **secure, **options
        )
    return Redis.from_pool(pool)


def _sentinel_options(options: dict[str, Any]) -> dict[str, Any]:
    """Sentinels have no databases; they are asked with the same login and the same TLS."""
    return {name: value for name, value in options.items() if name != "db"}
