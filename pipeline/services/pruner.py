"""Removes what has been kept long enough."""

from typing import Final

import structlog

from pipeline.broker import Broker, Retention
from pipeline.clock import DAY_MS
from pipeline.config import Settings

EVERY_S: Final = 60.0

log = structlog.get_logger(component="housekeeping")


class Pruner:
    """Applies the retention settings once a minute."""

    def __init__(self, broker: Broker, settings: Settings) -> None:
        self._broker = broker
        self._retention = Retention(
            cancelled_ms=round(settings.cancelled_retention_s * 1000),
            archived_ms=round(settings.archived_retention_days * DAY_MS),
            archived_max=settings.archived_max,
        )

    async def tick(self) -> float:
        """Prune once. Raises StoreUnavailable."""
        pruned = await self._broker.prune(self._retention)
        log.debug("pruned", jobs=pruned.jobs, tombstones=pruned.tombstones, fences=pruned.fences)
        return EVERY_S
