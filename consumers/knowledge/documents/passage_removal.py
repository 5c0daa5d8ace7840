"""A single passage that a person takes out of a document."""

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.wiki_lane import ask_anew_for_pages
from consumers.knowledge.documents.lifecycle import locked
from consumers.knowledge.graph.storing import forget_chunks
from consumers.knowledge.tables.knowledge import Chunk, KnowledgeBase
from contracts.identity import derive_id
from contracts.knowledge import DocumentEffect as Effect
from contracts.knowledge import ParseStatus, SummaryStatus
from contracts.payloads.enrichment import SummaryGeneration
from contracts.payloads.maintenance import IndexDelete
from pipeline.store import Outbox, changed, now_ms


async def remove_passage(
    session: AsyncSession, kb: KnowledgeBase, knowledge_id: str, chunk_id: str
) -> Effect:
    """Take a passage out of a document that is complete, with its questions and what the graph has of it; its entries, the
    summary and the pages follow by jobs of their own.
    """
    document = await locked(session, kb.tenant_id, knowledge_id)
    chunk = await session.get(Chunk, chunk_id)
    if document is None or document.knowledge_base_id != kb.id or chunk is None:
        return Effect.NOT_FOUND
    if chunk.knowledge_id != knowledge_id or chunk.attempt != document.attempt:
        return Effect.NOT_FOUND
    if document.parse_status is not ParseStatus.COMPLETED:
        return Effect.REFUSED
    await forget_chunks(session, select(Chunk.id).where(Chunk.id == chunk_id))
    await changed(session, delete(Chunk).where(Chunk.id == chunk_id))
    document.updated_at = now_ms()
    job = IndexDelete(
        tenant_id=kb.tenant_id,
        knowledge_base_id=kb.id,
        embedding_model_id=kb.embedding_model or "",
        chunk_ids=(chunk_id,),
        effective_engines=(session.get_bind().dialect.name,),
    )
    await Outbox.add(session, derive_id(chunk_id, "index"), job)
    if document.summary_status is SummaryStatus.COMPLETED:
        anew = SummaryGeneration(
            tenant_id=kb.tenant_id,
            knowledge_base_id=kb.id,
            knowledge_id=knowledge_id,
            attempt=document.attempt,
            language=document.language,
            refresh=True,
        )
        await Outbox.add(session, derive_id(chunk_id, "summary"), anew)
    await ask_anew_for_pages(session, document)
    return Effect.DONE
