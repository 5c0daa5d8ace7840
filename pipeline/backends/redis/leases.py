"""Renewing leases from a thread of its own, with a connection of its own: a blocked event loop loses none."""

import threading
from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import NoScriptError

from contracts.topology import by_home
from pipeline.backends.redis.address import Address
from pipeline.backends.redis.connecting import close_thread_client, thread_client
from pipeline.backends.redis.deliveries import token
from pipeline.backends.redis.errors import store_errors
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.broker import Delivery, LeaseState
from pipeline.errors import StoreUnavailable

LIMIT_S: Final = 0.9
AT_ONCE: Final = 200


class RedisLeases:
    """A connection for the lease thread."""

    def __init__(self, address: Address, keys: Keys) -> None:
        self._keys, self._several = keys, address.kind == "cluster"
        self._client: Any = thread_client(address, LIMIT_S)
        self._in_use = threading.Lock()

    def renew(self, deliveries: Sequence[Delivery]) -> list[LeaseState]:
        """Refresh the leases that are still ours. Raises StoreUnavailable within a second; in a Cluster after every home was
        tried, for the node of another one may answer.
        """
        states: dict[int, LeaseState] = {}
        failed: StoreUnavailable | None = None
        with self._in_use:
            if self._client is None:
                raise StoreUnavailable("the connection of the leases was closed by this process")
            for name, places in by_home(
                range(len(deliveries)), lambda place: deliveries[place].queue
            ).items():
                try:
                    for first in range(0, len(places), AT_ONCE):
                        some = places[first : first + AT_ONCE]
                        said = self._run(self._keys.prefix(name), [deliveries[place] for place in some])
                        states |= zip(some, map(LeaseState, said), strict=True)
                except StoreUnavailable as error:
                    failed = error
                    if not self._several:
                        break
        if failed is not None:
            raise failed
        return [states[place] for place in range(len(deliveries))]

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._in_use:
            if self._client is not None:
                close_thread_client(self._client)
                self._client = None

    def _run(self, key: str, deliveries: Sequence[Delivery]) -> list[str]:
        renew = script("renew_leases")
        args = [part for one in deliveries for part in token(one)]
        with store_errors():
            try:
                said: list[str] = self._client.execute_command("EVALSHA", renew.digest, 1, key, *args)
            except NoScriptError:  # it has not run
                said = self._client.execute_command("EVAL", renew.text, 1, key, *args)
        return said
