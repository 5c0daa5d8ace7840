"""Heavy work on the store of a base: begun by a person, one of each kind at a time for a base."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import KnowledgeBase
from contracts.jobs import JobPayload
from pipeline.errors import ConfigurationError, NotAllowed


class UnderWay(NotAllowed):
    """The same is being done to this base already, by the task `task_id`."""

    def __init__(self, kind: str, task_id: str) -> None:
        super().__init__(f"{kind} of this knowledge base is under way: task {task_id}")
        self.task_id = task_id


async def locked(session: AsyncSession, kb_id: str) -> KnowledgeBase | None:
    """Return a base that lives, as nobody changes it until the end of the transaction."""
    live = select(KnowledgeBase).where(KnowledgeBase.id == kb_id, KnowledgeBase.deleted_at.is_(None))
    found = await session.scalars(live.with_for_update().execution_options(populate_existing=True))
    return found.one_or_none()


async def lives(session: AsyncSession, kb_id: str) -> bool:
    """Whether a base is there."""
    live = KnowledgeBase.id == kb_id, KnowledgeBase.deleted_at.is_(None)
    return await session.scalar(select(KnowledgeBase.id).where(*live)) is not None


async def begin(
    session: AsyncSession,
    kb: KnowledgeBase,
    task_id: str,
    job: JobPayload,
    *,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Open the task of a base that is `locked`. Raises UnderWay."""
    kind = job.spec.type
    there = await tasks.under_way(session, kb.id, kind)
    if there not in {None, task_id}:
        raise UnderWay(kind, str(there))
    await tasks.open_task(session, task_id, job, tenant_id=kb.tenant_id, kb_id=kb.id, detail=detail)


def gone(kb_id: str) -> ConfigurationError:
    """Return what is said where a base is not there any more."""
    return ConfigurationError(f"the knowledge base {kb_id} is gone")
