"""What killed processes and lost jobs leave in the tables: found, and put into order (facts 7.3, 7.5, 1.20)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.pending import BASE
from consumers.knowledge.bases.tenants import deleted_tenants, of_the_living
from consumers.knowledge.bases.wiki_lane import trigger
from consumers.knowledge.long_work import tasks
from consumers.knowledge.long_work.half_done import clean_up
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, Slot, table_of
from consumers.knowledge.tables.spans import Span
from consumers.knowledge.tables.tasks import Task
from contracts.knowledge import OPEN, ParseStatus, SpanStatus, SummaryStatus
from contracts.payloads.wiki import WikiFinalize, WikiIngest
from contracts.tasks import TASK_OPEN, TaskStatus
from pipeline.store import Outbox, changed
from pipeline.store.pending_ops import Backlog, backlogs, delete_lane, delete_tenants, peek
from pipeline.store.tables import outbox

PAGE: Final = 200
WIKI: Final = (WikiIngest, WikiFinalize)
ENDED: Final = frozenset(ParseStatus) - OPEN - {ParseStatus.DELETING}
NEVER_CLOSED: Final = "nobody closed it before its document had ended"


@dataclass(frozen=True, slots=True)
class Unsummarised:
    """A document whose summary is awaited for long."""

    id: str
    attempt: int
    status: SummaryStatus
    updated_at: int


async def unsummarised(session: AsyncSession, cutoff: int, after: str = "") -> list[Unsummarised]:
    """Return documents with a summary that is being written, or that an ended one waits for, since `cutoff` (ms)."""
    waits = or_(
        Knowledge.summary_status == SummaryStatus.PROCESSING,
        and_(Knowledge.summary_status == SummaryStatus.PENDING, Knowledge.parse_status.in_(ENDED)),
    )
    query = (
        select(Knowledge.id, Knowledge.attempt, Knowledge.summary_status, Knowledge.updated_at)
        .where(waits, Knowledge.updated_at < cutoff, Knowledge.id > after)
        .where(of_the_living(table_of(Knowledge).c.tenant_id))
        .order_by(Knowledge.id)
        .limit(PAGE)
    )
    return [Unsummarised(*row) for row in await session.execute(query)]


async def give_up_summary(session: AsyncSession, one: Unsummarised) -> bool:
    """Say that there will be no summary; False if something moved meanwhile. The document itself did not move by this."""
    as_seen = (
        Knowledge.id == one.id,
        Knowledge.attempt == one.attempt,
        Knowledge.summary_status == one.status,
        Knowledge.updated_at == one.updated_at,
    )
    failed = update(Knowledge).where(*as_seen).values(summary_status=SummaryStatus.FAILED)
    return bool(await changed(session, failed))


@dataclass(frozen=True, slots=True)
class Unclosed:
    """An attempt with open spans though it is over; `error` is that of its document."""

    id: str
    attempt: int
    error: str


async def unclosed(session: AsyncSession, cutoff: int) -> list[Unclosed]:
    """Return attempts that are over, with spans that are open and were not written to since `cutoff` (ms)."""
    over = or_(Knowledge.parse_status.in_(ENDED), Span.attempt < Knowledge.attempt)
    query = (
        select(Span.knowledge_id, Span.attempt, Knowledge.error_message)
        .join(Knowledge, Knowledge.id == Span.knowledge_id)
        .where(Span.status == SpanStatus.RUNNING, Span.started_at < cutoff, Span.updated_at < cutoff, over)
        .distinct()
        .limit(PAGE)
    )
    return [Unclosed(*row) for row in await session.execute(query)]


async def close_spans(session: AsyncSession, one: Unclosed) -> None:
    """Cancel what is open of an attempt that is over."""
    await Attempt(session, one.id, one.attempt).abandon(one.error or NEVER_CLOSED)


async def vain_slots(session: AsyncSession, cutoff: int) -> Sequence[str]:
    """Return slots, made before `cutoff` (ms), of attempts that are over."""
    over = or_(Knowledge.parse_status.in_(ENDED), Knowledge.attempt != Slot.attempt)
    found = select(Slot.id).join(Knowledge, Knowledge.id == Slot.knowledge_id)
    return (await session.scalars(found.where(Slot.created_at < cutoff, over).limit(PAGE))).all()


async def close_slots(session: AsyncSession, slots: Sequence[str]) -> None:
    """Close slots that nobody waits for."""
    await session.execute(delete(Slot).where(Slot.id.in_(slots)))


@dataclass(frozen=True, slots=True)
class StillTask:
    """A task that moves no more, though it has not ended."""

    id: str
    kind: str
    updated_at: int


async def motionless_tasks(session: AsyncSession, cutoff: int) -> list[StillTask]:
    """Return the tasks that have not ended and have not moved since `cutoff` (ms)."""
    still = Task.status.in_(TASK_OPEN), Task.updated_at < cutoff
    found = select(Task.id, Task.kind, Task.updated_at).where(*still).order_by(Task.updated_at, Task.id)
    return [StillTask(*row) for row in await session.execute(found)]


async def unsent(session: AsyncSession, job_ids: Sequence[str]) -> set[str]:
    """Return those of these jobs that were asked for and not sent yet."""
    return set(await session.scalars(select(outbox.c.id).where(outbox.c.id.in_(job_ids))))


async def give_up_task(session: AsyncSession, task: StillTask, message: str) -> bool:
    """Say that a task will not end by itself any more; False if it moved meanwhile."""
    as_seen = select(Task.id).where(Task.id == task.id, Task.updated_at == task.updated_at).with_for_update()
    if await session.scalar(as_seen) is None:
        return False
    if not await tasks.finish(session, task.id, TaskStatus.FAILED, error=message):
        return False
    await clean_up(session, await session.get_one(Task, task.id))
    return True


async def half_deleted(session: AsyncSession, cutoff: int) -> Sequence[KnowledgeBase]:
    """Return the bases that were deleted before `cutoff` (ms) and are there still."""
    gone = select(KnowledgeBase).where(KnowledgeBase.deleted_at < cutoff).order_by(KnowledgeBase.deleted_at)
    return (await session.scalars(gone)).all()


async def drop_orphans(session: AsyncSession) -> int:
    """Remove the operations of deleted tenants, and those of bases that are gone; return how many."""
    dropped = await delete_tenants(session, await deleted_tenants(session))
    for lane in {backlog.lane for backlog in await wiki_backlogs(session)}:
        live = KnowledgeBase.id == lane.scope_id, KnowledgeBase.deleted_at.is_(None)
        if await session.scalar(select(KnowledgeBase.id).where(*live)) is None:  # it never comes back
            dropped += await delete_lane(session, lane)
    return dropped


async def wiki_backlogs(session: AsyncSession) -> Sequence[Backlog]:
    """Return what waits for the wikis, base by base."""
    found = [one for job in WIKI for one in await backlogs(session, job.spec.type)]
    return [one for one in found if one.lane.scope == BASE]


async def wake(session: AsyncSession, backlog: Backlog, job_id: str) -> None:
    """Tell a wiki that it has work, in the language of what waits."""
    (kind,) = [one for one in WIKI if one.spec.type == backlog.lane.task_type]
    waiting = await peek(session, backlog.lane, 1)
    language = waiting[0].payload.get("language") if waiting else None
    job = kind(
        tenant_id=backlog.tenant_id,
        knowledge_base_id=backlog.lane.scope_id,
        language=language if isinstance(language, str) else None,
    )
    if isinstance(job, WikiIngest):
        await trigger(session, job, job_id)
    else:
        await Outbox.add(session, job_id, job)
