"""Long work that people started and watch: registered with its job, moved on by it, ended once.

Each function is one guarded transition inside the caller's transaction; what has ended does not move any more.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.long_work.half_done import clean_up
from consumers.knowledge.tables.knowledge import KnowledgeBase, table_of
from consumers.knowledge.tables.tasks import Task
from contracts.fences import coverage
from contracts.jobs import JobPayload, Scope
from contracts.knowledge import DocumentEffect as Effect
from contracts.tasks import TASK_OPEN, TaskStatus
from contracts.wire import cut as shortened
from pipeline.store import Outbox, changed, insert_one, now_ms

BATCH: Final = 200
SOURCE: Final = "source_kb_id"
"""The detail of a task that says from which other base it takes."""
ENDLESS: Final = frozenset({"kb:delete", "knowledge:list_delete"})
"""Kinds that nobody stops half-way: what is left would be neither there nor gone."""
KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""How long a task can be asked for after its end."""


async def open_task(
    session: AsyncSession,
    task_id: str,
    job: JobPayload,
    *,
    tenant_id: int,
    kb_id: str,
    total: int = 0,
    detail: Mapping[str, Any] | None = None,
    job_id: str | None = None,
) -> bool:
    """Register a task and ask for its job, whose id is the task's unless given. False if the task is there already: then
    nothing happens.
    """
    if not await register(
        session, task_id, job, tenant_id=tenant_id, kb_id=kb_id, total=total, detail=detail
    ):
        return False
    await Outbox.add(session, job_id or task_id, job)
    return True


async def register(
    session: AsyncSession,
    task_id: str,
    job: JobPayload,
    *,
    tenant_id: int,
    kb_id: str,
    total: int = 0,
    detail: Mapping[str, Any] | None = None,
) -> bool:
    """Register the task of a job that is there already; False if it is registered."""
    now = now_ms()
    row = {
        "id": task_id,
        "kind": job.spec.type,
        "tenant_id": tenant_id,
        "knowledge_base_id": kb_id,
        "status": TaskStatus.PENDING,
        "total": total,
        "processed": 0,
        "failed": 0,
        "message": "",
        "error": "",
        "detail": dict(detail or {}),
        "created_at": now,
        "updated_at": now,
        "finished_at": None,
    }
    return await insert_one(session, table_of(Task), row)


async def reopen(
    session: AsyncSession, task_id: str, job: JobPayload, job_id: str, detail: Mapping[str, Any]
) -> bool:
    """Any end → pending, from the beginning, with a new job; False if the task has not ended."""
    values: dict[str, Any] = {
        "status": TaskStatus.PENDING,
        "total": 0,
        "processed": 0,
        "failed": 0,
        "message": "",
        "error": "",
    }
    values |= {"detail": dict(detail), "updated_at": now_ms(), "finished_at": None}
    ended = Task.id == task_id, Task.status.not_in(TASK_OPEN)
    if not await changed(session, update(Task).where(*ended).values(values)):
        return False
    await Outbox.add(session, job_id, job)
    return True


async def advance(
    session: AsyncSession,
    task_id: str,
    *,
    processed: int = 0,
    failed: int = 0,
    total: int | None = None,
    message: str = "",
    detail: Mapping[str, Any] | None = None,
) -> bool:
    """Pending, processing → processing, with how far it is. False if it has ended: then its job has nothing left to do."""
    values: dict[str, Any] = {
        "status": TaskStatus.PROCESSING,
        "processed": processed,
        "failed": failed,
        "message": message,
        "updated_at": now_ms(),
    }
    if total is not None:
        values["total"] = total
    if detail is not None:
        values["detail"] = dict(detail)
    return await _move(session, task_id, values)


async def finish(
    session: AsyncSession,
    task_id: str,
    status: TaskStatus,
    *,
    message: str = "",
    error: str = "",
    detail: Mapping[str, Any] | None = None,
) -> bool:
    """Pending, processing → one of the ends. `error` is one sentence for a person, cut to 8 KB. False if it had ended."""
    now = now_ms()
    values: dict[str, Any] = {"status": status, "message": message, "error": shortened(error)}
    values |= {"updated_at": now, "finished_at": now}
    return await _move(session, task_id, values if detail is None else {**values, "detail": dict(detail)})


async def cancel(session: AsyncSession, tenant_id: int | None, task_id: str, cut: int) -> Effect:
    """Stop a task of a tenant, None: of whatever tenant; what it did until now stays. `cut` is of `Outbox.choose_cut`."""
    task = await find(session, tenant_id, task_id)
    if task is None:
        return Effect.NOT_FOUND
    if task.kind in ENDLESS and task.status in TASK_OPEN:
        return Effect.REFUSED
    if not await finish(session, task_id, TaskStatus.CANCELLED, message="cancelled by a person"):
        return Effect.ALREADY if task.status is TaskStatus.CANCELLED else Effect.REFUSED
    await Outbox.cancel(session, Scope("task", task_id), coverage("task"), cut)
    await clean_up(session, task)
    return Effect.DONE


async def find(session: AsyncSession, tenant_id: int | None, task_id: str) -> Task | None:
    """Return a task of a tenant, None: of whatever tenant, as it is written now."""
    found = select(Task).where(Task.id == task_id).execution_options(populate_existing=True)
    if tenant_id is not None:
        found = found.where(Task.tenant_id == tenant_id)
    return (await session.scalars(found)).one_or_none()


async def stop_all(session: AsyncSession, kb: KnowledgeBase, message: str) -> int:
    """Let every task of a base end that has not, also one that only reads it: the base goes, and their jobs with it."""
    values = {
        "status": TaskStatus.CANCELLED,
        "message": message,
        "updated_at": now_ms(),
        "finished_at": now_ms(),
    }
    still = Task.tenant_id == kb.tenant_id, Task.status.in_(TASK_OPEN), of_base(kb.id)
    return await changed(session, update(Task).where(*still).values(values))


def of_base(kb_id: str) -> ColumnElement[bool]:
    """Return the condition under which a task changes a base, or takes from it."""
    return or_(Task.knowledge_base_id == kb_id, Task.detail[SOURCE].as_string() == kb_id)


async def under_way(session: AsyncSession, kb_id: str, kind: str) -> str | None:
    """Return the id of a task of this kind that changes a base and has not ended."""
    there = Task.knowledge_base_id == kb_id, Task.kind == kind, Task.status.in_(TASK_OPEN)
    found: str | None = await session.scalar(select(Task.id).where(*there).limit(1))
    return found


async def finished_long_ago(session: AsyncSession) -> Sequence[str]:
    """Return tasks that are to be forgotten, some at a time."""
    old = select(Task.id).where(Task.finished_at < now_ms() - KEPT_MS)
    return (await session.scalars(old.order_by(Task.finished_at).limit(BATCH))).all()


async def forget(session: AsyncSession, task_ids: Sequence[str]) -> None:
    """Forget tasks whose files are gone."""
    await session.execute(delete(Task).where(Task.id.in_(task_ids)))


def folder(task_id: str) -> str:
    """Return the owner of the files of a task: what it reads and what it says, for as long as it can be asked for."""
    return f"tasks/{task_id}"


async def _move(session: AsyncSession, task_id: str, values: Mapping[str, Any]) -> bool:
    still = Task.id == task_id, Task.status.in_(TASK_OPEN)
    return bool(await changed(session, update(Task).where(*still).values(values)))
