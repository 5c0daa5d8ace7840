"""The one fan-out of a parsed document: a slot and a job for each enrichment."""

from collections.abc import Sequence
from typing import Any, Final

from consumers.handlers.documents import fail_document
from consumers.knowledge import ids
from consumers.knowledge.bases.pending import switched_off
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.bounds import graphed
from consumers.knowledge.documents.contents import chunks_of
from consumers.knowledge.documents.documents import document
from consumers.knowledge.documents.slots import Child, begin_finalizing
from consumers.knowledge.tables.knowledge import Chunk, KnowledgeBase
from consumers.services import Services
from contracts.knowledge import ChunkKind, SlotKind
from contracts.payloads.documents import KnowledgePostProcess
from contracts.payloads.enrichment import (
    ChunkExtract,
    KnowledgeAutoTag,
    QuestionGeneration,
    SummaryGeneration,
)
from contracts.payloads.wiki import WikiIngest
from pipeline import Context, on

QUESTION_BATCH: Final = 20
"""Chunks a question job reads (facts 1.10)."""


async def post_process(job: KnowledgePostProcess, ctx: Context[Services]) -> None:
    """Open a slot for every enrichment and start it, in one transaction: run twice, it changes nothing."""
    services = ctx.services
    async with services.database.read() as session:
        found = await document(session, job.knowledge_id)
        kb = await session.get(KnowledgeBase, job.knowledge_base_id)
        chunks = await chunks_of(session, job.knowledge_id, job.attempt)
    if found is None or kb is None:
        ctx.log.info("nothing to do", reason="gone")
        return
    settings = KnowledgeBaseSettings.model_validate(kb.settings)
    children = plan(job, chunks, settings.model_copy(update={"wiki": True}))
    left_out = graphed([chunk.text for chunk in chunks])[1] if settings.extract_graph else []
    async with services.outbox.transaction(ctx.job) as session:
        # asked here: who switches a stage, switches it for all documents that were fanned out before
        off = await switched_off(session, job.tenant_id, job.knowledge_base_id)
        children = [child for child in children if child.slot not in off]
        done = await begin_finalizing(
            session, job.knowledge_id, job.attempt, children, warnings=[*found.warnings, *left_out]
        )
    ctx.log.info("fanned out", children=len(children), outcome=done.value)


def plan(job: KnowledgePostProcess, chunks: Sequence[Chunk], settings: KnowledgeBaseSettings) -> list[Child]:
    """Return the enrichments of a document: pure. Their ids derive from document, parse attempt and place, so that
    a second fan-out names the same jobs.
    """
    if not chunks:
        return []
    texts = [chunk for chunk in chunks if chunk.kind is ChunkKind.TEXT]
    common: dict[str, Any] = {
        "tenant_id": job.tenant_id,
        "knowledge_base_id": job.knowledge_base_id,
        "knowledge_id": job.knowledge_id,
        "attempt": job.attempt,
    }
    spoken = {**common, "language": job.language}

    def name(kind: str, index: int = 0) -> str:
        return ids.enrichment_job(job.knowledge_id, job.attempt, kind, index)

    children = [Child(name("summary"), SummaryGeneration(**spoken), SlotKind.SUMMARY)]
    if settings.ask_questions:
        for index, start in enumerate(range(0, len(texts), QUESTION_BATCH)):
            end = start + QUESTION_BATCH
            batch = QuestionGeneration(
                **spoken,
                question_count=settings.question_count,
                chunk_ids=tuple(chunk.id for chunk in texts[start:end]),
                batch_index=index,
                prev_chunk_id=texts[start - 1].id if start else None,
                next_chunk_id=texts[end].id if end < len(texts) else None,
            )
            children.append(Child(name("question", index), batch, SlotKind.QUESTION))
    if settings.extract_graph:
        for index in graphed([chunk.text for chunk in chunks])[0]:
            part = ChunkExtract(**common, chunk_id=chunks[index].id, chunk_index=index)
            children.append(Child(name("graph", index), part, SlotKind.GRAPH))
    if settings.wiki:
        place = {name: common[name] for name in ("tenant_id", "knowledge_base_id")}
        children.append(Child(name("wiki"), WikiIngest(**place, language=job.language), SlotKind.WIKI))
    if settings.auto_tag:
        children.append(Child(name("auto_tag"), KnowledgeAutoTag(**spoken)))
    return children


HANDLERS: Final = (on(KnowledgePostProcess, post_process, on_archived=fail_document),)
