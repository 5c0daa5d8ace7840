"""How redis-py is set up: for the event loop and for the lease thread, for one server, Sentinel and Cluster, with TLS."""

import asyncio
from dataclasses import replace
from typing import Any, Final

import redis
from redis.asyncio import BlockingConnectionPool, Sentinel
from redis.asyncio.connection import DefaultParser, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool, SentinelManagedSSLConnection
from redis.backoff import NoBackoff
from redis.connection import SSLConnection as ThreadSSLConnection
from redis.retry import Retry as ThreadRetry
from redis.sentinel import SentinelManagedSSLConnection as ThreadManagedSSLConnection

from pipeline.backends.redis.address import Address
from pipeline.backends.redis.cluster import Nodes, Place, ThreadNodes
from pipeline.backends.redis.direct import Direct

CONNECT_S: Final = 2.0


def client(address: Address, timeout_s: float | None, most: int) -> Any:
    """Return a client of the event loop, with at most so many connections to each server."""
    options = _options(address, timeout_s) | {"retry": Retry(NoBackoff(), 0)}
    if address.kind == "cluster":
        return Nodes(address.hosts, lambda place: client(_at(address, place), timeout_s, most))
    pool: dict[str, Any] = {"max_connections": most, "timeout": timeout_s or 5.0, "parser_class": Parser}
    if address.kind == "sentinel":
        pool |= {
            "redis_class": Direct,
            "connection_pool_class": WatchedPool,
            **_secure(address, SentinelManagedSSLConnection),
        }
        return _sentinel(Sentinels, address, options, SSLConnection).master_for(address.service, **pool)
    if address.path:
        options |= {"connection_class": UnixDomainSocketConnection, "path": address.path}
        del options["socket_keepalive"], options["socket_connect_timeout"]
    else:
        (host, port), *_ = address.hosts
        options |= {"host": host, "port": port, **_secure(address, SSLConnection)}
        options.pop("ssl", None)
    return Direct.from_pool(BlockingConnectionPool(**pool, **options))


def thread_client(address: Address, timeout_s: float) -> Any:
    """Return a client for another thread, with one connection to each server."""
    options = _options(address, timeout_s) | {"retry": ThreadRetry(NoBackoff(), 0)}
    if address.kind == "cluster":
        return ThreadNodes(address.hosts, lambda place: thread_client(_at(address, place), timeout_s))
    if address.kind == "sentinel":
        sentinel = _sentinel(redis.Sentinel, address, options, ThreadSSLConnection)
        return sentinel.master_for(address.service, **_secure(address, ThreadManagedSSLConnection))
    if address.path:
        del options["socket_keepalive"]
        return redis.Redis(unix_socket_path=address.path, **options)
    (host, port), *_ = address.hosts
    options |= {"host": host, "port": port, "max_connections": 1, "timeout": timeout_s}
    options |= _secure(address, ThreadSSLConnection)
    options.pop("ssl", None)
    return redis.Redis(connection_pool=redis.BlockingConnectionPool(**options))  # type: ignore[no-untyped-call]


async def close(client: Any) -> None:
    """Close every connection of a client of the event loop, those to sentinels too. Idempotent."""
    await client.aclose()
    for sentinel in _sentinels(client):
        await sentinel.aclose()


def close_thread_client(client: Any) -> None:
    """The same for a client of another thread."""
    client.close()
    for sentinel in _sentinels(client):
        sentinel.close()


class Sentinels(Sentinel):
    """Ask once for all who want to know at the same time. redis-py changes the order of its list while it asks, and where
    several do so at once it loses some of the sentinels from it.
    """

    _asking: asyncio.Future[Any] | None = None

    async def discover_master(self, service_name: str) -> Any:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(super().discover_master(service_name))
            self._asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())  # it is seen
        return await asyncio.shield(self._asking)


class WatchedPool(SentinelConnectionPool, BlockingConnectionPool):
    """Of the primary that sentinels name; whoever wants one connection more waits."""


class Parser(DefaultParser):  # type: ignore[misc,valid-type]
    """Before a connection is used again redis-py looks whether it was closed meanwhile; here also, whether it was reset.
    Otherwise, after an outage, each one in the pool would fail once more.
    """

    async def can_read(self) -> bool:
        return self._stream.exception() is not None or await super().can_read()


def _at(address: Address, place: Place) -> Address:
    return replace(address, kind="redis", hosts=(place,))


def _options(address: Address, timeout_s: float | None) -> dict[str, Any]:
    return {
        **address.options,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s or CONNECT_S,
        "socket_keepalive": True,
        "health_check_interval": 0,
        "decode_responses": True,
        "encoding_errors": "replace",
        "protocol": 2,
    }


def _sentinel(kind: Any, address: Address, options: dict[str, Any], secure: type) -> Any:
    """Sentinels have no databases; they are asked with the same login and the same TLS."""
    asked = {name: value for name, value in options.items() if name != "db"}
    sentinel = kind(list(address.hosts), sentinel_kwargs=asked, **options)
    for one in sentinel.sentinels:
        vars(one.connection_pool).update(_secure(address, secure))
    return sentinel


def _sentinels(client: Any) -> list[Any]:
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    return manager.sentinels if manager else []


def _secure(address: Address, kind: type) -> dict[str, Any]:
    """Return the class of connections with TLS, where there is any."""
    if not address.options.get("ssl"):
        return {}
    own = {"server_name": address.server_name, "context": None}
    return {"connection_class": type(kind.__name__, (_Secure, kind), own)}


class _Secure:
    """One context serves all connections of a client, because reading the authorities takes longer than the rest. It verifies
    the name that was set: the address may be one of a tunnel, or a bare number.
    """

    server_name: str
    context: Any

    def _connection_arguments(self) -> dict[str, Any]:
        arguments: dict[str, Any] = super()._connection_arguments()  # type: ignore[misc]
        return arguments | ({"server_hostname": self.server_name} if self.server_name else {})

    @property
    def ssl_context(self) -> Any:
        return type(self).context

    @ssl_context.setter
    def ssl_context(self, context: Any) -> None:
        type(self).context = type(self).context or context

    def _wrap_socket_with_ssl(self: Any, sock: Any) -> Any:
        """In a thread: redis-py verifies `host`, and needs it only before and after."""
        host, self.host = self.host, self.server_name or self.host
        try:
            return super()._wrap_socket_with_ssl(sock)  # type: ignore[misc]
        finally:
            self.host = host
