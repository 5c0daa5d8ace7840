"""What is due by itself: scheduled runs, one a tick however many processes look, and runs whose job was lost."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.sources import DataSource
from consumers.sources import runs
from consumers.sources.registry import Plan
from consumers.sources.runs import Wish
from contracts.payloads.maintenance import DataSourceSync
from contracts.sources import SourceStatus, SyncState
from contracts.states import JobState
from pipeline import Outbox
from pipeline.errors import ConfigurationError
from pipeline.store import changed, now_ms

LOOK_S: Final = 15.0
"""How late a run may begin."""
SILENT_MS: Final = 30 * 60_000
"""A run of which nothing was heard for so long is over, unless its job lives (facts 1.14)."""
AT_ONCE: Final = 100
KINDS: Final = {DataSourceSync.spec.type}

log = structlog.get_logger(component="sources")

HasQueued = Callable[[str, str, set[str]], Awaitable[bool]]
States = Callable[[Sequence[str]], Awaitable[Sequence[JobState | None]]]


def firing_id(source_id: str, due: int) -> str:
    """Return the id of the job of a scheduled run: one a source and minute."""
    return f"dssync:{source_id}:{datetime.fromtimestamp(due / 1000, UTC):%Y%m%d%H%M}"


class Firing:
    """Starts what is due. `has_queued` and `states` ask the queue."""

    def __init__(self, outbox: Outbox, has_queued: HasQueued, states: States) -> None:
        self._outbox, self._database = outbox, outbox.database
        self._has_queued, self._states = has_queued, states

    async def tick(self) -> float:
        """Start what is due, and end what was lost; return the seconds to wait. Raises StoreUnavailable."""
        now = now_ms()
        for source_id, due in await self._due(now):
            await self._fire(source_id, due, now)
        await self._end_lost(now)
        return LOOK_S

    async def _due(self, now: int) -> list[tuple[str, int]]:
        due = DataSource.status == SourceStatus.ACTIVE, DataSource.next_run_at <= now
        query = select(DataSource.id, DataSource.next_run_at).where(*due)
        async with self._database.read() as session:
            rows = await session.execute(query.order_by(DataSource.next_run_at).limit(AT_ONCE))
            return [(row[0], row[1] or 0) for row in rows]

    async def _fire(self, source_id: str, due: int, now: int) -> None:
        job_id = firing_id(source_id, due)
        (known,) = await self._states([job_id])
        async with self._outbox.transaction() as session:
            source = await self._claimed(session, source_id, due, now)
            if source is None:
                return
            wish = Wish(mode=source.mode, trigger="schedule", job_id=job_id)
            run_id = await runs.open_run(session, source, wish)
            if run_id and known:
                await runs.finish(session, run_id, SyncState.CANCELED, "this tick had its run already")
        if run_id is None:
            log.info("a scheduled run was left out: another is under way", source=source_id)

    async def _claimed(self, session: AsyncSession, source_id: str, due: int, now: int) -> DataSource | None:
        """Move a source on to its next tick, and return it if this one is ours: others may have come first."""
        source: DataSource | None = await session.get(DataSource, source_id, with_for_update=True)
        if source is None or source.status is not SourceStatus.ACTIVE or source.next_run_at != due:
            return None
        values: dict[str, Any]
        try:
            plan = Plan(cron=source.cron, timezone=source.timezone, mode=source.mode)
            values = {"next_run_at": plan.next_run(now)}
        except ConfigurationError as error:  # the rules of time zones are those of the machine
            values = {"next_run_at": None, "health": {"ok": False, "message": str(error), "checked_at": now}}
        moved = await changed(session, update(DataSource).where(DataSource.id == source_id).values(values))
        return source if moved and values["next_run_at"] else None

    async def _end_lost(self, now: int) -> None:
        async with self._database.read() as session:
            silent = await runs.silent(session, now - SILENT_MS)
        for run in silent:
            if not await self._has_queued("data_source", run.data_source_id, KINDS):
                async with self._outbox.transaction() as session:
                    message = "nothing was heard of it for half an hour, and its job is gone"
                    await runs.finish(session, run.id, SyncState.FAILED, message, since=run.updated_at)
                log.warning("a run was lost", source=run.data_source_id, run=run.id)
