"""Sentinel and Cluster as backends of tests. The places that they name are those of proxies, so that requests and replies are
lost on the wire there too. Each is started once a session.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache

from pipeline.broker import Broker

from tests.support.faults import Loss
from tests.support.redis_backend import Redis, Wire
from tests.support.redis_server import Given, RedisServer, lasting
from tests.support.redis_topologies import SERVICE, Cluster, Watcher
from tests.support.tcp_proxy import Request, TcpProxy

LASTING = "shared tcp proxy"


class Proxies:
    """Those of a session's servers, as if they were one. They live as long as the session."""

    def __init__(self, places: Sequence[tuple[str, int]]) -> None:
        self.all = [TcpProxy(*place, name=LASTING) for place in places]
        for one in self.all:
            lasting.callback(one.close)

    @contextmanager
    def away(self) -> Iterator[None]:
        with ExitStack() as stack:
            for one in self.all:
                stack.enter_context(one.away())
            yield

    @contextmanager
    def losing(self, loss: Loss, matches: Callable[[Request], bool]) -> Iterator[None]:
        """It happens to the one server that is asked; the others forget it."""
        with ExitStack() as stack:
            for one in self.all:
                stack.enter_context(one.losing(loss, matches))
            yield

    def close(self) -> None: ...


class SentinelRedis(Redis):
    """A primary that a sentinel names, and does not soon take for lost: whatever a test does, the next one can begin."""

    def shared(self) -> Sequence[Given]:
        return [_watched()[0]]

    def between(self) -> Wire:
        return _watched()[2]

    def url(self) -> str:
        sentinel = _watched()[1]
        return f"sentinel://{sentinel.host}:{sentinel.port}/{SERVICE}/0"


class ClusterRedis(Redis):
    """Three nodes that share the slots."""

    def shared(self) -> Sequence[Given]:
        return _cluster()[0].servers

    def between(self) -> Wire:
        return _cluster()[1]

    async def restart(self) -> Broker:
        await self._close_all()
        for node in self.servers:
            node.restart()
        await _cluster()[0].complete()
        return await self.open()

    def url(self) -> str:
        return f"cluster://{','.join(f'127.0.0.1:{one.port}' for one in _cluster()[1].all)}"


@cache
def _watched() -> tuple[RedisServer, RedisServer, Proxies]:
    primary = RedisServer(name="shared", appendonly="yes").start()
    wire = Proxies([(primary.host, primary.port)])
    sentinel = Watcher(wire.all[0].port, quorum=1, name="shared", down_ms=60_000).start()
    for server in (sentinel, primary):
        lasting.callback(server.close)
    return primary, sentinel, wire


@cache
def _cluster() -> tuple[Cluster, Proxies]:
    cluster = Cluster(name="shared", appendonly="yes")
    wire = Proxies([(node.host, node.port) for node in cluster.servers])
    for node, proxy in zip(cluster.servers, wire.all, strict=True):
        node._settings["cluster-announce-port"] = str(proxy.port)
        node.start()  # in this thread, for they end with the thread that started them
        lasting.callback(node.close)
    with ThreadPoolExecutor(1) as elsewhere:  # a loop runs here
        elsewhere.submit(asyncio.run, cluster.__aenter__()).result()
    return cluster, wire
