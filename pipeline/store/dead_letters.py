"""Deaths as rows: listed, marked as replayed, deleted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from contracts.jobs import JobPayload
from contracts.states import ArchiveReason
from contracts.wire import cut
from pipeline.clock import now_ms
from pipeline.store.rows import BATCH, batches, changed, insert_new
from pipeline.store.tables import task_dead_letters


@dataclass(frozen=True, slots=True)
class Letter:
    """One death of a job. `queue`, `payload` and `options` are for replaying. Times are milliseconds, 0 for never."""

    id: int
    death_id: str
    tenant_id: int
    task_type: str
    scope: str
    scope_id: str
    related_id: str
    reason: str
    payload: str
    last_error: str
    fail_count: int
    queue: str
    options: str
    failed_at: int
    replayed_at: int

    @property
    def job_id(self) -> str:
        """Whose death it was."""
        return self.death_id.rpartition(":")[0]


async def record(
    session: AsyncSession, death_id: str, payload: JobPayload, *, related_id: str, error: str, fail_count: int
) -> None:
    """Write that something which a job works on was given up, though the job itself goes on: it belongs to the most
    narrow scope of its payload.
    """
    scope = payload.scopes()[-1]
    row = {
        "death_id": death_id,
        "tenant_id": getattr(payload, "tenant_id", 0),
        "task_type": payload.spec.type,
        "scope": scope.kind,
        "scope_id": scope.id,
        "related_id": related_id,
        "reason": ArchiveReason.EXHAUSTED,
        "payload": payload.encode(),
        "last_error": cut(error),
        "fail_count": fail_count,
        "queue": payload.spec.queue,
        "failed_at": now_ms(),
    }
    await insert_new(session, task_dead_letters, [row])


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """Which deaths; None means any. `error` is part of its text; `replayed` None: both those that were and were not."""

    tenant_id: int | None = None
    task_type: str | None = None
    scope: str | None = None
    scope_id: str | None = None
    reason: str | None = None
    error: str | None = None
    replayed: bool | None = False

    def condition(self) -> list[Any]:
        """Return what a row has to meet."""
        rows = task_dead_letters.c
        named = ("tenant_id", "task_type", "scope", "scope_id", "reason")
        found = [rows[name] == value for name in named if (value := getattr(self, name)) is not None]
        if self.error:
            found.append(rows.last_error.icontains(self.error, autoescape=True))
        if self.replayed is not None:
            found.append(rows.replayed_at > 0 if self.replayed else rows.replayed_at == 0)
        return found


async def listed(
    session: AsyncSession, narrowed: Narrowed, limit: int, before: int | None = None
) -> list[Letter]:
    """Return deaths, the last recorded first, those `before` this id."""
    rows = task_dead_letters.c
    query = select(task_dead_letters).where(*narrowed.condition()).order_by(rows.id.desc()).limit(limit)
    if before is not None:
        query = query.where(rows.id < before)
    return [Letter(**row) for row in (await session.execute(query)).mappings()]


async def counted(session: AsyncSession, narrowed: Narrowed) -> dict[tuple[str, str], int]:
    """Return how many there are by reason and type, the most first."""
    rows = task_dead_letters.c
    query = (
        select(rows.reason, rows.task_type, func.count().label("n"))
        .where(*narrowed.condition())
        .group_by(rows.reason, rows.task_type)
        .order_by(func.count().desc())
    )
    return {(row.reason, row.task_type): row.n for row in await session.execute(query)}


async def by_id(session: AsyncSession, ids: Sequence[int]) -> list[Letter]:
    """Return those of these deaths that are there."""
    found: list[Letter] = []
    for some in batches(ids):
        query = select(task_dead_letters).where(task_dead_letters.c.id.in_(some))
        found += [Letter(**row) for row in (await session.execute(query)).mappings()]
    return found


async def of_job(session: AsyncSession, job_id: str) -> list[Letter]:
    """Return the deaths of a job, the first first."""
    rows = task_dead_letters.c
    within = (rows.death_id > f"{job_id}:", rows.death_id < f"{job_id};")  # ; follows : in the order of texts
    query = select(task_dead_letters).where(*within).order_by(rows.id)
    return [Letter(**row) for row in (await session.execute(query)).mappings()]


async def decide(session: AsyncSession, job_ids: Iterable[str], *, replayed: bool) -> None:
    """Note of the deaths of these jobs that the job was given another chance, or, with the job, forget them."""
    rows = task_dead_letters.c
    for job_id in job_ids:
        within = (rows.death_id > f"{job_id}:", rows.death_id < f"{job_id};")
        again = update(task_dead_letters).where(*within, rows.replayed_at == 0).values(replayed_at=now_ms())
        await session.execute(again if replayed else delete(task_dead_letters).where(*within))


async def mark_replayed(session: AsyncSession, ids: Sequence[int]) -> int:
    """Note that these jobs were given another chance; return how many were not until now."""
    rows = task_dead_letters.c
    count = 0
    for some in batches(ids):
        narrowed = update(task_dead_letters).where(rows.id.in_(some), rows.replayed_at == 0)
        count += await changed(session, narrowed.values(replayed_at=now_ms()))
    return count


async def prune(session: AsyncSession, before: int) -> int:
    """Delete deaths that happened before this time (ms), a batch of the oldest; return how many."""
    rows = task_dead_letters.c
    oldest = select(rows.id).where(rows.failed_at < before).order_by(rows.failed_at).limit(BATCH)
    return await changed(session, delete(task_dead_letters).where(rows.id.in_(oldest)))


async def remove(session: AsyncSession, ids: Sequence[int]) -> int:
    """Delete rows; return how many there were."""
    count = 0
    for some in batches(ids):
        count += await changed(session, delete(task_dead_letters).where(task_dead_letters.c.id.in_(some)))
    return count
