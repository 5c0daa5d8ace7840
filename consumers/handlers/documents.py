"""Documents are read, cut, embedded and stored at once (facts 1.1)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from pydantic import TypeAdapter

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.bases.pending import switched_off
from consumers.knowledge.bases.tenants import is_alive
from consumers.knowledge.bounds import embedded
from consumers.knowledge.documents.contents import Parsed, Passage, Picture, store_parsed
from consumers.knowledge.documents.documents import begin_processing, fail
from consumers.knowledge.documents.fetching import fetch_original
from consumers.knowledge.documents.stages import stays
from consumers.knowledge.embedding.embedder import Embedder, ModelUnavailable, TextRefused
from consumers.knowledge.files.store import FileMissing, file_key
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.reading.chunking import MAX_CHUNKS, TextChunk, TooManyChunks, split
from consumers.knowledge.reading.encodings import clean
from consumers.knowledge.reading.languages import detect
from consumers.knowledge.reading.parsed import (
    NO_TEXT,
    ONLY_PICTURES,
    ExtractedImage,
    Limits,
    ParsedDocument,
    UnreadableDocument,
)
from consumers.knowledge.reading.parsing import parse
from consumers.knowledge.reading.passages import GAP, PASSAGES, Passages, first_line
from consumers.knowledge.search.sides import hold
from consumers.outbound import OutboundError
from consumers.services import Services
from contracts.knowledge import SlotKind, Stage
from contracts.payloads.documents import DocumentPayload, DocumentProcess
from pipeline import Cancel, Context, DeadLetter, Retry, Skip, on


class Unprocessable(Exception):  # noqa: N818 - named as a person would say it
    """Nothing can be made of this document as things are; its text is one sentence for a person."""

    code: Final = None


async def process_document(job: DocumentProcess, ctx: Context[Services]) -> None:
    """Read a document, cut it, embed it and store all of it at once. What cannot be read fails without retries."""
    services = ctx.services
    async with services.outbox.transaction(ctx.job) as session:
        if not await is_alive(session, job.tenant_id, keep=True):
            raise Cancel("its tenant is deleted")
        off = await switched_off(session, job.tenant_id, job.knowledge_base_id)
        begin = await begin_processing(session, job.knowledge_id, job.attempt)
    if not begin.proceed:
        ctx.log.info("nothing to do", reason=begin.value)
        return
    if SlotKind.IMAGE in off:  # since its job was asked for
        job = job.model_copy(update={"enable_multimodel": False})
    try:
        side = await services.side(job.knowledge_base_id)
        embedder = services.embedder_for(job.knowledge_id, side)
        document = await _document(job, services)
        note = {"characters": len(document.text), "pages": document.pages, "reused": document.reused}
        await _enter(job, ctx, Stage.CHUNKING, note)
        chunks = await asyncio.to_thread(_cut, document)
        if not chunks and not document.pictures:
            raise Unprocessable(ONLY_PICTURES) if document.pictured else UnreadableDocument(NO_TEXT)
        await _enter(job, ctx, Stage.EMBEDDING, {"chunks": len(chunks), "model": embedder.model})
        passages, left_out = await _embedded(embedder, chunks)
        parsed = Parsed(
            passages=passages,
            pictures=document.pictures,
            title=document.title or job.file_name or "",
            language=job.language or document.language,
            warnings=(*document.warnings, *left_out),
            model=side.model,
            generation=side.generation,
            captions=True,
        )
        async with services.outbox.transaction(ctx.job) as session:
            await hold(session, side)
            stored = await store_parsed(session, services.search, job.knowledge_id, job.attempt, parsed)
    except OutboundError as problem:
        if problem.passing:
            raise Retry(getattr(problem, "retry_after", None), str(problem)) from problem
        await _give_up(job, ctx, Unprocessable(str(problem)))
    except HOPELESS as problem:
        await _give_up(job, ctx, problem)
    else:
        ctx.log.info("parsed", chunks=len(chunks), pictures=len(parsed.pictures), then=stored.value)


HOPELESS: Final = (UnreadableDocument, TooManyChunks, ModelUnavailable, TextRefused, Unprocessable)
"""What no retry helps."""


async def _give_up(job: DocumentProcess, ctx: Context[Services], problem: Exception) -> NoReturn:
    """End a document that is hopeless. Raises Skip."""
    services, code = ctx.services, getattr(problem, "code", None)
    async with services.outbox.transaction(ctx.job) as session:
        await fail(session, services.search, job.knowledge_id, job.attempt, str(problem), code=code)
    raise Skip(str(problem)) from problem


async def fail_document(job: DocumentPayload, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook of the jobs without which a document is not usable (facts 4.3)."""
    message = f"task {job.spec.type} {PHRASES[letter.reason]}: {letter.error}"
    async with services.outbox.transaction() as session:
        await fail(session, services.search, job.knowledge_id, job.attempt, message)


LOST: Final = "its file is no longer in the file store: ingest it again"

HANDLERS: Final = (on(DocumentProcess, process_document, on_archived=fail_document),)


@dataclass(frozen=True, slots=True)
class Read:
    """What was read out of a file. Its `pictures` are kept in the file store, if they are wanted; `pictured` says whether it
    has any.
    """

    text: str
    title: str
    language: str | None
    pages: int | None
    warnings: tuple[str, ...]
    pictures: tuple[Picture, ...]
    pictured: bool
    reused: bool = False
    pieces: tuple[str, ...] = ()


async def _document(job: DocumentProcess, services: Services) -> Read:
    """Get what a job names to be read, and read it. Raises UnreadableDocument, Unprocessable, OutboundError."""
    given = [one for one in (job.file_path, job.url, job.file_url, job.passages) if one is not None]
    if len(given) != 1:
        raise Unprocessable(f"its job names {len(given) or 'no'} sources, where it takes one: send it again")
    if job.passages is not None:
        return await asyncio.to_thread(_written, job.passages, job.file_name or "")
    if address := job.url or job.file_url:
        original = await fetch_original(job, address, services)
        job = job.model_copy(update={"file_path": original.key, "file_name": original.name})
    elif job.file_type == PASSAGES:
        try:
            kept = Passages.model_validate_json(await services.files.read(job.file_path or ""))
        except FileMissing:
            raise Unprocessable(LOST) from None
        return await asyncio.to_thread(_written, kept.passages, kept.title)
    return await _read(job, services)


def _written(passages: Sequence[str], title: str) -> Read:
    """Passages as they were given: what is in one of them is never joined with another."""
    pieces = tuple(cleaned for one in passages if (cleaned := clean(one).strip()))
    text = GAP.join(pieces)
    return Read(text, title or first_line(text), detect(text), None, (), (), pictured=False, pieces=pieces)


def _cut(document: Read) -> Sequence[TextChunk]:
    """Raises TooManyChunks."""
    if not document.pieces:
        return split(document.text)
    chunks: list[TextChunk] = []
    begins = 0
    for piece in document.pieces:
        for chunk in split(piece):
            place = chunk.start + begins, chunk.end + begins
            chunks.append(replace(chunk, start=place[0], end=place[1], index=len(chunks)))
        if len(chunks) > MAX_CHUNKS:
            raise TooManyChunks(len(document.text))
        begins += len(piece) + len(GAP)
    return chunks


async def _read(job: DocumentProcess, services: Services) -> Read:
    """Read a file, or find what was read out of the same one."""
    if job.file_path is None:
        raise Unprocessable(LOST)
    wanted = "pictures" if job.enable_multimodel else "text"
    stage = job.knowledge_id, "read", job.file_path, job.file_name or "", wanted
    if (data := await services.stages.recall(*stage)) and (known := await _recalled(services, data)):
        return replace(known, reused=True)
    document = await _parse(job.file_path, job.file_name, services)
    read = Read(
        text=document.text,
        title=document.title,
        language=document.language,
        pages=document.pages,
        warnings=document.warnings,
        pictures=await _kept(services, job.knowledge_id, document.images) if job.enable_multimodel else (),
        pictured=bool(document.images),
    )
    await services.stages.keep(*stage, data=_READ.dump_json(read))
    return read


async def _recalled(services: Services, data: bytes) -> Read | None:
    try:
        read = _READ.validate_json(data)
    except ValueError:
        return None
    there = [await services.files.exists(picture.file_key) for picture in read.pictures]
    return read if all(there) else None


async def _parse(key: str, name: str | None, services: Services) -> ParsedDocument:
    settings = services.settings
    try:
        async with services.reading, services.files.local(key) as path:
            return await parse(
                path,
                name or path.name,
                timeout=settings.parser_timeout_s,
                memory_mb=settings.parser_memory_mb,
                limits=Limits(file_mb=settings.max_file_mb),
            )
    except FileMissing:
        raise Unprocessable(LOST) from None


async def _enter(job: DocumentProcess, ctx: Context[Services], stage: Stage, note: Mapping[str, Any]) -> None:
    async with ctx.services.outbox.transaction(ctx.job) as session:
        await Attempt(session, job.knowledge_id, job.attempt).enter(stage, note)


async def _embedded(embedder: Embedder, chunks: Sequence[TextChunk]) -> tuple[list[Passage], Sequence[str]]:
    """The passages, and what is said of those that were left without a vector."""
    positions, left_out = embedded(chunks)
    vectors = await embedder.embed([chunks[at].context() for at in positions])
    vector = dict(zip(positions, vectors, strict=True))
    passages = [
        Passage(
            text=chunk.text, heading=chunk.heading, start=chunk.start, end=chunk.end, vector=vector.get(at)
        )
        for at, chunk in enumerate(chunks)
    ]
    return passages, left_out


async def _kept(
    services: Services, knowledge_id: str, images: Sequence[ExtractedImage]
) -> tuple[Picture, ...]:
    pictures = []
    for image in images:
        key = file_key(knowledge_id, image.data)
        await services.files.put(key, image.data)
        pictures.append(Picture(file_key=key, mime=image.mime, page=image.page, scan=image.scan))
    async with services.database.read() as session:
        stayed = await stays(session, knowledge_id)
    for picture in pictures if not stayed else ():  # its removal may have been here before they were
        await services.files.delete(picture.file_key)
    return tuple(pictures)


_READ: Final = TypeAdapter(Read)
