"""The backends that keep the promises, each listed once in `BACKENDS`.

A test knows a backend by what every one of them can do: open a connection as another process would, restart, lose
requests and replies, and count what it keeps.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from pipeline.broker import Broker, Retention

from tests.support.faults import Faults
from tests.support.lite_backend import Lite
from tests.support.redis_backend import Redis
from tests.support.redis_topology_backends import ClusterRedis, SentinelRedis


class Backend(Protocol):
    """One store, as tests see it."""

    faults: Faults

    async def open(self) -> Broker:
        """Return a connection such as another process would have; `close` closes it."""

    async def restart(self) -> Broker:
        """End every process that uses the store, and the store; start it again and return a connection."""

    async def close(self) -> None:
        """Close every connection and leave nothing."""

    def settings(self) -> Mapping[str, Any]:
        """What `Pipeline.open` must be told to use this store."""

    def footprint(self) -> Mapping[str, int]:
        """How many things of each kind the store keeps, but for counters and what is limited by days."""


TOPOLOGY: Final = "STREAMLANE_TEST_REDIS_TOPOLOGY"
"""Names the one backend to test, instead of the two: sentinel or cluster."""
USUAL: Final[Mapping[str, Callable[[Path], Backend]]] = {"lite": Lite, "redis": Redis}
TOPOLOGIES: Final[Mapping[str, Callable[[Path], Backend]]] = {
    "sentinel": SentinelRedis,
    "cluster": ClusterRedis,
}
_asked = os.environ.get(TOPOLOGY)
BACKENDS: Final = {_asked: TOPOLOGIES[_asked]} if _asked else USUAL

NOTHING_KEPT: Final = Retention(
    cancelled_ms=0, archived_ms=0, archived_max=0, tombstone_ms=0, repeat_ms=0, fence_ms=0, stats_days=0
)
"""What is over is forgotten at once."""
