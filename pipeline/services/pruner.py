"""Removes what has been kept long enough."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import structlog

from pipeline.broker import Broker, Retention
from pipeline.clock import DAY_MS
from pipeline.config import Settings
from pipeline.errors import StoreUnavailable

EVERY_S: Final = 60.0
ENDLESS_MS: Final = 3650 * DAY_MS

log = structlog.get_logger(component="pruner")


class Pruner:
    """Applies the retention settings once a minute. `oldest` says how long, in milliseconds, the oldest job waits to be sent:
    it may have been sent before, so the memory of ids lasts longer than that.
    """

    def __init__(
        self, broker: Broker, settings: Settings, oldest: Callable[[], Awaitable[int]] | None = None
    ) -> None:
        self._broker, self._oldest = broker, oldest
        self._retention = Retention(
            cancelled_ms=round(settings.cancelled_retention_s * 1000),
            archived_ms=round(settings.archived_retention_days * DAY_MS),
            archived_max=settings.archived_max,
        )

    async def tick(self) -> float:
        """Prune once. Raises StoreUnavailable."""
        pruned = await self._broker.prune(await self._kept())
        log.debug("pruned", jobs=pruned.jobs, tombstones=pruned.tombstones, fences=pruned.fences)
        return EVERY_S

    async def _kept(self) -> Retention:
        if self._oldest is None:
            return self._retention
        try:
            longer = await self._oldest()
        except StoreUnavailable:  # nobody can tell
            longer = ENDLESS_MS
        return replace(self._retention, tombstone_ms=self._retention.tombstone_ms + longer)
