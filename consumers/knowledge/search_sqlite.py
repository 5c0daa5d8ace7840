"""The index in SQLite: words in FTS5, vectors as blobs that are compared in memory, the text beside them."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, cast

import numpy as np
from sqlalchemy import ColumnElement, CursorResult, TextClause, bindparam, column, delete, select, table
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.search import EntryKind, Hit, IndexEntry, Vector
from consumers.knowledge.search_ranking import RANK_DEPTH, Candidate, Place, Ranked, passages, rank
from consumers.knowledge.search_terms import clean, index_terms, query_terms
from consumers.knowledge.search_vectors import DEFAULT_BUDGET_BYTES, Space, VectorCache
from pipeline.store.engine import Database

MAX_HITS: Final = 100
SORTS: Final = 4  # how much deeper than RANK_DEPTH to look, because entries are ranked among their like
POSTINGS: Final = 6_000  # read for one query: what more words match is common words, which tell nothing
BATCH: Final = 500  # ids in one statement


_entries = table("search_entries", *map(column, ("seq", "id", "kb_id", "knowledge_id", "attempt", "kind")))
_words = table("search_words", column("rowid"))


def _many(statement: str, *names: str) -> TextClause:
    return sql(statement).bindparams(*(bindparam(name, expanding=True) for name in names))


_ADD = sql(
    "INSERT INTO search_entries (id, kb_id, knowledge_id, attempt, kind, chunk_id, position, heading, text, model,"
    " dimension, vector) VALUES (:id, :kb_id, :knowledge_id, :attempt, :kind, :chunk_id, :position, :heading, :text,"
    " :model, :dimension, :vector)"
)
_ADD_WORDS = sql(
    "INSERT INTO search_words (rowid, base, words) SELECT seq, :base, :words FROM search_entries WHERE id = :id"
)
_COUNT_PUT = sql(
    "INSERT INTO search_versions (kb_id, puts) VALUES (:kb_id, 1) ON CONFLICT (kb_id) DO UPDATE SET puts = puts + 1"
)
_COUNT_DROP = sql(
    "INSERT INTO search_versions (kb_id, drops) VALUES (:kb_id, 1) ON CONFLICT (kb_id) DO UPDATE SET drops = drops + 1"
)
_FREQUENCY = sql("SELECT coalesce(sum(doc), 0) FROM search_vocabulary WHERE term >= :first AND term <= :last")
_BY_WORDS = sql(
    "SELECT rowid AS seq FROM search_words WHERE search_words MATCH :query"
    " ORDER BY bm25(search_words, 0.0, 1.0), rowid LIMIT :depth"
)
_CANDIDATES = _many(
    "SELECT seq, knowledge_id, chunk_id, kind FROM search_entries WHERE seq IN :seqs AND kb_id IN :kb_ids",
    "seqs",
    "kb_ids",
)
_PLACES = _many(
    "SELECT hit.chunk_id AS found, near.kb_id, near.knowledge_id, near.chunk_id, near.position, near.heading, near.text"
    " FROM search_entries hit JOIN search_entries near ON near.knowledge_id = hit.knowledge_id"
    " AND near.attempt = hit.attempt AND near.kind = hit.kind"
    " AND near.position BETWEEN hit.position - 1 AND hit.position + 1"
    " WHERE hit.chunk_id IN :chunk_ids AND hit.kind IN ('text', 'ocr', 'caption')",
    "chunk_ids",
)
_SUMMARIES = _many(
    "SELECT kb_id, knowledge_id, chunk_id, position, heading, text FROM search_entries"
    " WHERE knowledge_id IN :knowledge_ids AND chunk_id IS NULL",
    "knowledge_ids",
)


class SqliteSearch:
    """The `SearchStore` of one SQLite database. Its memory is bounded by `budget_bytes` of vectors."""

    def __init__(self, database: Database, *, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._database = database
        self._vectors = VectorCache(budget_bytes)

    async def put(self, session: AsyncSession, entries: Sequence[IndexEntry]) -> None:
        """Add entries, replacing those of the same id. Raises ValueError for a vector that cannot be compared."""
        latest = {entry.id: entry for entry in entries}
        for ids in _batches(list(latest)):
            await _remove(session, _entries.c.id.in_(ids))
        if latest:
            rows = await asyncio.to_thread(lambda: [_row(entry) for entry in latest.values()])
            await session.execute(_ADD, rows)
            await session.execute(_ADD_WORDS, rows)
            await session.execute(_COUNT_PUT, [{"kb_id": kb_id} for kb_id in {row["kb_id"] for row in rows}])

    async def drop(
        self,
        session: AsyncSession,
        knowledge_id: str,
        *,
        before_attempt: int | None = None,
        kinds: Collection[EntryKind] | None = None,
    ) -> int:
        """Remove the entries of a document, all or only of older attempts or some kinds. Says how many."""
        conditions = [_entries.c.knowledge_id == knowledge_id]
        if before_attempt is not None:
            conditions.append(_entries.c.attempt < before_attempt)
        if kinds is not None:
            conditions.append(_entries.c.kind.in_(kinds))
        return await _remove(session, *conditions)

    async def drop_base(self, session: AsyncSession, kb_id: str) -> int:
        """Remove every entry of a knowledge base. Says how many."""
        return await _remove(session, _entries.c.kb_id == kb_id)

    async def search(
        self,
        kb_ids: Sequence[str],
        text: str,
        vector: Vector | None,
        *,
        model: str,
        limit: int = 10,
    ) -> list[Hit]:
        """The best passages of some bases for any text whatever. Vectors of other models are not compared."""
        limit = max(0, min(limit, MAX_HITS))
        if not kb_ids or not limit:
            return []
        async with self._database.read() as session:
            rankings = [
                await self._by_meaning(session, kb_ids, vector, model),
                await _by_words(session, kb_ids, text),
            ]
            found = await _candidates(session, kb_ids, {seq for ranking in rankings for seq in ranking})
            ranked = rank(
                [[found[seq] for seq in ranking if seq in found] for ranking in rankings], 2 * limit
            )
            return await _hits(session, ranked, limit)

    async def _by_meaning(
        self, session: AsyncSession, kb_ids: Sequence[str], vector: Vector | None, model: str
    ) -> list[int]:
        wanted = None if vector is None else _unit(vector)
        if wanted is None:
            return []
        nearest: list[tuple[float, int]] = []
        for kb_id in dict.fromkeys(kb_ids):
            space = Space(kb_id, model, len(wanted))
            nearest += await self._vectors.nearest(session, space, wanted, RANK_DEPTH * SORTS)
        return [seq for _, seq in sorted(nearest, key=lambda one: (-one[0], one[1]))]


async def _by_words(session: AsyncSession, kb_ids: Sequence[str], query: str) -> list[int]:
    """Entries that share words with the query, by bm25, the rarest words first while the reading is affordable."""
    counted = []
    for pattern in query_terms(query):
        first = pattern.strip('"*')
        last = f"{first}\U0010ffff" if pattern.endswith("*") else first
        frequency = (await session.execute(_FREQUENCY, {"first": first, "last": last})).scalar_one()
        if frequency:
            counted.append((frequency, pattern))
    chosen: list[str] = []
    read = 0
    for frequency, pattern in sorted(counted):
        read += frequency
        if chosen and read > POSTINGS:
            break
        chosen.append(pattern)
    if not chosen:
        return []
    bases = " OR ".join(f'"{_token(kb_id)}"' for kb_id in kb_ids)
    asked = {"query": f"base : ({bases}) AND words : ({' OR '.join(chosen)})", "depth": RANK_DEPTH * SORTS}
    return list((await session.execute(_BY_WORDS, asked)).scalars())


async def _candidates(
    session: AsyncSession, kb_ids: Sequence[str], seqs: Iterable[int]
) -> dict[int, Candidate]:
    found = {}
    for batch in _batches(list(seqs)):
        for row in await session.execute(_CANDIDATES, {"seqs": batch, "kb_ids": list(kb_ids)}):
            found[row.seq] = Candidate(row.knowledge_id, row.chunk_id, EntryKind(row.kind))
    return found


async def _hits(session: AsyncSession, ranked: Sequence[Ranked], limit: int) -> list[Hit]:
    chunks: dict[str, list[Place]] = {}
    chunk_ids = [one.chunk_id for one in ranked if one.chunk_id is not None]
    for found, *place in await session.execute(_PLACES, {"chunk_ids": chunk_ids}):
        chunks.setdefault(found, []).append(Place(*place))
    alone = [one.knowledge_id for one in ranked if one.chunk_id is None]
    rows = await session.execute(_SUMMARIES, {"knowledge_ids": alone})
    return passages(ranked, chunks, {row.knowledge_id: [Place(*row)] for row in rows})[:limit]


async def _remove(session: AsyncSession, *conditions: ColumnElement[bool]) -> int:
    """Delete entries and their words, and let every cache of their bases know."""
    bases = (await session.execute(select(_entries.c.kb_id).where(*conditions).distinct())).scalars().all()
    if not bases:
        return 0
    gone = select(_entries.c.seq).where(*conditions)
    await session.execute(delete(_words).where(_words.c.rowid.in_(gone)))
    removed = await session.execute(delete(_entries).where(*conditions))
    await session.execute(_COUNT_DROP, [{"kb_id": kb_id} for kb_id in bases])
    return cast("CursorResult[Any]", removed).rowcount


def _row(entry: IndexEntry) -> dict[str, Any]:
    text, heading = clean(entry.text), clean(entry.heading)
    row = {
        "id": entry.id,
        "kb_id": entry.kb_id,
        "knowledge_id": entry.knowledge_id,
        "attempt": entry.attempt,
        "kind": entry.kind,
        "chunk_id": entry.chunk_id,
        "position": entry.position,
        "heading": heading,
        "text": text,
        "base": _token(entry.kb_id),
        "words": " ".join(index_terms(f"{heading}\n{text}")),
    }
    vector = None if entry.vector is None else _unit(entry.vector)
    if vector is None:
        return {**row, "model": "", "dimension": 0, "vector": None}
    if not entry.model:
        raise ValueError(f"entry {entry.id} has a vector and does not say which model made it")
    return {**row, "model": entry.model, "dimension": len(vector), "vector": vector.astype("<f4").tobytes()}


def _unit(vector: Vector) -> Vector | None:
    """The vector at length one, so that a product is a cosine; None for zeros, which point nowhere.

    Raises ValueError for what is no vector.
    """
    flat = np.asarray(vector, np.float32)
    if flat.ndim != 1 or not np.isfinite(flat).all():
        raise ValueError("a vector is one row of finite numbers")
    length = np.linalg.norm(flat)
    return flat / length if length else None


def _token(kb_id: str) -> str:
    """The id as one word, whatever characters it has."""
    return blake2b(kb_id.encode(), digest_size=8).hexdigest()


def _batches(items: list[Any]) -> Iterable[list[Any]]:
    return (items[at : at + BATCH] for at in range(0, len(items), BATCH))
