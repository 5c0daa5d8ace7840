"""`kb:delete`: everything of a deleted knowledge base is removed, and what works on it is stopped once more."""

import asyncio
from collections.abc import Sequence
from typing import Final

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.upkeep import clearance
from consumers.services import Services
from contracts.payloads.maintenance import KnowledgeBaseDelete
from contracts.tasks import TaskStatus
from pipeline import Context, DeadLetter, Skip, on
from pipeline.errors import StoreUnavailable

SCRUB_S: Final = 5.0
"""How long stopping may take; what is left stops by itself, for its base is gone."""
EVERY: Final = 20
"""Documents after which it says how far it is."""


async def delete_base(job: KnowledgeBaseDelete, ctx: Context[Services]) -> None:
    """Remove a deleted base. Run twice, or killed anywhere and run again, it comes to the same."""
    services, kb_id = ctx.services, job.knowledge_base_id
    async with services.database.read() as session:
        kb = await session.get(KnowledgeBase, kb_id)
        engine = clearance.engine_of(session)
        documents = await clearance.documents(session, kb_id)
    if kb is not None and (refusal := _refusal(job, kb, engine)):
        await _end(services, ctx.id, TaskStatus.FAILED, error=refusal)
        raise Skip(refusal)
    await _stop(ctx, job, documents)
    done = 0
    removing = clearance.remove_base(services.database, services.search, services.files, kb_id)
    async for part in removing:
        done += part == "document"
        if part != "document" or done % EVERY == 0:
            await ctx.progress(done, len(documents), part)
            await _tell(services, ctx.id, len(documents) - done, part)
    await _stop(ctx, job, documents)
    await _end(services, ctx.id, TaskStatus.COMPLETED, message="deleted")
    ctx.log.info("deleted", base=kb_id, documents=done)


def _refusal(job: KnowledgeBaseDelete, kb: KnowledgeBase, engine: str) -> str:
    if kb.tenant_id != job.tenant_id:
        return "the knowledge base is another tenant's"
    if kb.deleted_at is None:
        return "the knowledge base is not deleted: delete it first"
    others = set(job.effective_engines) - {engine}
    return f"its vectors lie in {', '.join(sorted(others))}, which this worker cannot reach" if others else ""


async def _stop(ctx: Context[Services], job: KnowledgeBaseDelete, documents: Sequence[str]) -> None:
    """Cancel what works on the base, a document or a source of it, as far as that can be done now."""
    try:
        async with asyncio.timeout(SCRUB_S):
            stopped = await ctx.services.pipeline.inspector.cancel_knowledge_base(
                job.knowledge_base_id, documents, job.data_source_ids
            )
    except (StoreUnavailable, TimeoutError) as error:
        ctx.log.warning("not all that works on the base could be stopped", error=str(error))
    else:
        ctx.log.info("stopped", waiting=len(stopped.cancelled), running=len(stopped.signalled))


async def _tell(services: Services, task_id: str, left: int, part: str) -> None:
    async with services.database.transaction() as session:
        task = await tasks.find(session, None, task_id)
        if task is not None:
            processed = max(task.processed, task.total - left)
            await tasks.advance(session, task_id, processed=processed, message=f"removed: {part}")


async def _end(
    services: Services, task_id: str, status: TaskStatus, *, message: str = "", error: str = ""
) -> None:
    async with services.database.transaction() as session:
        await tasks.finish(session, task_id, status, message=message, error=error)


async def base_left(_job: KnowledgeBaseDelete, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: the base stays hidden, and housekeeping asks for its removal again."""
    await _end(services, letter.job_id, TaskStatus.FAILED, error=f"{PHRASES[letter.reason]}: {letter.error}")


HANDLERS: Final = (on(KnowledgeBaseDelete, delete_base, on_archived=base_left),)
