"""Says that a worker process lives."""

from collections.abc import Callable
from typing import Final

from pipeline.broker import Broker
from pipeline.records import WorkerBeat

EVERY_S: Final = 2.0
TTL_MS: Final = 7_000
"""Three beats may be late."""


class Heartbeat:
    """Registers a worker process every two seconds; `beat` tells its state at that moment."""

    def __init__(self, broker: Broker, beat: Callable[[], WorkerBeat]) -> None:
        self._broker, self._beat = broker, beat

    async def tick(self) -> float:
        """Say once that it lives. Raises StoreUnavailable."""
        await self._broker.heartbeat(self._beat(), TTL_MS)
        return EVERY_S
