"""Redis as a backend of tests: a namespace of the session's server, reached through a proxy that really loses things."""

import itertools
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import pytest
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.leases import RedisLeases
from pipeline.backends.redis.scripts import Script, script
from pipeline.backends.redis.server import Server
from pipeline.broker import Broker
from pipeline.config import load
from redis import Redis as Client

from tests.support.faults import Faults, Loss, asked, know_who_asks
from tests.support.redis_server import Given, forget, shared
from tests.support.tcp_proxy import Request, TcpProxy, evaluates, says

PATIENT: Final[Mapping[str, Any]] = MappingProxyType({"redis_op_timeout_ms": 3000})
"""A machine that is busy with other tests is no outage."""
NOT_KEPT: Final = {"stats", "meta"}
ASKING: Final = frozenset(
    [
        "held",
        "wait_for_work",
        "job",
        "states",
        "tasks",
        "queue_stats",
        "has_queued",
        "queued_ids",
        "workers",
        "dead_letters",
        "ping",
    ]
)
"""Methods that change nothing. Others may look before they leap, and what they lose is the leap."""
LOOKING: Final = "#!lua flags=no-writes"
_numbers = itertools.count(1)


class Wire(Protocol):
    """What stands between us and the servers."""

    def away(self) -> AbstractContextManager[None]: ...

    def losing(self, loss: Loss, matches: Callable[[Request], bool]) -> AbstractContextManager[None]: ...

    def close(self) -> None: ...


class WireFaults(Faults):
    """Losses that happen on the wire."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.wire = wire

    @contextmanager
    def away(self) -> Iterator[None]:
        with self.wire.away():
            yield


class Redis:
    """A namespace. When a method that has to lose something sends its request, the proxy is told to lose just that one
    or its reply; the error is what the broken connection makes of it.
    """

    def __init__(self, folder: Path, server: Given | None = None, **settings: Any) -> None:
        self.servers = [server] if server else self.shared()
        self.wire = self.between()
        self.faults: Faults = WireFaults(self.wire)
        self.namespace = f"t{os.getpid()}-{next(_numbers)}"
        self._folder, self._settings = folder / "data", {**PATIENT, **settings}
        self._brokers: list[RedisBroker] = []
        self._patch = pytest.MonkeyPatch()
        know_who_asks(self._patch, RedisBroker)
        for way in ("run", "run_in_order"):
            self._patch.setattr(Server, way, self._lossy_run(getattr(Server, way)))
        self._patch.setattr(Server, "call", self._lossy_call(Server.call))
        self._patch.setattr(RedisLeases, "renew", self._lossy_renewal(RedisLeases.renew))

    def shared(self) -> Sequence[Given]:
        """Return the session's servers that have keys."""
        return [shared()]

    def between(self) -> Wire:
        """Return what stands between us and them."""
        (server,) = self.servers
        return TcpProxy(server.host, server.port)

    @property
    def proxy(self) -> TcpProxy:
        """It, where it is one."""
        assert isinstance(self.wire, TcpProxy)
        return self.wire

    def url(self) -> str:
        """Return where they are, seen through it."""
        url = urlsplit(self.servers[0].url)
        login = f"{url.netloc.rsplit('@', 1)[0]}@" if "@" in url.netloc else ""
        return url._replace(netloc=f"{login}127.0.0.1:{self.proxy.port}").geturl()

    async def open(self) -> Broker:
        broker = await RedisBroker.open(load(**self.settings()))
        self._brokers.append(broker)
        return broker

    async def restart(self) -> Broker:
        await self._close_all()
        for server in self.servers:
            server.restart()
        return await self.open()

    async def close(self) -> None:
        await self._close_all()
        self._patch.undo()
        self.wire.close()
        for server in self.servers:
            forget(server, self.namespace)

    def settings(self) -> Mapping[str, Any]:
        return {
            "redis_url": self.url(),
            "namespace": self.namespace,
            "data_dir": self._folder,
            **self._settings,
        }

    def footprint(self) -> Mapping[str, int]:
        return footprint(self.servers, self.namespace)

    async def _close_all(self) -> None:
        while self._brokers:
            await self._brokers.pop().close()

    def _lossy_run(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def run(server: Server, one: Script, key: str, *args: Any) -> Any:
            looks = one.text.startswith(LOOKING) and asked.get() not in ASKING
            loss = Loss.NOTHING if looks else self.faults.take(asked.get())
            with self.wire.losing(loss, evaluates(one.digest, one.text, key)):
                return await method(server, one, key, *args)

        return run

    def _lossy_call(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(server: Server, *command: Any) -> Any:
            with self.wire.losing(self.faults.take(asked.get()), says(*command[:2])):
                return await method(server, *command)

        return call

    def _lossy_renewal(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def renew(leases: RedisLeases, deliveries: Any) -> Any:
            one = script("renew_leases")
            with self.wire.losing(self.faults.take("renew"), evaluates(one.digest, one.text)):
                return method(leases, deliveries)

        return renew


def footprint(servers: Sequence[Given], namespace: str) -> Mapping[str, int]:
    """See `tests.support.backends.Backend.footprint`."""
    kept = Counter[str]()
    for server in servers:
        with server.client() as client:
            for key in client.scan_iter(match=f"{namespace}:*", count=1000):
                kind = _kind(key)
                if kind.partition(":")[0] not in NOT_KEPT:
                    kept[kind] += _size(client, key)
    return +kept


def _kind(key: str) -> str:
    """Return what a key is: ns:{home}:gone:brief is gone:brief, ns:{home}:q:default:retry is q:retry."""
    name = key.partition("}")[2].removeprefix(":")
    word, _, rest = name.partition(":")
    match word:
        case "":
            return (
                key.partition("{")[2].partition(":")[0].removesuffix("}")
            )  # a lock, or the registry of workers
        case "q":
            return f"q:{rest.partition(':')[2]}"
        case "gone" | "dead":
            return name
        case _:
            return word


def _size(client: Client, key: str) -> int:
    """Return how many things a key keeps. Of a stream also the consumers that its groups remember."""
    match client.type(key):
        case "zset":
            return int(client.zcard(key))
        case "set":
            return int(client.scard(key))
        case "stream":
            return int(client.xlen(key)) + sum(int(group["consumers"]) for group in client.xinfo_groups(key))
        case "hash" if _kind(key) in {"dead:at", "dead:tended:at", "workers", "lock"}:
            return int(client.hlen(key))
        case "none":
            return 0  # it ended meanwhile
        case _:
            return 1
