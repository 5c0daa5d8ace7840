"""Knowledge written by hand: published like a document whose file is what was written (facts 1.4)."""

from typing import Final

from consumers.handlers.documents import process_document
from consumers.handlers.phrases import PHRASES
from consumers.knowledge.documents.documents import ProcessOptions, document, fail
from consumers.knowledge.documents.manual import NAME
from consumers.knowledge.files.store import file_key
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.services import Services
from contracts.payloads.documents import DocumentProcess, ManualProcess
from pipeline import Context, DeadLetter, on


async def publish(job: ManualProcess, ctx: Context[Services]) -> None:
    """Keep what was written as the file of its document, and parse it. Run twice, it comes to the same."""
    services = ctx.services
    async with services.database.read() as session:
        found = await document(session, job.knowledge_id)
        kb = await session.get(KnowledgeBase, job.knowledge_base_id)
    if found is None or kb is None:
        ctx.log.info("nothing to do", reason="gone")
        return
    data = job.content.encode()
    key = file_key("originals", data, NAME)
    if not await services.files.exists(key):
        await services.files.put(key, data)
    options = ProcessOptions.of(kb, None)
    await process_document(
        DocumentProcess(
            tenant_id=job.tenant_id,
            knowledge_base_id=job.knowledge_base_id,
            knowledge_id=job.knowledge_id,
            attempt=job.attempt or found.attempt,
            language=options.language,
            request_id=job.request_id,
            file_path=key,
            file_name=found.file_name,
            file_type=found.file_type,
            enable_multimodel=options.read_pictures,
            enable_question_generation=options.ask_questions,
            question_count=options.question_count,
        ),
        ctx,
    )


async def publish_lost(job: ManualProcess, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: the document failed, and says why (facts 4.3)."""
    message = f"task {job.spec.type} {PHRASES[letter.reason]}: {letter.error}"
    async with services.outbox.transaction() as session:
        found = await document(session, job.knowledge_id)
        attempt = job.attempt or (found.attempt if found else 0)
        await fail(session, services.search, job.knowledge_id, attempt, message)


HANDLERS: Final = (on(ManualProcess, publish, on_archived=publish_lost),)
