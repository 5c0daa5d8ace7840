"""Pool maintenance: long and rare work on documents. Also the table of its handlers."""

import importlib
from typing import Any, Final

from consumers.core import PHRASES
from consumers.handlers import clearing, cloning, faq, index_deleting, moving, reparsing, sync
from consumers.knowledge import tasks
from consumers.knowledge.lifecycle import DELETE_GIVEN_UP, fail_delete
from consumers.knowledge.removal import remove
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


HANDLERS: Final = (
    on(KnowledgeListDelete, delete_documents, on_archived=delete_lost),
    *clearing.HANDLERS,
    *cloning.HANDLERS,
    *faq.HANDLERS,
    *index_deleting.HANDLERS,
    *moving.HANDLERS,
    *reparsing.HANDLERS,
    *sync.HANDLERS,
)


def __getattr__(name: str) -> Any:
    """Make `app`, for `faststream run consumers.maintenance:app`, when it is asked for: FastStream is slow to import."""
    if name == "app":
        return importlib.import_module("consumers.lanes").app_of("maintenance")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
