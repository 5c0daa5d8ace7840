"""The index in SQLite: words in FTS5, vectors as blobs that are compared in memory, the text beside them."""

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, cast

import numpy as np
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    CursorResult,
    TextClause,
    bindparam,
    column,
    create_engine,
    delete,
    select,
    table,
)
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.search import EntryKind, Hit, IndexEntry, Vector
from consumers.knowledge.search_ranking import HEARSAY, RANK_DEPTH, Candidate, Place, Ranked, passages, rank
from consumers.knowledge.search_terms import clean, index_terms, query_terms
from consumers.knowledge.search_vectors import DEFAULT_BUDGET_BYTES, Space, VectorCache, closest_first
from pipeline.store import batches
from pipeline.store.engine import BUSY_S, READERS, prepare_connections, sqlite_url, store_errors

MAX_HITS: Final = 100
POSTINGS: Final = 4_000  # read for one query: what more words match is common words, which tell nothing

_entries = table("search_entries", *map(column, ("seq", "id", "kb_id", "knowledge_id", "attempt", "kind")))
_words = table("search_words", column("rowid"))


def _many(statement: str, *names: str) -> TextClause:
    return sql(statement).bindparams(*(bindparam(name, expanding=True) for name in names))


_ADD = sql(
    "INSERT INTO search_entries (id, kb_id, knowledge_id, attempt, kind, chunk_id, position, heading, text, digest,"
    " model, dimension, vector) VALUES (:id, :kb_id, :knowledge_id, :attempt, :kind, :chunk_id, :position, :heading, :text,"
    " :digest, :model, :dimension, :vector)"
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
_FREQUENCIES = sql(
    "SELECT json_extract(asked.value, '$[0]') AS pattern, (SELECT coalesce(sum(doc), 0) FROM search_vocabulary"
    " WHERE term >= json_extract(asked.value, '$[1]') AND term <= json_extract(asked.value, '$[2]')) AS frequency"
    " FROM json_each(:asked) asked"
)
_BY_WORDS = sql(
    "SELECT entry.knowledge_id, entry.chunk_id, entry.kind, entry.digest, 0.0 AS closeness FROM (SELECT rowid AS seq,"
    " bm25(search_words, 0.0, 1.0) AS cost FROM search_words WHERE search_words MATCH :query ORDER BY cost LIMIT :depth"
    ") found CROSS JOIN search_entries entry ON entry.seq = found.seq ORDER BY found.cost, found.seq"
)
_BY_SEQS = sql(
    "SELECT entry.knowledge_id, entry.chunk_id, entry.kind, entry.digest,"
    " json_extract(found.value, '$[0]') AS closeness FROM json_each(:near) found"
    " CROSS JOIN search_entries entry ON entry.seq = json_extract(found.value, '$[1]') ORDER BY found.key"
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
    """The `SearchStore` of one SQLite database. Its memory is bounded by `budget_bytes` of vectors.

    A search is one visit to a thread with a connection of its own: a dozen small statements sent one by one
    through the event loop would take longer than they run.
    """

    def __init__(self, url: str | URL, *, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._url = sqlite_url(url)
        self._vectors = VectorCache(budget_bytes)
        self._engine = create_engine(self._url.set(drivername="sqlite"), pool_size=READERS, max_overflow=0)
        prepare_connections(self._engine, "BEGIN DEFERRED", BUSY_S, "PRAGMA query_only = ON")

    async def close(self) -> None:
        """Close the connections that searching uses."""
        await asyncio.to_thread(self._engine.dispose)

    async def put(self, session: AsyncSession, entries: Sequence[IndexEntry]) -> None:
        """Add entries, replacing those of the same id. Raises ValueError for a vector that cannot be compared."""
        latest = {entry.id: entry for entry in entries}
        for ids in batches(list(latest)):
            await _remove(session, _entries.c.id.in_(ids))
        if latest:
            rows = await asyncio.to_thread(lambda: [_row(entry) for entry in latest.values()])
            await session.execute(_ADD, rows)
            if own := [row for row in rows if row["kind"] not in HEARSAY]:
                await session.execute(_ADD_WORDS, own)
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
        """The best passages of some bases for any text whatever, at most `MAX_HITS`.

        Raises StoreUnavailable, and ValueError for a vector that cannot be compared.
        """
        limit = max(0, min(limit, MAX_HITS))
        wanted = None if vector is None else _unit(vector)
        patterns = query_terms(text)
        if not (kb_ids and patterns and limit):
            return []
        return await asyncio.to_thread(
            self._search, list(dict.fromkeys(kb_ids)), patterns, wanted, model, limit
        )

    def _search(
        self, kb_ids: list[str], patterns: list[str], wanted: Vector | None, model: str, limit: int
    ) -> list[Hit]:
        with store_errors(self._url), self._engine.connect() as connection:
            by_meaning: list[Candidate] = []
            if wanted is not None:
                spaces = [Space(kb_id, model, len(wanted)) for kb_id in kb_ids]
                near = [
                    one
                    for space in spaces
                    for one in self._vectors.nearest(connection, space, wanted, RANK_DEPTH)
                ]
                found = {"near": json.dumps(sorted(near, key=closest_first))}
                by_meaning = _candidates(connection.execute(_BY_SEQS, found))
            by_words = _by_words(connection, kb_ids, patterns)
            # Twice as many as asked for, because a passage may show one that comes later.
            return _hits(connection, rank([by_meaning, by_words], 2 * limit), limit)


def _by_words(connection: Connection, kb_ids: Sequence[str], patterns: Sequence[str]) -> list[Candidate]:
    """Entries that share words with the query, by bm25, the rarest words first while the reading is affordable."""
    asked = json.dumps([[pattern, *_range(pattern)] for pattern in patterns])
    counted = [row for row in connection.execute(_FREQUENCIES, {"asked": asked}) if row.frequency]
    chosen: list[str] = []
    read = 0
    for row in sorted(counted, key=lambda row: (row.frequency, row.pattern)):
        read += row.frequency
        if chosen and read > POSTINGS:
            break
        chosen.append(row.pattern)
    if not chosen:
        return []
    bases = " OR ".join(f'"{_token(kb_id)}"' for kb_id in kb_ids)
    match = f"base : ({bases}) AND words : ({' OR '.join(chosen)})"
    return _candidates(connection.execute(_BY_WORDS, {"query": match, "depth": RANK_DEPTH}))


def _candidates(rows: Iterable[Any]) -> list[Candidate]:
    return [
        Candidate(row.knowledge_id, row.chunk_id, EntryKind(row.kind), row.digest, row.closeness)
        for row in rows
    ]


def _range(pattern: str) -> tuple[str, str]:
    """The first and the last term that a pattern can mean."""
    term = pattern.strip('"*')
    return term, f"{term}\U0010ffff" if pattern.endswith("*") else term


def _hits(connection: Connection, ranked: Sequence[Ranked], limit: int) -> list[Hit]:
    chunks: dict[str, list[Place]] = {}
    chunk_ids = [one.chunk_id for one in ranked if one.chunk_id is not None]
    for found, *place in connection.execute(_PLACES, {"chunk_ids": chunk_ids}):
        chunks.setdefault(found, []).append(Place(*place))
    alone = [one.knowledge_id for one in ranked if one.chunk_id is None]
    rows = connection.execute(_SUMMARIES, {"knowledge_ids": alone})
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
    words = " ".join(index_terms(text))
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
        "digest": int.from_bytes(blake2b(words.encode(), digest_size=8).digest(), signed=True),
        "base": _token(entry.kb_id),
        "words": " ".join([*index_terms(heading), words]),
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
