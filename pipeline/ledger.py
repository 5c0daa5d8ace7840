"""The ledger: what outlives the queue store. Port of its dead letters."""

from collections.abc import Sequence
from typing import Protocol

from pipeline.broker import DeadLetter


class Ledger(Protocol):
    """Where deaths are recorded for good."""

    async def record_deaths(self, letters: Sequence[DeadLetter]) -> None:
        """Write one row a death, however often it is told. Raises StoreUnavailable."""
