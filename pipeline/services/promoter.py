"""Moves jobs to pending when they are due."""

from typing import Final

from pipeline.broker import Broker

BATCH: Final = 500
LONGEST_S: Final = 2.0


class Promoter:
    """Sleeps until the next job is due; whoever enqueues an earlier one wakes it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def tick(self) -> float:
        """Promote what is due. Raises StoreUnavailable."""
        promoted = await self._broker.promote(BATCH)
        if promoted.moved >= BATCH:
            return 0
        return pause_s(promoted.due_in_ms)


def pause_s(due_in_ms: int | None) -> float:
    """Return the seconds to sleep: until just after the next due time, and never so long that a lost hint matters."""
    return LONGEST_S if due_in_ms is None else min((due_in_ms + 1) / 1000, LONGEST_S)
