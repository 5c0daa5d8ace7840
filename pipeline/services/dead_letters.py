"""Records deaths for good and runs the final-failure hooks. The one place where either happens.

A death stays in the store until its row is written and its hook has run: a database that is down, or a hook that
fails, delays it and never loses it. A process that dies between hook and removal makes the hook run again. Where there
is no ledger, a death of a type that is handled there is left, once its hook has run, to a process that has one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from contracts.jobs import payload_type
from contracts.states import ArchiveReason
from contracts.topology import by_home
from pipeline.broker import Broker, DeadLetter
from pipeline.failure import describe, stack
from pipeline.handlers import Handler
from pipeline.holding import Place, holding
from pipeline.ledger import Ledger
from pipeline.looper import stops_us
from pipeline.outage import doubled
from pipeline.telemetry import span

BATCH: Final = 100
EVERY_S: Final = 5.0
TENDED_EVERY_S: Final = 30.0
"""How often it is looked for what processes without a ledger left."""
HOOK_LIMIT_S: Final = 60.0
LOCK_S: Final = 9.0
"""Renewed while the work goes on, so that a process that is killed in the middle of it holds the others up no longer."""
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 300.0

log = structlog.get_logger(component="dead_letter")


async def record_tended(broker: Broker, ledger: Ledger, queues: Sequence[str]) -> bool:
    """Write the rows of deaths that were taken care of where there was no ledger, a batch of them; return whether there
    may be more. Raises StoreUnavailable.
    """
    letters = await broker.dead_letters(queues, BATCH, tended=True)
    await ledger.record_deaths(letters)
    await broker.forget_dead_letters([letter.death_id for letter in letters])
    return len(letters) >= BATCH


class DeadLetters:
    """Takes care of the deaths in `queues`; with `only`, of those types alone. One process at a time does it."""

    def __init__(
        self,
        broker: Broker,
        handlers: Mapping[str, Handler],
        services: object,
        *,
        queues: Collection[str],
        ledger: Ledger | None,
        only: Collection[str] | None = None,
    ) -> None:
        self._broker, self._handlers, self._services = broker, handlers, services
        self._ledger, self._only = ledger, only
        self._queues = tuple(queues)
        self._homes = by_home(queues, str)
        self._put_off: dict[str, tuple[int, float]] = {}
        self._look_at = 0.0

    async def tick(self) -> float:
        """Take care of one batch of each home. Raises StoreUnavailable."""
        now = time.monotonic()
        if self._ledger is not None and now >= self._look_at:
            more = await record_tended(self._broker, self._ledger, self._queues)
            self._look_at = now if more else now + TENDED_EVERY_S
        if not await self._broker.dead_letters(self._queues, 1):  # one look for all, for it is done all day
            return EVERY_S
        found = [await self._tend(f"dead-letters:{name}", queues) for name, queues in self._homes.items()]
        return 0 if any(found) else EVERY_S

    async def _tend(self, lock: str, queues: Sequence[str]) -> bool:
        """Return whether there may be more to do at once."""
        if not await self._due(queues):
            return False
        async with holding(self._broker, lock, LOCK_S) as place:
            return place is not None and await self._record(queues, place)

    async def _record(self, queues: Sequence[str], place: Place) -> bool:
        """Record those that are due, and run their hooks while we have the lock; return whether there may be more to do at
        once.
        """
        letters = await self._due(queues)  # whoever had the lock before may have done some
        if self._ledger is not None:
            await self._ledger.record_deaths(letters)
        hooked = [(letter, hook) for letter in letters if (hook := self._hook(letter)) is not None]
        calling = {letter.death_id for letter, _ in hooked}
        if plain := [one.death_id for one in letters if one.death_id not in calling]:
            await self._over(plain)
        for letter, hook in hooked:
            if place.is_held:
                await self._call(hook, letter)
        return len(letters) >= BATCH

    async def _due(self, queues: Sequence[str]) -> list[DeadLetter]:
        """The oldest deaths that are ours, without those whose hook failed a short while ago."""
        now = time.monotonic()
        self._put_off = {d: p for d, p in self._put_off.items() if p[1] > now - LONGEST_WAIT_S}
        limit = BATCH + len(self._put_off)
        while True:
            letters = await self._broker.dead_letters(queues, limit)
            due = [
                one
                for one in letters
                if self._is_ours(one) and self._put_off.get(one.death_id, (0, now))[1] <= now
            ]
            if due or len(letters) < limit:
                return due
            limit *= 2  # what is left to other workers stands in front of ours

    def _is_ours(self, letter: DeadLetter) -> bool:
        """A type that nobody knows has no hook anywhere, so it need not wait for another worker. A process without a ledger
        is not one of ours: of types that it does not handle it knows nothing.
        """
        name = letter.record.get("type", "")
        if self._ledger is None:
            return not name or name in (self._handlers if self._only is None else self._only)
        return self._only is None or name in self._only or payload_type(name) is None

    def _hook(self, letter: DeadLetter) -> Callable[[], Awaitable[None]] | None:
        """The hook with all it is given; None where there is none, or no payload to give it."""
        handler = self._handlers.get(letter.record.get("type", ""))
        if handler is None or handler.on_archived is None or letter.reason is ArchiveReason.SKIP:
            return None
        try:
            payload = handler.payload.decode(letter.record.get("data", ""))
        except Exception:  # noqa: BLE001 - poison: whatever a validator raises, there is no payload
            return None
        return partial(handler.on_archived, payload, letter, self._services)

    async def _call(self, hook: Callable[[], Awaitable[None]], letter: DeadLetter) -> None:
        try:
            with span("final-failure hook", job=letter.job_id, type=letter.record["type"]):
                async with asyncio.timeout(HOOK_LIMIT_S):
                    await hook()
        except BaseException as error:  # a hook may raise anything; its death waits
            if stops_us(error):
                raise
            self._put_off[letter.death_id] = self._later(letter, error)
        else:
            self._put_off.pop(letter.death_id, None)
            await self._over([letter.death_id])

    async def _over(self, death_ids: Sequence[str]) -> None:
        """These were taken care of; without a ledger their rows are still missing."""
        if self._ledger is None:
            await self._broker.tend_dead_letters(death_ids)
        else:
            await self._broker.forget_dead_letters(death_ids)

    def _later(self, letter: DeadLetter, error: BaseException) -> tuple[int, float]:
        failures = self._put_off.get(letter.death_id, (0, 0.0))[0] + 1
        wait = doubled(failures, FIRST_WAIT_S, LONGEST_WAIT_S)
        log.error(
            "final-failure hook failed; it is called again",
            job=letter.job_id,
            error=describe(error),
            failures=failures,
            seconds=round(wait),
            stack=stack(error),
        )
        return failures, time.monotonic() + wait
