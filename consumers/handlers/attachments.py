"""Files attached to chats (facts 1.5)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.answers import attachments
from consumers.knowledge.answers.attachments import Piece
from consumers.knowledge.files.store import FileMissing
from consumers.knowledge.reading.chunking import TooManyChunks, split
from consumers.knowledge.reading.ocr import UnreadablePicture, read_words, why_unread
from consumers.knowledge.reading.parsed import NO_TEXT, ExtractedImage, Limits, UnreadableDocument
from consumers.knowledge.reading.parsing import parse
from consumers.knowledge.tables.attachments import Attachment
from consumers.services import Services
from contracts.payloads.documents import TemporaryDocumentProcess
from pipeline import Context, DeadLetter, Skip, on

SIZE: Final = 1_600  # characters of a passage
OVERLAP: Final = 160


async def read_attachment(job: TemporaryDocumentProcess, ctx: Context[Services]) -> None:
    """Read a file and keep its passages until it is forgotten. What cannot be read fails without retries."""
    services = ctx.services
    async with services.outbox.transaction(ctx.job) as session:
        row = await attachments.begin(session, job.document_id)
    if row is None:
        ctx.log.info("nothing to do", reason="gone, read or failed")
        return
    try:
        pieces, warnings = await _pieces(row, ctx)
    except (UnreadableDocument, TooManyChunks, FileMissing) as problem:
        async with services.outbox.transaction(ctx.job) as session:
            await attachments.fail(session, job.document_id, str(problem))
        raise Skip(str(problem)) from problem
    embedder = services.embedder
    vectors = await embedder.embed([piece.text for piece in pieces])
    async with services.outbox.transaction(ctx.job) as session:
        await attachments.store_ready(session, job.document_id, pieces, vectors, embedder.model, warnings)
    ctx.log.info("read", passages=len(pieces))


async def attachment_lost(job: TemporaryDocumentProcess, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: the file says why it was not read."""
    said = f"task {job.spec.type} {PHRASES[letter.reason]}: {letter.error}"
    async with services.outbox.transaction() as session:
        await attachments.fail(session, job.document_id, said)


HANDLERS: Final = (on(TemporaryDocumentProcess, read_attachment, on_archived=attachment_lost),)


async def _pieces(row: Attachment, ctx: Context[Services]) -> tuple[list[Piece], Sequence[str]]:
    """The passages of a file, and what is said of what was left out. Raises UnreadableDocument, TooManyChunks, FileMissing."""
    services = ctx.services
    settings = services.settings
    async with services.reading, services.files.local(row.file_key) as path:
        document = await parse(
            path,
            row.file_name,
            timeout=settings.parser_timeout_s,
            memory_mb=settings.parser_memory_mb,
            limits=Limits(file_mb=settings.max_file_mb),
        )
    most = settings.chat_attachment_ocr_max_pages
    seen, warnings = await _words(document.images[:most], ctx), list(document.warnings)
    if len(document.images) > most:
        warnings.append(f"of {len(document.images)} pictures and scanned pages the first {most} were read")
    if document.images and (reason := why_unread()):
        warnings.append(reason)
    texts = [text for text in (document.text, *seen) if text.strip()]
    cuts = await asyncio.to_thread(
        lambda: [chunk for text in texts for chunk in split(text, size=SIZE, overlap=OVERLAP)]
    )
    if not cuts:
        raise UnreadableDocument(NO_TEXT)
    return [Piece(chunk.context(), " › ".join(chunk.heading)) for chunk in cuts], warnings


async def _words(images: Sequence[ExtractedImage], ctx: Context[Services]) -> list[str]:
    if why_unread():
        return []
    settings, words = ctx.services.settings, []
    for number, image in enumerate(images):
        await ctx.progress(number, len(images), "pictures")
        try:
            async with ctx.services.reading:
                words.append(
                    await read_words(
                        image.data, timeout=settings.parser_timeout_s, memory_mb=settings.parser_memory_mb
                    )
                )
        except UnreadablePicture:
            continue
    return words
