"""Hands on the jobs of workers that were lost."""

from collections.abc import Callable
from typing import Final

import structlog

from contracts.states import JobState
from pipeline.broker import Broker, ReclaimPolicy
from pipeline.config import Settings

LONGEST_S: Final = 1.5
SHORTEST_S: Final = 0.05

log = structlog.get_logger(component="reclaimer")


class Reclaimer:
    """Looks for leases that ended, often enough that a job runs elsewhere within lease + 2 s."""

    def __init__(self, broker: Broker, settings: Settings, on_death: Callable[[], None]) -> None:
        self._broker, self._on_death = broker, on_death
        self._policy = ReclaimPolicy(
            lease_ms=round(settings.lease_s * 1000), max_crashes=settings.max_crashes
        )
        self._every_s = min(max(settings.lease_s / 6, SHORTEST_S), LONGEST_S)

    async def tick(self) -> float:
        """Reclaim one batch. Raises StoreUnavailable."""
        taken = await self._broker.reclaim(self._policy)
        for one in taken:
            log.warning("worker lost", job=one.job_id, queue=one.queue, worker=one.consumer, now=one.state)
        if any(one.state is JobState.ARCHIVED for one in taken):
            self._on_death()
        return 0 if len(taken) >= self._policy.limit else self._every_s
