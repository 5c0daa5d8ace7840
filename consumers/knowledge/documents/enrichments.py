"""What enrichments add to a document: its summary, and the questions that its chunks answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.bases.profile_asking import ask_for_profile
from consumers.knowledge.search.store import EntryKind, IndexEntry, SearchStore, Vector
from consumers.knowledge.tables.knowledge import Chunk, Knowledge, Question, table_of
from contracts.knowledge import KEEPS_RESULTS, SummaryStatus
from pipeline.store import changed, insert_new, now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary and how it was made. `model` made the vector."""

    text: str
    method: str
    vector: Vector | None = None
    model: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question that a chunk answers."""

    chunk: Chunk
    text: str
    vector: Vector | None = None


async def store_summary(
    session: AsyncSession, index: SearchStore, document: Knowledge, attempt: int, summary: Summary
) -> None:
    """Store a summary with its index entry, in the transaction that closed its slot; or again, to refresh it."""
    stored = await _summary(
        session,
        document.id,
        attempt,
        summary_status=SummaryStatus.COMPLETED,
        summary=summary.text,
        summary_method=summary.method,
    )
    if stored:
        entry = IndexEntry(
            id=ids.summary(document.id, attempt),
            kb_id=document.knowledge_base_id,
            knowledge_id=document.id,
            attempt=attempt,
            kind=EntryKind.SUMMARY,
            text=summary.text,
            vector=summary.vector,
            model=summary.model,
            generation=summary.generation,
        )
        await index.put(session, [entry])
        await ask_for_profile(session, document.knowledge_base_id, document.language)


async def begin_summary(session: AsyncSession, knowledge_id: str, attempt: int) -> bool:
    """Say that the summary is being written; False if this attempt has nothing to write (any more)."""
    waits = Knowledge.summary_status.in_((SummaryStatus.PENDING, SummaryStatus.PROCESSING))
    return await _summary(session, knowledge_id, attempt, waits, summary_status=SummaryStatus.PROCESSING)


async def fail_summary(session: AsyncSession, knowledge_id: str, attempt: int) -> bool:
    """Say that there will be no summary; the document goes on without."""
    failed = await _summary(session, knowledge_id, attempt, summary_status=SummaryStatus.FAILED)
    if failed and (document := await session.get(Knowledge, knowledge_id)):
        await ask_for_profile(session, document.knowledge_base_id, document.language)
    return failed


async def store_questions(
    session: AsyncSession,
    index: SearchStore,
    asked: Sequence[Asked],
    *,
    method: str,
    model: str = "",
    generation: int = 0,
) -> None:
    """Store questions with their index entries, in the transaction that closed their slot."""
    counts: dict[str, int] = {}
    rows, entries = [], []
    for one in asked:
        chunk = one.chunk
        position = counts[chunk.id] = counts.get(chunk.id, -1) + 1
        key = ids.question(chunk.id, position)
        rows.append(
            {
                "id": key,
                "knowledge_id": chunk.knowledge_id,
                "chunk_id": chunk.id,
                "attempt": chunk.attempt,
                "position": position,
                "text": one.text,
                "method": method,
            }
        )
        entries.append(
            IndexEntry(
                id=key,
                knowledge_id=chunk.knowledge_id,
                attempt=chunk.attempt,
                text=one.text,
                kb_id=chunk.knowledge_base_id,
                kind=EntryKind.QUESTION,
                chunk_id=chunk.id,
                vector=one.vector,
                model=model if one.vector is not None else "",
                generation=generation,
            )
        )
    await insert_new(session, table_of(Question), rows)
    if entries:
        await index.put(session, entries)


async def _summary(
    session: AsyncSession, knowledge_id: str, attempt: int, *conditions: ColumnElement[bool], **values: object
) -> bool:
    return bool(
        await changed(
            session,
            update(Knowledge)
            .where(Knowledge.id == knowledge_id, Knowledge.attempt == attempt)
            .where(Knowledge.parse_status.in_(KEEPS_RESULTS), *conditions)
            .values(updated_at=now_ms(), **values),
        )
    )
