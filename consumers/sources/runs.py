"""Runs of a source: opened with their job, counted page by page, ended once.

Each function is one guarded transition inside the caller's transaction; a run that has ended does not move any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.knowledge import table_of
from consumers.knowledge.tables.sources import DataSource, SyncLog
from contracts.fences import coverage
from contracts.identity import new_id
from contracts.jobs import Scope
from contracts.knowledge import DocumentEffect as Effect
from contracts.payloads.maintenance import DataSourceSync, Initiator
from contracts.sources import ERRORS_KEPT, SourceStatus, SyncMode, SyncState
from contracts.wire import cut as shortened
from pipeline.store import Outbox, changed, now_ms
from pipeline.store.rows import insert_one

COUNTS: Final = ("created", "changed", "unchanged", "renamed", "deleted", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked of a run. `selection` names what a partial one looks at: ids, or beginnings of ids that end with /."""

    mode: SyncMode = SyncMode.INCREMENTAL
    trigger: str = "manual"
    selection: tuple[str, ...] = ()
    force_full: bool = False
    max_items: int | None = None
    initiator: Initiator | None = None
    job_id: str = ""


@dataclass(slots=True)
class Tally:
    """What a part of a run came to; the errors are those of its items, by what the source calls them."""

    created: int = 0
    changed: int = 0
    unchanged: int = 0
    renamed: int = 0
    deleted: int = 0
    failed: int = 0
    errors: dict[str, str] = field(default_factory=dict)

    def fail(self, item: str, why: str) -> None:
        """Count an item that failed."""
        self.failed += 1
        self.errors[item] = why


def may_run(source: DataSource, mode: SyncMode) -> bool:
    """Whether a person may run a source: an active one, and a paused one to see how it is."""
    looks = source.status is SourceStatus.PAUSED and mode is SyncMode.HEALTH
    return looks or source.status is SourceStatus.ACTIVE


async def open_run(session: AsyncSession, source: DataSource, wish: Wish) -> str | None:
    """Ask for a run in the caller's transaction; return its id, or None where one is under way."""
    now, run_id = now_ms(), new_id()
    row: dict[str, Any] = {
        **dict.fromkeys(COUNTS, 0),
        "id": run_id,
        "data_source_id": source.id,
        "tenant_id": source.tenant_id,
        "job_id": wish.job_id or run_id,
        "trigger": wish.trigger,
        "mode": SyncMode.FULL if wish.force_full else wish.mode,
        "state": SyncState.RUNNING,
        "began": False,
        "began_at": "",
        "errors": [],
        "message": "",
        "detail": {},
        "started_at": now,
        "updated_at": now,
        "finished_at": None,
    }
    if not await insert_one(session, table_of(SyncLog), row):
        return None
    said: dict[str, Any] = {"initiator": wish.initiator} if wish.initiator else {}
    job = DataSourceSync(
        data_source_id=source.id,
        tenant_id=source.tenant_id,
        sync_log_id=run_id,
        trigger="schedule" if wish.trigger == "schedule" else "manual",
        mode=wish.mode,
        selection=wish.selection,
        force_full=wish.force_full,
        max_items=wish.max_items,
        **said,
    )
    await Outbox.add(session, wish.job_id or run_id, job)
    return run_id


async def find_run(session: AsyncSession, run_id: str) -> SyncLog | None:
    """Return a run as it is written now."""
    found = select(SyncLog).where(SyncLog.id == run_id).execution_options(populate_existing=True)
    return (await session.scalars(found)).one_or_none()


async def begin(session: AsyncSession, run: SyncLog, cursor: str) -> bool:
    """Note where a run begins, the first time that it is worked on; False where it has begun before, or ended."""
    values = {"began": True, "began_at": cursor, "updated_at": now_ms()}
    return await _move(session, run.id, values, SyncLog.began.is_(False))


async def count(
    session: AsyncSession, run_id: str, tally: Tally, detail: Mapping[str, Any] | None = None
) -> bool:
    """Add what a part came to. False if the run has ended: then nothing of that part may be kept."""
    run = await session.scalar(select(SyncLog).where(SyncLog.id == run_id).with_for_update())
    if run is None or run.state is not SyncState.RUNNING:
        return False
    values: dict[str, Any] = {name: getattr(run, name) + getattr(tally, name) for name in COUNTS}
    values["updated_at"] = now_ms()
    if detail is not None:
        values["detail"] = {**run.detail, **detail}
    if tally.errors:
        told = [
            {"item": shortened(item, 1000), "error": shortened(why, 1000)}
            for item, why in tally.errors.items()
        ]
        values["errors"] = [*run.errors, *told][:ERRORS_KEPT]
    return await _move(session, run_id, values)


async def start_over(session: AsyncSession, run_id: str, message: str) -> bool:
    """Count from nothing again: the next attempt looks at everything once more."""
    values = {**dict.fromkeys(COUNTS, 0), "errors": [], "message": shortened(message), "updated_at": now_ms()}
    return await _move(session, run_id, values)


async def finish(
    session: AsyncSession,
    run_id: str,
    state: SyncState,
    message: str = "",
    detail: Mapping[str, Any] | None = None,
    *,
    since: int | None = None,
) -> bool:
    """Running → one of the ends. `message` is a sentence for a person, cut to 8 KB. False if it had ended, or if it has
    moved `since` a time.
    """
    now = now_ms()
    values: dict[str, Any] = {"state": state, "message": shortened(message), "updated_at": now}
    values["finished_at"] = now
    if detail is not None:
        values["detail"] = dict(detail)
    return await _move(session, run_id, values, *([SyncLog.updated_at <= since] if since is not None else []))


async def cancel(session: AsyncSession, run: SyncLog, cut: int) -> Effect:
    """Stop a run; what it did until now stays. `cut` is of `Outbox.choose_cut`."""
    if not await finish(session, run.id, SyncState.CANCELED, "stopped by a person"):
        return Effect.ALREADY if run.state is SyncState.CANCELED else Effect.REFUSED
    await Outbox.cancel(session, Scope("data_source", run.data_source_id), coverage("data_source"), cut)
    return Effect.DONE


async def runs_of(
    session: AsyncSession, source_id: str, limit: int, before: str = "", state: str = ""
) -> Sequence[SyncLog]:
    """Return runs of a source, the newest first: those `before` another one by id, or the newest of all."""
    found = select(SyncLog).where(SyncLog.data_source_id == source_id)
    if before:
        found = found.where(SyncLog.id < before)
    if state:
        found = found.where(SyncLog.state == state)
    return (await session.scalars(found.order_by(SyncLog.id.desc()).limit(limit))).all()


async def running(session: AsyncSession, source_id: str) -> SyncLog | None:
    """Return the run of a source that is under way."""
    there = SyncLog.data_source_id == source_id, SyncLog.state == SyncState.RUNNING
    return (await session.scalars(select(SyncLog).where(*there))).one_or_none()


async def silent(session: AsyncSession, cutoff: int) -> Sequence[SyncLog]:
    """Return the runs under way of which nothing was heard since `cutoff` (ms)."""
    there = SyncLog.state == SyncState.RUNNING, SyncLog.updated_at < cutoff
    return (await session.scalars(select(SyncLog).where(*there).order_by(SyncLog.id).limit(500))).all()


async def _move(session: AsyncSession, run_id: str, values: Mapping[str, Any], *also: Any) -> bool:
    still = SyncLog.id == run_id, SyncLog.state == SyncState.RUNNING, *also
    return bool(await changed(session, update(SyncLog).where(*still).values(values)))
