"""What the worker does for a running handler: its progress and its locks."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Final

from contracts.identity import check_name
from contracts.options import check_count, check_seconds
from contracts.outcomes import Retry
from pipeline.broker import Broker
from pipeline.errors import StoreUnavailable
from pipeline.holding import holding
from pipeline.records import Progress
from pipeline.worker.attempt import Attempt, Told

PROGRESS_EVERY_S: Final = 0.1
TAKEN_RETRY_S: Final = 15.0
MIN_TTL_S: Final = 0.1


class AttemptControl:
    """Progress and locks of one attempt."""

    def __init__(self, broker: Broker, attempt: Attempt) -> None:
        self._broker, self._attempt = broker, attempt
        self._reported_at = 0.0
        self._stage = ""

    async def progress(self, done: int, total: int, stage: str) -> None:
        """Note how far the job is; of reports in quick succession only new stages and the end are sent."""
        now = time.monotonic()
        if stage == self._stage and done < total and now - self._reported_at < PROGRESS_EVERY_S:
            return
        self._reported_at, self._stage = now, stage
        with suppress(StoreUnavailable):  # the next report says more
            if not await self._broker.report(self._attempt.delivery, Progress(done, total, stage)):
                self._attempt.tell(Told.LOST)

    def lock(self, name: str, ttl: float, width: int) -> AbstractAsyncContextManager[int]:
        """Hold one of `width` places of a lock for as long as the block lasts, renewed every third of `ttl` seconds.

        Gives its fencing number. A place that is lost stops the handler.
        Raises Retry when all places are taken, StoreUnavailable when the store cannot say.
        """
        check_seconds(ttl, "lock ttl", least=MIN_TTL_S)
        check_count(width, "lock width", least=1)
        return self._hold(check_name(name, "lock name"), ttl, width)

    @asynccontextmanager
    async def _hold(self, name: str, ttl: float, width: int) -> AsyncIterator[int]:
        why = f"lost lock {name!r}: it was not renewed within {ttl:g} s"
        lost = partial(self._attempt.tell, Told.LOCK_LOST, why)
        async with holding(self._broker, name, ttl, width, lost=lost) as place:
            if place is None:
                raise Retry(after=TAKEN_RETRY_S, reason=f"lock {name!r} is taken")
            forget = self._attempt.at_end(place.leave)
            try:
                yield place.number
            finally:
                forget()
