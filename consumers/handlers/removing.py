"""Documents that are being deleted go, with all they had."""

from typing import Final

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.documents.lifecycle import DELETE_GIVEN_UP, fail_delete
from consumers.knowledge.documents.removal import remove
from consumers.knowledge.long_work import tasks
from consumers.services import Services
from contracts.payloads.maintenance import KnowledgeListDelete
from contracts.tasks import TaskStatus
from pipeline import Context, DeadLetter, on


async def delete_documents(job: KnowledgeListDelete, ctx: Context[Services]) -> None:
    """Remove documents that are being deleted. Run twice, or killed anywhere and run again, it comes to the same.

    Their own jobs were cancelled before this one was sent.
    """
    services, total = ctx.services, len(job.knowledge_ids)
    for done, knowledge_id in enumerate(job.knowledge_ids):
        async for part in remove(services.database, services.search, services.files, knowledge_id):
            await ctx.progress(done, total, part)
        async with services.database.transaction() as session:  # if people watch it as a task
            await tasks.advance(session, ctx.id, processed=done + 1, message="deleting")
    async with services.database.transaction() as session:
        await tasks.finish(session, ctx.id, TaskStatus.COMPLETED, message="deleted")
    ctx.log.info("deleted", documents=total)


async def delete_lost(job: KnowledgeListDelete, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: what is not gone says so, and can be deleted again."""
    message = f"{DELETE_GIVEN_UP} {PHRASES[letter.reason]}: {letter.error}"
    async with services.outbox.transaction() as session:
        for knowledge_id in job.knowledge_ids:
            await fail_delete(session, knowledge_id, message)
        await tasks.finish(session, letter.job_id, TaskStatus.FAILED, error=message)


HANDLERS: Final = (on(KnowledgeListDelete, delete_documents, on_archived=delete_lost),)
