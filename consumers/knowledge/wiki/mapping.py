"""From a document to what it says to each page of its wiki; of a long one, part by part, each kept until that is done."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pydantic import TypeAdapter
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.wiki_lane import RETRACT, WRITE
from consumers.knowledge.documents.contents import chunks_of
from consumers.knowledge.embedding.embedder import Embedder
from consumers.knowledge.embedding.summarising import TooLittleText, first_words, summarise
from consumers.knowledge.tables.knowledge import Chunk, Knowledge, table_of
from consumers.knowledge.tables.wiki import WikiReading
from consumers.knowledge.wiki.names import document_slug, folder_of, slug_of
from consumers.knowledge.wiki.pages import Said
from consumers.knowledge.wiki.reading import PART, Reading, Text, combine, read_part
from consumers.knowledge.wiki.writing import Account, Contribution, shortened
from contracts.knowledge import SILENT
from pipeline import Database
from pipeline.store import insert_new
from pipeline.store.pending_ops import PendingOp

_reading: Final = TypeAdapter(Reading)


class Verdict(StrEnum):
    """What is to be done with a document."""

    WRITE = "write"
    CLEAR = "clear"  # it says nothing (any more)
    LEAVE = "leave"  # a newer attempt will be written about


@dataclass(frozen=True, slots=True)
class Due:
    """A document of a batch with all its operations; the last one counts."""

    knowledge_id: str
    op: str
    attempt: int
    ids: tuple[int, ...]
    slots: tuple[int, ...]
    """Attempts whose slots wait for these operations."""
    fails: int = 0
    """How often it has failed already."""

    def verdict(self, document: Knowledge | None) -> Verdict:
        """Return what is to be done, the document being as it is now."""
        if self.op == RETRACT or document is None or document.parse_status in SILENT:
            return Verdict.CLEAR
        current = document.attempt == self.attempt == document.parsed_attempt
        return Verdict.WRITE if current else Verdict.LEAVE


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a document says to which pages, and in which folder its own one lies."""

    due: Due
    verdict: Verdict
    said: Mapping[str, Said] = field(default_factory=dict)
    folder: str = ""


def collapse(ops: Sequence[PendingOp]) -> list[Due]:
    """Put the operations of each document together, in the order in which they came."""
    by_document: dict[str, list[PendingOp]] = {}
    for op in sorted(ops, key=lambda op: op.id):
        by_document.setdefault(op.dedup_key, []).append(op)
    return [
        Due(
            knowledge_id,
            same[-1].op,
            int(same[-1].payload.get("attempt", 0)),
            tuple(op.id for op in same),
            tuple(dict.fromkeys(int(op.payload.get("attempt", 0)) for op in same if op.op == WRITE)),
            max(op.fail_count for op in same),
        )
        for knowledge_id, same in by_document.items()
    ]


async def map_document(database: Database, embedder: Embedder, due: Due) -> Mapped:
    """Read a document, from where an earlier try stopped. Raises StoreUnavailable."""
    async with database.read() as session:
        document = await session.get(Knowledge, due.knowledge_id)
        verdict = due.verdict(document)
        if document is None or verdict is not Verdict.WRITE:
            return Mapped(due, verdict)
        chunks = await chunks_of(session, due.knowledge_id, due.attempt)
        known = await _known(session, due)
    texts = [Text(chunk.text, tuple(chunk.heading)) for chunk in chunks]
    parts = []
    for at in range(0, len(texts), PART):
        number = at // PART
        if number not in known:
            known[number] = await asyncio.to_thread(read_part, texts[at : at + PART], at, document.language)
            if len(texts) > PART:
                await _keep(database, due, number, known[number])
        parts.append(known[number])
    reading = combine(parts, document.title)
    summary = document.summary or await _summary(chunks, embedder)
    return Mapped(due, verdict, said(document, reading, summary), folder_of(document.source))


def said(document: Knowledge, reading: Reading, summary: str) -> dict[str, Said]:
    """What a document says to its own page and to those of its topics, by slug."""
    page, title = document_slug(document.title, document.source), document.title
    topics = {slug_of(topic.title): topic for topic in reversed(reading.topics)}
    account = Account(
        knowledge_id=document.id,
        title=title,
        file_name=document.file_name,
        language=document.language,
        summary=summary,
        sections=reading.sections,
        related=tuple(dict.fromkeys(slug_of(topic.title) for topic in reading.topics)),
    )
    contributions: dict[str, Said] = {
        slug: Contribution(
            knowledge_id=document.id,
            page=page,
            document=title,
            language=document.language,
            title=topic.title,
            weight=round(topic.weight, 4),
            statements=topic.statements,
            related=tuple(dict.fromkeys(slug_of(other) for other in topic.beside)),
        )
        for slug, topic in topics.items()
    }
    return {**contributions, page: account}


async def _summary(chunks: Sequence[Chunk], embedder: Embedder) -> str:
    text = "\n\n".join(chunk.text for chunk in chunks)
    try:
        return (await summarise(text, embedder)).text
    except TooLittleText:
        return shortened(first_words(text).text)


async def _known(session: AsyncSession, due: Due) -> dict[int, Reading]:
    rows = await session.execute(
        select(WikiReading.part, WikiReading.reading).where(
            WikiReading.knowledge_id == due.knowledge_id, WikiReading.attempt == due.attempt
        )
    )
    return {part: _reading.validate_python(reading) for part, reading in rows}


async def _keep(database: Database, due: Due, part: int, reading: Reading) -> None:
    """Keep what a part says; of a document that is gone by now there is nothing to keep."""
    async with database.transaction() as session:
        alive = select(Knowledge.id).where(Knowledge.id == due.knowledge_id, Knowledge.attempt == due.attempt)
        if await session.scalar(alive.with_for_update(read=True)) is not None:
            row = {"knowledge_id": due.knowledge_id, "attempt": due.attempt, "part": part}
            kept = _reading.dump_python(reading, mode="json")
            await insert_new(session, table_of(WikiReading), [{**row, "reading": kept}])
