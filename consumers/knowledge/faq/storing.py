"""Questions with ready answers: kept in a base, found beside its documents, or alone.

In the index they are a base of their own, so that documents cannot crowd them out: each form of a question is an entry,
and all of them stand for the same passage.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.embedding.embedder import Embedder, Vectors
from consumers.knowledge.faq.reading import Written
from consumers.knowledge.search.sides import Side
from consumers.knowledge.search.store import EntryKind, Hit, IndexEntry, SearchStore
from consumers.knowledge.tables.faq import FAQEntry
from consumers.knowledge.tables.knowledge import table_of
from contracts.identity import derive_id
from pipeline.store import batches, changed, now_ms, upsert

APART_FROM: Final = ":faq"
APART: Final = 10
"""Between the places of the forms of a question: what stands side by side is read as one passage."""
NOT_THIS: Final = 0.9
"""Closeness to a question that an entry does not answer from which on it is left out."""


def space(kb_id: str) -> str:
    """Return the base of the index in which the questions of a base lie."""
    return f"{kb_id}{APART_FROM}"


def base_of(space: str) -> str:
    """Return the base whose questions lie in this one of the index."""
    return space.removesuffix(APART_FROM)


def entry_id(kb_id: str, question: str) -> str:
    """The entry of a question; forms that differ in case or spacing are one question."""
    return derive_id("faq", kb_id, ids.normal(question))


def merged(known: FAQEntry | None, said: Written) -> Written:
    """What an entry says once somebody wrote it again: answers anew, forms of the question added."""
    if known is None:
        return said
    own = ids.normal(said.question)

    def joined(before: Sequence[str], now: Sequence[str]) -> tuple[str, ...]:
        forms = {ids.normal(one): one for one in (*before, *now)}
        return tuple(one for key, one in forms.items() if key != own)

    negative = joined(known.negative_questions, said.negative_questions)
    similar = {ids.normal(one) for one in said.similar_questions}
    return Written(
        said.question,
        said.answers,
        joined(known.similar_questions, said.similar_questions),
        tuple(one for one in negative if ids.normal(one) not in similar),
        said.enabled,
    )


async def known_entries(session: AsyncSession, entry_ids: Sequence[str]) -> Mapping[str, FAQEntry]:
    """Return those of these entries that there are, by id."""
    found: dict[str, FAQEntry] = {}
    for some in batches(entry_ids):
        rows = await session.scalars(select(FAQEntry).where(FAQEntry.id.in_(some)))
        found.update((row.id, row) for row in rows)
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Whose questions these are. `import_id` is of the task that writes them; empty: a person."""

    tenant_id: int
    kb_id: str
    import_id: str = ""


async def write_entries(
    session: AsyncSession,
    index: SearchStore,
    place: Place,
    entries: Sequence[Written],
    vectors: Mapping[str, Vectors],
    side: Side,
) -> None:
    """Write entries, replacing those of the same questions, and index them; `vectors`, of that `side`, are by question, a row a
    form.
    """
    now = now_ms()
    rows = {entry_id(place.kb_id, one.question): one for one in entries}
    values = [
        {
            "id": ident,
            "tenant_id": place.tenant_id,
            "knowledge_base_id": place.kb_id,
            "question": one.question,
            "similar_questions": list(one.similar_questions),
            "negative_questions": list(one.negative_questions),
            "answers": list(one.answers),
            "enabled": one.enabled,
            "import_id": place.import_id,
            "created_at": now,
            "updated_at": now,
        }
        for ident, one in sorted(rows.items())
    ]
    replaced = [name for name in values[0] if name not in {"id", "created_at"}] if values else []
    await upsert(session, table_of(FAQEntry), values, replace=replaced)
    for ident in rows:
        await index.drop(session, ident)
    await index.put(
        session,
        [
            found
            for ident, one in rows.items()
            if one.enabled
            for found in _indexed(place.kb_id, ident, one, vectors[one.question], side)
        ],
    )


async def embed_forms(embedder: Embedder, entries: Sequence[Written]) -> dict[str, Vectors]:
    """Return the vectors of all forms of each question, by question."""
    forms = [(one.question, form) for one in entries for form in (one.question, *one.similar_questions)]
    rows = await embedder.embed([form for _, form in forms])
    found: dict[str, list[Any]] = {}
    for (question, _), row in zip(forms, rows, strict=True):
        found.setdefault(question, []).append(row)
    return {question: np.stack(some) for question, some in found.items()}


async def delete_entries(
    session: AsyncSession, index: SearchStore, kb_id: str, entry_ids: Collection[str]
) -> int:
    """Remove entries of a base; return how many there were."""
    gone = delete(FAQEntry).where(FAQEntry.knowledge_base_id == kb_id, FAQEntry.id.in_(list(entry_ids)))
    removed = await session.scalars(
        gone.returning(FAQEntry.id), execution_options={"synchronize_session": False}
    )
    there = removed.all()
    for ident in there:
        await index.drop(session, ident)
    return len(there)


async def left_over(session: AsyncSession, kb_id: str, import_id: str, limit: int) -> Sequence[str]:
    """Return entries of a base that an import did not write."""
    others = FAQEntry.knowledge_base_id == kb_id, FAQEntry.import_id != import_id
    return (await session.scalars(select(FAQEntry.id).where(*others).limit(limit))).all()


async def entries_of(
    session: AsyncSession, kb_id: str, after: str = "", limit: int = 100, contains: str = ""
) -> Sequence[FAQEntry]:
    """Return entries of a base by id, those behind `after`; those whose question `contains` something, in any case."""
    found = select(FAQEntry).where(FAQEntry.knowledge_base_id == kb_id, FAQEntry.id > after)
    if contains:
        found = found.where(func.lower(FAQEntry.question).contains(contains.lower(), autoescape=True))
    return (await session.scalars(found.order_by(FAQEntry.id).limit(limit))).all()


async def entry(session: AsyncSession, kb_id: str, ident: str) -> FAQEntry | None:
    """Return an entry of a base, or None."""
    found = await session.get(FAQEntry, ident)
    return found if found is not None and found.knowledge_base_id == kb_id else None


async def answering(
    session: AsyncSession, embedder: Embedder | None, query: str, vector: Any, hits: Sequence[Hit]
) -> list[tuple[FAQEntry, Hit]]:
    """Return the entries that were found, best first, without those that say that this is not their question."""
    named = [hit.knowledge_id for hit in hits]
    rows = await session.scalars(select(FAQEntry).where(FAQEntry.id.in_(named)))
    found = {row.id: row for row in rows}
    refusing = [(row.id, form) for row in found.values() for form in row.negative_questions]
    against: Sequence[Any] = [None] * len(refusing)
    if embedder is not None and refusing:
        against = list(await embedder.embed([form for _, form in refusing]))
    asked = ids.normal(query)
    out = {
        ident
        for (ident, form), other in zip(refusing, against, strict=True)
        if ids.normal(form) == asked or (other is not None and float(other @ vector) >= NOT_THIS)
    }
    return [(found[hit.knowledge_id], hit) for hit in hits if hit.knowledge_id in found.keys() - out]


async def forget_base(session: AsyncSession, index: SearchStore, kb_id: str) -> int:
    """Remove all entries of a base; return how many there were."""
    await index.drop_base(session, space(kb_id))
    return await changed(session, delete(FAQEntry).where(FAQEntry.knowledge_base_id == kb_id))


def _indexed(kb_id: str, ident: str, one: Written, vectors: Vectors, side: Side) -> list[IndexEntry]:
    answers = "\n".join(one.answers)
    return [
        IndexEntry(
            id=f"{ident}:{place}",
            kb_id=space(kb_id),
            knowledge_id=ident,
            attempt=0,
            kind=EntryKind.FAQ,
            text=f"{form}\n{answers}",
            chunk_id=ident,
            position=place * APART,
            heading=form,
            vector=vector,
            model=side.model,
            generation=side.generation,
        )
        for place, (form, vector) in enumerate(
            zip((one.question, *one.similar_questions), vectors, strict=True)
        )
    ]
