"""`knowledge:move`: documents go to another base of their tenant, with their vectors or to be parsed there again."""

from typing import Any, Final

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.long_work import tasks
from consumers.knowledge.upkeep import transfers
from consumers.knowledge.upkeep.carrying import move_document, move_to_parse
from consumers.knowledge.upkeep.transfers import Conflict, NoKnowledgeBase
from consumers.services import Services
from contracts.payloads.maintenance import KnowledgeMove
from contracts.tasks import TaskStatus
from pipeline import Context, DeadLetter, Skip, on
from pipeline.errors import StreamlaneError, is_outage

REFUSED: Final = "refused"
"""The detail of a task that says which documents were not moved, and why."""


async def move_documents(job: KnowledgeMove, ctx: Context[Services]) -> None:
    """Move each document in a transaction of its own; one that cannot be moved keeps no other from it. Killed anywhere and run
    again, it finds those that were moved where they belong.
    """
    services, detail = ctx.services, {tasks.SOURCE: job.source_kb_id}
    total = len(job.knowledge_ids)
    async with services.database.transaction() as session:
        await tasks.register(
            session,
            job.task_id,
            job,
            tenant_id=job.tenant_id,
            kb_id=job.target_kb_id,
            total=total,
            detail=detail,
        )
    refused: dict[str, str] = {}
    for done, ident in enumerate(job.knowledge_ids, 1):
        why = await _moved(job, ctx, ident)
        if why:
            refused[ident] = why
        async with services.database.transaction() as session:
            counts: dict[str, Any] = {"processed": done, "failed": len(refused)}
            if not await tasks.advance(
                session, job.task_id, message="moving", detail={**detail, REFUSED: refused}, **counts
            ):
                ctx.log.info("nothing to do", reason="the task has ended")
                return
        await ctx.progress(done, total, "moving")
    lost = len(refused) == total
    error = f"none of the documents was moved: {next(iter(refused.values()))}" if lost else ""
    await _end(services, job, TaskStatus.FAILED if lost else TaskStatus.COMPLETED, error)
    if lost:
        raise Skip(error)


async def _moved(job: KnowledgeMove, ctx: Context[Services], ident: str) -> str:
    """Return "", or why a document was not moved. What another run may mend is raised, but on the last one."""
    services = ctx.services
    try:
        async with services.outbox.transaction() as session:
            bases = await transfers.still_possible(session, job.tenant_id, job.source_kb_id, job.target_kb_id)
            if job.mode == "reuse_vectors":
                return await move_document(session, services.search, ident, *bases)
            timeout = services.settings.document_process_timeout
            return await move_to_parse(session, services.search, ident, *bases, timeout)
    except NoKnowledgeBase as gone:
        return f"the knowledge base {gone.args[0]} is gone"
    except Conflict as conflict:
        return str(conflict)
    except StreamlaneError as error:
        if not ctx.final or is_outage(error):
            raise
        return str(error)


async def _end(services: Services, job: KnowledgeMove, status: TaskStatus, error: str = "") -> None:
    async with services.database.transaction() as session:
        await tasks.finish(session, job.task_id, status, message="moved" if not error else "", error=error)


async def move_lost(job: KnowledgeMove, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: what was moved stays moved."""
    await _end(services, job, TaskStatus.FAILED, f"{PHRASES[letter.reason]}: {letter.error}")


HANDLERS: Final = (on(KnowledgeMove, move_documents, on_archived=move_lost),)
