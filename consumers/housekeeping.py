"""Housekeeping: every five minutes one process looks for what got stuck and puts it into order (facts 7, DESIGN 16).

Whatever cannot be told is put off to the next sweep, and what moves meanwhile wins: see `consumers.knowledge.documents.stillness`.
Sweeping twice at once is therefore harmless; the lock only spares the work.
"""

from typing import Final

import structlog

from consumers.knowledge.documents import leftovers
from consumers.knowledge.search.store import SearchStore
from consumers.sweeping import Sweep, Swept
from consumers.waking import tell_wiki
from pipeline import Database, Outbox, Pipeline
from pipeline.holding import Place, holding
from pipeline.store import now_ms

EVERY_S: Final = 300.0
LEASE_S: Final = 30.0
"""A sweep whose process was killed is begun again elsewhere within this time."""
LOCK: Final = "housekeeping"
LAST: Final = "housekeeping"

log = structlog.get_logger(component="housekeeping")


class Housekeeping:
    """The sweeps of one process, and what it takes up when it starts."""

    def __init__(
        self,
        pipeline: Pipeline,
        database: Database,
        outbox: Outbox,
        index: SearchStore,
        *,
        every_s: float = EVERY_S,
        lease_s: float = LEASE_S,
    ) -> None:
        self._pipeline, self._database, self._outbox, self._index = pipeline, database, outbox, index
        self._broker = pipeline.broker
        self._every_ms, self._lease_s = round(every_s * 1000), lease_s
        self._recovered = False

    async def tick(self) -> float:
        """Recover once, and sweep unless somebody has in this period; return the seconds to wait.

        Raises StoreUnavailable.
        """
        number, passed = divmod(now_ms(), self._every_ms)
        pause = (self._every_ms - passed) / 1000
        if self._recovered and await self._is_swept(number):
            return pause
        async with holding(self._broker, LOCK, self._lease_s) as place:
            if place is None:
                return min(pause, self._lease_s / 3)  # whoever leads may be lost
            if not self._recovered:
                await self.recover()
                self._recovered = True
            if not await self._is_swept(number):
                await self._sweep(place).run()
                if place.is_held:
                    await self._broker.remember(LAST, str(number), anew=True)
        return pause

    async def _is_swept(self, number: int) -> bool:
        """Whether this period has had its sweep. The clock of whoever made it may be ahead."""
        if not self._pipeline.settings.housekeeping_enabled:
            return True
        last = await self._broker.remember(LAST, "0")
        return last in {str(number), str(number + 1)}

    async def sweep(self, *, dry: bool = False) -> Swept | None:
        """Sweep now; None if another process does. With `dry`, only say what would be done. Raises StoreUnavailable."""
        if dry:
            return await self._sweep(None).run()
        async with holding(self._broker, LOCK, self._lease_s) as place:
            return await self._sweep(place).run() if place else None

    async def recover(self) -> int:
        """Drop the operations of what was deleted, and tell each wiki with a backlog that it has work; return how many.
        However many processes start at once, each wiki is told once. Raises StoreUnavailable.
        """
        async with self._database.transaction() as session:
            dropped = await leftovers.drop_orphans(session)
            waiting = await leftovers.wiki_backlogs(session)
        told = [
            await tell_wiki(self._pipeline, self._outbox, backlog, now_ms() // self._every_ms)
            for backlog in waiting
        ]
        if dropped or any(told):
            log.info("recovered at start", operations_dropped=dropped, wikis_told=sum(told))
        return sum(told)

    def _sweep(self, place: Place | None) -> Sweep:
        return Sweep(
            self._pipeline,
            self._database,
            self._outbox,
            self._index,
            dry=place is None,
            goes_on=lambda: place is None or place.is_held,
        )
