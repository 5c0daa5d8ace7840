"""Renewing leases from a thread of its own, with a connection of its own: a blocked event loop loses none."""

import threading
from collections.abc import Sequence
from typing import Any, Final

from redis import BlockingConnectionPool, Redis, RedisCluster, Sentinel
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.connection import SSLConnection
from redis.exceptions import NoScriptError
from redis.retry import Retry

from contracts.topology import home
from pipeline.backends.redis.address import Address
from pipeline.backends.redis.errors import store_errors
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import options_of
from pipeline.broker import Delivery, LeaseState
from pipeline.errors import StoreUnavailable

LIMIT_S: Final = 0.9
AT_ONCE: Final = 200


class RedisLeases:
    """A connection for the lease thread."""

    def __init__(self, address: Address, keys: Keys) -> None:
        self._keys = keys
        self._client: Any = _client(address)
        self._in_use = threading.Lock()

    def renew(self, deliveries: Sequence[Delivery]) -> list[LeaseState]:
        """Refresh the leases that are still ours. Raises StoreUnavailable within a second."""
        states: dict[int, LeaseState] = {}
        by_home: dict[str, list[int]] = {}
        for index, one in enumerate(deliveries):
            by_home.setdefault(home(one.queue), []).append(index)
        with self._in_use, store_errors():
            if self._client is None:
                raise StoreUnavailable("the connection of the leases was closed by this process")
            for name, indexes in by_home.items():
                for first in range(0, len(indexes), AT_ONCE):
                    some = indexes[first : first + AT_ONCE]
                    said = self._run(self._keys.prefix(name), [deliveries[index] for index in some])
                    states |= zip(some, map(LeaseState, said), strict=True)
        return [states[index] for index in range(len(deliveries))]

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._in_use:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _run(self, key: str, deliveries: Sequence[Delivery]) -> list[str]:
        renew = script("renew_leases")
        args = [part for one in deliveries for part in (one.queue, one.entry, one.job_id, one.consumer)]
        try:
            said: list[str] = self._client.execute_command("EVALSHA", renew.digest, 1, key, *args)
        except NoScriptError:  # it has not run
            said = self._client.execute_command("EVAL", renew.text, 1, key, *args)
        return said


def _client(address: Address) -> Any:
    options = options_of(address, LIMIT_S) | {"retry": Retry(NoBackoff(), 0)}
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
        return RedisCluster(startup_nodes=nodes, **options)
    if address.kind == "sentinel":
        asked = {name: value for name, value in options.items() if name != "db"}
        sentinel = Sentinel(list(address.hosts), sentinel_kwargs=asked, **options)  # type: ignore[no-untyped-call]
        return sentinel.master_for(address.service)  # type: ignore[no-untyped-call]
    if address.path:
        del options["socket_keepalive"]
        return Redis(unix_socket_path=address.path, **options)
    (host, port), *_ = address.hosts
    secure = {"connection_class": SSLConnection} if options.pop("ssl", False) else {}
    return Redis(
        connection_pool=BlockingConnectionPool(  # type: ignore[no-untyped-call]
            max_connections=1, timeout=LIMIT_S, host=host, port=port, **secure, **options
        )
    )
