"""What a document gets beside its passages: words in pictures, summary, questions, graph and tags.

Each handler stores its result in the transaction that closes its slot, and only if it was the one to close it: run
twice, it changes nothing. A failed enrichment never fails the document; its slot is closed all the same.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.bases.tags import Pick, store_tags, tags_of
from consumers.knowledge.documents.captioning import caption
from consumers.knowledge.documents.contents import Passage, Reading, chunks_by_id, chunks_of, store_picture
from consumers.knowledge.documents.documents import document
from consumers.knowledge.documents.enrichments import (
    Asked,
    Summary,
    begin_summary,
    fail_summary,
    store_questions,
    store_summary,
)
from consumers.knowledge.documents.slots import finish_slot
from consumers.knowledge.embedding.summarising import TooLittleText, first_words, summarise
from consumers.knowledge.embedding.tagging import SURE, Tag, match_tags
from consumers.knowledge.graph.storing import store_graph
from consumers.knowledge.language.extraction import extract_graph
from consumers.knowledge.language.questioning import Source, generate_questions
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.reading.chunking import split
from consumers.knowledge.reading.ocr import UnreadablePicture, read_words, why_unread
from consumers.knowledge.search.sides import Side, hold, hold_place
from consumers.knowledge.tables.knowledge import Chunk, KnowledgeBase
from consumers.services import Services
from contracts.knowledge import EXTRACTIVE, ImageStatus, Stage
from contracts.payloads.documents import DocumentPayload, ImageMultimodal
from contracts.payloads.enrichment import (
    ChunkExtract,
    KnowledgeAutoTag,
    QuestionGeneration,
    SummaryGeneration,
)
from pipeline import Context, DeadLetter, on
from pipeline.errors import is_outage

Store = Callable[[AsyncSession], Awaitable[object]]


async def read_picture(job: ImageMultimodal, ctx: Context[Services]) -> None:
    """Read the words in one picture; the last one to end starts post-processing."""
    services = ctx.services
    side = await services.side(job.knowledge_base_id)
    reading = await _reading(job, ctx, side)

    async def store(session: AsyncSession) -> None:
        await store_picture(session, services.search, job.knowledge_id, job.attempt, reading)

    await _close(job, ctx, Stage.MULTIMODAL, f"multimodal.image[{job.image_index}]", store, side)


async def _reading(job: ImageMultimodal, ctx: Context[Services], side: Side) -> Reading:
    services, unread = ctx.services, why_unread()
    try:
        words = "" if unread or not job.enable_ocr else await _words(job, services)
    except UnreadablePicture as problem:
        return Reading(job.image_index, ImageStatus.FAILED, str(problem))
    described = await caption(job, services, final=ctx.final)
    if unread and not described.text:
        return Reading(
            job.image_index, ImageStatus.SKIPPED, "; ".join(filter(None, (unread, described.reason)))
        )
    return Reading(
        job.image_index,
        ImageStatus.READ,
        described.reason or unread or "",
        words=await _passages(job, services, side, words),
        captions=await _passages(job, services, side, described.text),
        model=side.model,
        generation=side.generation,
    )


async def _words(job: ImageMultimodal, services: Services) -> str:
    """Raises UnreadablePicture."""
    stage, settings = (job.knowledge_id, "words", job.image_url), services.settings
    if (known := await services.stages.recall(*stage)) is not None:
        return known.decode()
    data = await services.files.read(job.image_url)
    async with services.reading:
        words = await read_words(data, timeout=settings.parser_timeout_s, memory_mb=settings.parser_memory_mb)
    await services.stages.keep(*stage, data=words.encode())
    return words


async def _passages(job: ImageMultimodal, services: Services, side: Side, text: str) -> list[Passage]:
    pieces = split(text)
    embedder = services.embedder_for(job.knowledge_id, side)
    vectors = await embedder.embed([piece.text for piece in pieces])
    return [Passage(text=piece.text, vector=vector) for piece, vector in zip(pieces, vectors, strict=True)]


async def picture_lost(job: ImageMultimodal, letter: DeadLetter, services: Services) -> None:
    """A picture whose job died counts as read, without words."""
    reading = Reading(job.image_index, ImageStatus.FAILED, letter.error)
    async with services.outbox.transaction() as session:
        if (await finish_slot(session, letter.job_id, job.knowledge_id, job.attempt)).ours:
            await store_picture(session, services.search, job.knowledge_id, job.attempt, reading)


async def write_summary(job: SummaryGeneration, ctx: Context[Services]) -> None:
    """Summarise a document; the last attempt falls back to its first words rather than to none."""
    services = ctx.services
    async with services.outbox.transaction(ctx.job) as session:
        found = await document(session, job.knowledge_id)
        if found is None or not (job.refresh or await begin_summary(session, job.knowledge_id, job.attempt)):
            return
    async with services.database.read() as session:
        chunks = await chunks_of(session, job.knowledge_id, job.attempt)
    text, embedder = "\n\n".join(chunk.text for chunk in chunks), services.embedder_for(job.knowledge_id)
    side = await services.side(found.knowledge_base_id)
    try:
        written = await summarise(text, embedder)
    except TooLittleText:
        written = first_words(text)
    except Exception as error:
        if not ctx.final or is_outage(error):
            raise
        ctx.log.warning("falls back to the first words", exc_info=True)
        written = first_words(text)
    (vector,) = await side.embedder.embed([written.text])
    summary = Summary(
        text=written.text,
        method=written.method,
        vector=vector,
        model=side.model,
        generation=side.generation,
    )

    async def store(session: AsyncSession) -> None:
        await store_summary(session, services.search, found, job.attempt, summary)

    if job.refresh:
        async with services.outbox.transaction(ctx.job) as session:
            await hold_place(session, side, found.id)
            await store(session)
    else:
        await _close(job, ctx, Stage.POSTPROCESS, "postprocess.summary", store, side)


async def summary_lost(job: SummaryGeneration, letter: DeadLetter, services: Services) -> None:
    """A document whose summary job died goes on without a summary."""
    async with services.outbox.transaction() as session:
        await fail_summary(session, job.knowledge_id, job.attempt)
        await finish_slot(session, letter.job_id, job.knowledge_id, job.attempt)


async def write_questions(job: QuestionGeneration, ctx: Context[Services]) -> None:
    """Write the questions that a batch of chunks answers."""
    services = ctx.services
    around = [ident for ident in (job.prev_chunk_id, job.next_chunk_id) if ident]
    async with services.database.read() as session:
        known = await chunks_by_id(session, [*job.chunk_ids, *around])
    chunks = [known[ident] for ident in job.chunk_ids if ident in known]
    previous, following = (known.get(ident or "") for ident in (job.prev_chunk_id, job.next_chunk_id))
    written = await asyncio.to_thread(
        generate_questions,
        [_passage(chunk) for chunk in chunks],
        count=job.question_count,
        language=job.language,
        before=_passage(previous) if previous else None,
        after=_passage(following) if following else None,
    )
    pairs = [(chunk, text) for chunk, texts in zip(chunks, written, strict=True) for text in texts]
    side = await services.side(job.knowledge_base_id)
    vectors = await services.embedder_for(job.knowledge_id, side).embed([text for _, text in pairs])
    asked = [
        Asked(chunk=chunk, text=text, vector=vector)
        for (chunk, text), vector in zip(pairs, vectors, strict=True)
    ]

    async def store(session: AsyncSession) -> None:
        await store_questions(
            session,
            services.search,
            asked,
            method=EXTRACTIVE,
            model=side.model,
            generation=side.generation,
        )

    await _close(job, ctx, Stage.POSTPROCESS, f"postprocess.question.batch[{job.batch_index}]", store, side)


async def extract_entities(job: ChunkExtract, ctx: Context[Services]) -> None:
    """Add the entities and relations of one chunk to the graph of its base."""
    services, part = ctx.services, f"postprocess.graph.chunk[{job.chunk_index}]"
    async with services.database.read() as session:
        chunk = (await chunks_by_id(session, [job.chunk_id])).get(job.chunk_id)
        found = await document(session, chunk.knowledge_id) if chunk else None
    if chunk is None or found is None:
        await _close(job, ctx, Stage.POSTPROCESS, part, None)
        return
    graph = await asyncio.to_thread(extract_graph, chunk.text, found.language)

    async def store(session: AsyncSession) -> None:
        await store_graph(session, chunk.knowledge_base_id, chunk, graph.entities, graph.relations)

    await _close(job, ctx, Stage.POSTPROCESS, part, store)


async def tag_document(job: KnowledgeAutoTag, ctx: Context[Services]) -> None:
    """Give a document the tags of its base's own list that clearly fit. The document does not wait for this."""
    services = ctx.services
    async with services.database.read() as session:
        found = await document(session, job.knowledge_id)
        kb = await session.get(KnowledgeBase, found.knowledge_base_id) if found else None
        wanted = kb is not None and KnowledgeBaseSettings.model_validate(kb.settings).auto_tag
        listed = await tags_of(session, kb.id) if kb and wanted else []
        chunks = await chunks_of(session, job.knowledge_id, job.attempt)
    if kb is None or not listed or not chunks:
        ctx.log.info("nothing to do", tags=len(listed), chunks=len(chunks))
        return
    text = "\n\n".join(chunk.text for chunk in chunks)
    tags = [Tag(tag.id, tag.name, tag.description) for tag in listed]
    matches = await match_tags(text, tags, services.embedder)
    picks = [Pick(match.tag.id, match.confidence) for match in matches if match.confidence >= SURE]
    async with services.outbox.transaction(ctx.job) as session:
        await store_tags(session, kb.id, job.knowledge_id, job.attempt, picks, method=EXTRACTIVE)


async def slot_lost(job: DocumentPayload | ChunkExtract, letter: DeadLetter, services: Services) -> None:
    """A document does not wait for an enrichment whose job died."""
    async with services.outbox.transaction() as session:
        await finish_slot(session, letter.job_id, job.knowledge_id or "", job.attempt)


HANDLERS: Final = (
    on(ImageMultimodal, read_picture, on_archived=picture_lost),
    on(SummaryGeneration, write_summary, on_archived=summary_lost),
    on(QuestionGeneration, write_questions, on_archived=slot_lost),
    on(ChunkExtract, extract_entities, on_archived=slot_lost),
    on(KnowledgeAutoTag, tag_document),
)


async def _close(
    job: DocumentPayload | ChunkExtract,
    ctx: Context[Services],
    stage: Stage,
    part: str,
    store: Store | None,
    side: Side | None = None,
) -> None:
    """Close the slot that has this job's id and, if it was open, store the result and the part's span with it.

    What has vectors names the `side` that they were made for.
    """
    knowledge_id = job.knowledge_id or ""
    async with ctx.services.outbox.transaction(ctx.job) as session:
        if side is not None:
            await hold(session, side)
        done = await finish_slot(session, ctx.id, knowledge_id, job.attempt)
        if done.ours and store is not None:
            await store(session)
            await Attempt(session, knowledge_id, job.attempt).record_part(stage, part, ctx.started_at)
    ctx.log.info("slot", outcome=done.value)


def _passage(chunk: Chunk) -> Source:
    return Source(chunk.text, tuple(chunk.heading))
