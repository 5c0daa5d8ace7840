"""Sources: made, found, changed, run, and removed. Each function is one guarded step inside the caller's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, table_of
from consumers.knowledge.tables.sources import DataSource
from consumers.sources import runs
from consumers.sources.runs import Wish
from consumers.sources.schedule import Schedule
from contracts.identity import new_id
from contracts.sources import SourceStatus, SyncMode
from pipeline.errors import ConfigurationError
from pipeline.store import changed, now_ms
from pipeline.store.rows import insert_one

SCHEDULED: frozenset[SyncMode] = frozenset(SyncMode) - {SyncMode.PARTIAL_RESYNC}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """When a source runs by itself, and how; `cron` "" is never."""

    cron: str = ""
    timezone: str = "UTC"
    mode: SyncMode = SyncMode.INCREMENTAL

    def next_run(self, now: int) -> int | None:
        """Return when it is due, in milliseconds since the epoch. Raises ConfigurationError."""
        if self.mode not in SCHEDULED:
            raise ConfigurationError(
                f"{self.mode.value} is no mode for a schedule: it has to be told of what"
            )
        return Schedule(self.cron, self.timezone).after(now) if self.cron else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSource:
    """A source to make; its config and credentials were checked by its kind."""

    name: str
    kind: str
    config: Mapping[str, Any] = field(default_factory=dict)
    credentials: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan = Plan()


async def create(session: AsyncSession, kb: KnowledgeBase, new: NewSource) -> DataSource | None:
    """Make a source of a base; None where it has one of this name. Raises ConfigurationError."""
    now = now_ms()
    row = {
        "id": new_id(),
        "tenant_id": kb.tenant_id,
        "knowledge_base_id": kb.id,
        "name": new.name,
        "kind": new.kind,
        "config": dict(new.config),
        "credentials": dict(new.credentials),
        "cron": new.plan.cron,
        "timezone": new.plan.timezone,
        "mode": new.plan.mode,
        "status": SourceStatus.ACTIVE,
        "cursor": "",
        "generation": 0,
        "listing": 0,
        "next_run_at": new.plan.next_run(now),
        "last_success_at": None,
        "health": {},
        "created_at": now,
        "updated_at": now,
    }
    if not await insert_one(session, table_of(DataSource), row):
        return None
    return await session.get(DataSource, row["id"])


async def find(
    session: AsyncSession, tenant_id: int | None, source_id: str, *, keep: bool = False
) -> DataSource | None:
    """Return a source of a tenant, None: of whatever tenant; with `keep` nobody changes it until this transaction ends."""
    found = select(DataSource).where(DataSource.id == source_id).execution_options(populate_existing=True)
    if tenant_id is not None:
        found = found.where(DataSource.tenant_id == tenant_id)
    return (await session.scalars(found.with_for_update() if keep else found)).one_or_none()


async def named(session: AsyncSession, kb_id: str, name: str) -> DataSource | None:
    """Return the source of a base of this name."""
    this = DataSource.knowledge_base_id == kb_id, DataSource.name == name
    return (await session.scalars(select(DataSource).where(*this))).one_or_none()


async def sources_of(session: AsyncSession, kb_id: str, limit: int, after: str = "") -> Sequence[DataSource]:
    """Return the sources of a base in the order in which they were made, those `after` one by id."""
    there = DataSource.knowledge_base_id == kb_id, DataSource.id > after
    return (
        await session.scalars(select(DataSource).where(*there).order_by(DataSource.id).limit(limit))
    ).all()


async def change(session: AsyncSession, source: DataSource, **values: Any) -> bool:
    """Change a source that is kept by this transaction. What is looked for elsewhere, or with other names, is listed from
    the beginning at the next run. Its kind has checked config and credentials; False where a run works with them. Raises
    ConfigurationError.
    """
    if {"config", "credentials"} & set(values) and await runs.running(session, source.id):
        return False
    if {"cron", "timezone", "mode"} & set(values):
        plan = Plan(
            cron=values.get("cron", source.cron),
            timezone=values.get("timezone", source.timezone),
            mode=values.get("mode", source.mode),
        )
        values["next_run_at"] = plan.next_run(now_ms())
    if "config" in values:
        values["cursor"] = ""
    values["updated_at"] = now_ms()
    await session.execute(update(DataSource).where(DataSource.id == source.id).values(**values))
    await session.refresh(source)
    return True


async def pause(session: AsyncSession, source: DataSource) -> None:
    """Active → paused: nothing runs until it is resumed; a run under way ends by itself."""
    active = DataSource.id == source.id, DataSource.status == SourceStatus.ACTIVE
    await changed(
        session, update(DataSource).where(*active).values(status=SourceStatus.PAUSED, updated_at=now_ms())
    )
    await session.refresh(source)


async def resume(session: AsyncSession, source: DataSource) -> None:
    """Paused → active; what was due meanwhile is not made up for."""
    now = now_ms()
    plan = Plan(cron=source.cron, timezone=source.timezone, mode=source.mode)
    values = {"status": SourceStatus.ACTIVE, "next_run_at": plan.next_run(now), "updated_at": now}
    paused = DataSource.id == source.id, DataSource.status == SourceStatus.PAUSED
    await changed(session, update(DataSource).where(*paused).values(values))
    await session.refresh(source)


async def remove(session: AsyncSession, source: DataSource, *, with_documents: bool) -> bool:
    """Remove a source; its documents stay as ordinary ones, or go with it, by a job. False while a run is under way."""
    if await runs.running(session, source.id):
        return False
    if with_documents:
        values = {"status": SourceStatus.DELETING, "next_run_at": None, "updated_at": now_ms()}
        await changed(session, update(DataSource).where(DataSource.id == source.id).values(values))
        return await runs.open_run(session, source, Wish(mode=SyncMode.RECONCILE)) is not None
    theirs = update(Knowledge).where(Knowledge.data_source_id == source.id).values(data_source_id=None)
    await changed(session, theirs)
    await session.execute(delete(DataSource).where(DataSource.id == source.id))
    return True
