"""The index in SQLite: words in FTS5, vectors as blobs that are compared in memory, the text beside them."""

import asyncio
import json
from collections.abc import Collection, Sequence
from typing import Any, cast

import numpy as np
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    CursorResult,
    column,
    create_engine,
    delete,
    select,
    table,
)
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.language.terms import query_terms
from consumers.knowledge.search.generations import SORTS, Generations
from consumers.knowledge.search.ranking import HEARSAY, RANK_DEPTH, Candidate, rank
from consumers.knowledge.search.rows import (
    MAX_HITS,
    PLACES,
    SUMMARIES,
    candidates,
    hits,
    rarest,
    row_of,
    token,
    unit,
    wanted,
)
from consumers.knowledge.search.store import EntryKind, Hit, IndexEntry, Vector
from consumers.knowledge.search.vectors import DEFAULT_BUDGET_BYTES, Space, VectorCache, closest_first
from pipeline.store import batches
from pipeline.store.sqlite import BUSY_S, READERS, prepare_connections, sqlite_url, store_errors

_entries = table(
    "search_entries", *map(column, ("seq", "id", "kb_id", "knowledge_id", "attempt", "kind", "chunk_id"))
)
_words = table("search_words", column("rowid"))
_vectors = table("search_vectors", *map(column, ("id", "kb_id", "generation")))

_ADD = sql(
    "INSERT INTO search_entries (id, kb_id, knowledge_id, attempt, kind, chunk_id, position, heading, text, digest)"
    " VALUES (:id, :kb_id, :knowledge_id, :attempt, :kind, :chunk_id, :position, :heading, :text, :digest)"
)
_ADD_VECTORS = sql(
    "INSERT INTO search_vectors (id, kb_id, generation, model, dimension, sort, vector)"
    " VALUES (:id, :kb_id, :generation, :model, :dimension, :sort, :vector)"
)
_ADD_WORDS = sql(
    "INSERT INTO search_words (rowid, base, words) SELECT seq, :base, :words FROM search_entries WHERE id = :id"
)
# A base that was removed and is restored under its id goes on behind all that anybody ever knew of it.
_COUNT_PUT = sql(
    "INSERT INTO search_versions (kb_id, generation, puts) VALUES (:kb_id, :generation,"
    " (SELECT coalesce(max(seq), 1) FROM sqlite_sequence WHERE name = 'search_vectors'))"
    " ON CONFLICT (kb_id, generation) DO UPDATE SET puts = puts + 1"
)
_COUNT_DROP = sql(
    "INSERT INTO search_versions (kb_id, generation, drops) VALUES (:kb_id, :generation, 1)"
    " ON CONFLICT (kb_id, generation) DO UPDATE SET drops = drops + 1"
)
_FORGET_VERSION = sql("DELETE FROM search_versions WHERE kb_id = :kb_id")
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
    " CROSS JOIN search_vectors made ON made.seq = json_extract(found.value, '$[1]')"
    " CROSS JOIN search_entries entry ON entry.id = made.id ORDER BY found.key"
)


class SqliteSearch(Generations):
    """The `SearchStore` of one SQLite database. Its memory is bounded by `budget_bytes` of vectors.

    A search is one visit to a thread with a connection of its own: a dozen small statements sent one by one
    through the event loop would take longer than they run.
    """

    _add_vector = (
        "INSERT INTO search_vectors (id, kb_id, generation, model, dimension, sort, vector) SELECT id, kb_id, :generation,"
        " :model, :dimension, :sort, :vector FROM search_entries WHERE id = :id AND kb_id = :kb_id AND digest = :digest"
        " AND attempt = :attempt ON CONFLICT (id, generation) DO NOTHING"
    )
    _vector_column = "made.vector"

    def __init__(self, url: str | URL, *, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._url = sqlite_url(url)
        self._vectors = VectorCache(budget_bytes)
        self._engine = create_engine(self._url.set(drivername="sqlite"), pool_size=READERS, max_overflow=0)
        prepare_connections(self._engine, "BEGIN DEFERRED", BUSY_S, "PRAGMA query_only = ON")

    async def close(self) -> None:
        """Close the connections that searching uses."""
        await asyncio.to_thread(self._engine.dispose)

    async def put(self, session: AsyncSession, entries: Sequence[IndexEntry]) -> None:
        """See `SearchStore`. Raises ValueError for a vector that cannot be compared."""
        latest = {entry.id: entry for entry in entries}
        for ids in batches(list(latest)):
            await _remove(session, _entries.c.id.in_(ids))
        if latest:
            rows = await asyncio.to_thread(lambda: [_row(entry) for entry in latest.values()])
            await session.execute(_ADD, rows)
            if own := [row for row in rows if row["kind"] not in HEARSAY]:
                await session.execute(_ADD_WORDS, own)
            if vectors := [row for row in rows if row["vector"] is not None]:
                await session.execute(_ADD_VECTORS, vectors)
                changed = {(row["kb_id"], row["generation"]) for row in vectors}
                await session.execute(_COUNT_PUT, [_version(*one) for one in changed])

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

    async def drop_chunks(self, session: AsyncSession, chunk_ids: Sequence[str]) -> int:
        """Remove the entries of some chunks, those of their questions too. Says how many."""
        return sum([await _remove(session, _entries.c.chunk_id.in_(some)) for some in batches(chunk_ids)])

    async def drop_base(self, session: AsyncSession, kb_id: str, *, limit: int | None = None) -> int:
        """Remove the entries of a knowledge base, every one or at most so many. Says how many; after none, nothing of the base
        is left here.
        """
        some = select(_entries.c.seq).where(_entries.c.kb_id == kb_id).order_by(_entries.c.seq).limit(limit)
        removed = await _remove(session, _entries.c.seq.in_(some))
        if not removed:
            await session.execute(_FORGET_VERSION, {"kb_id": kb_id})
        return removed

    async def search(
        self,
        kb_ids: Sequence[str],
        text: str,
        vector: Vector | None,
        *,
        model: str,
        generation: int = 0,
        limit: int = 10,
    ) -> list[Hit]:
        """The best passages of some bases for any text whatever, at most `MAX_HITS`.

        Raises StoreUnavailable, and ValueError for a vector that cannot be compared.
        """
        limit = max(0, min(limit, MAX_HITS))
        sought = None if vector is None else unit(vector)
        patterns = query_terms(text)
        if not (kb_ids and patterns and limit):
            return []
        return await asyncio.to_thread(
            self._search, list(dict.fromkeys(kb_ids)), patterns, sought, (model, generation), limit
        )

    def _search(
        self,
        kb_ids: list[str],
        patterns: list[str],
        sought: Vector | None,
        index: tuple[str, int],
        limit: int,
    ) -> list[Hit]:
        with store_errors(self._url), self._engine.connect() as connection:
            by_meaning: list[Candidate] = []
            if sought is not None:
                spaces = [Space(kb_id, *index, len(sought)) for kb_id in kb_ids]
                near = [
                    one
                    for space in spaces
                    for one in self._vectors.nearest(connection, space, sought, RANK_DEPTH)
                ]
                found = {"near": json.dumps(sorted(near, key=closest_first))}
                by_meaning = candidates(connection.execute(_BY_SEQS, found))
            by_words = _by_words(connection, kb_ids, patterns)
            # Twice as many as asked for, because a passage may show one that comes later.
            ranked = rank([by_meaning, by_words], 2 * limit)
            chunk_ids, documents = wanted(ranked)
            places = connection.execute(PLACES, {"chunk_ids": chunk_ids})
            return hits(ranked, places, connection.execute(SUMMARIES, {"knowledge_ids": documents}), limit)

    def _written(self, vector: Vector) -> bytes:
        return vector.astype("<f4").tobytes()

    def _read_vector(self, stored: Any) -> Vector:
        return np.frombuffer(stored, "<f4").astype(np.float32)

    async def _note(
        self, session: AsyncSession, kb_id: str, generations: Sequence[int], *, put: bool
    ) -> None:
        changed = [_version(kb_id, generation) for generation in generations]
        await session.execute(_COUNT_PUT if put else _COUNT_DROP, changed)


def _by_words(connection: Connection, kb_ids: Sequence[str], patterns: Sequence[str]) -> list[Candidate]:
    """Entries that share words with the query, by bm25, the rarest words first while the reading is affordable."""
    asked = json.dumps([[pattern, *_range(pattern)] for pattern in patterns])
    chosen = rarest(map(tuple, connection.execute(_FREQUENCIES, {"asked": asked})))
    if not chosen:
        return []
    bases = " OR ".join(f'"{token(kb_id)}"' for kb_id in kb_ids)
    match = f"base : ({bases}) AND words : ({' OR '.join(chosen)})"
    return candidates(connection.execute(_BY_WORDS, {"query": match, "depth": RANK_DEPTH}))


def _range(pattern: str) -> tuple[str, str]:
    """The first and the last term that a pattern can mean."""
    term = pattern.strip('"*')
    return term, f"{term}\U0010ffff" if pattern.endswith("*") else term


async def _remove(session: AsyncSession, *conditions: ColumnElement[bool]) -> int:
    """Delete entries and their words, and let every cache of their bases know."""
    gone = _vectors.c.id.in_(select(_entries.c.id).where(*conditions))
    indexes = select(_vectors.c.kb_id, _vectors.c.generation).where(gone).distinct()
    if changed := [_version(*index) for index in (await session.execute(indexes)).all()]:
        await session.execute(delete(_vectors).where(gone))
        await session.execute(_COUNT_DROP, changed)
    words = select(_entries.c.seq).where(*conditions)
    await session.execute(delete(_words).where(_words.c.rowid.in_(words)))
    removed = await session.execute(delete(_entries).where(*conditions))
    return cast("CursorResult[Any]", removed).rowcount


def _row(entry: IndexEntry) -> dict[str, Any]:
    row = row_of(entry)
    vector, words = row.pop("unit"), " ".join(row.pop("terms"))
    blob = None if vector is None else vector.astype("<f4").tobytes()
    place = {"sort": SORTS.get(entry.kind, 0), "generation": entry.generation}
    return {**row, **place, "vector": blob, "base": token(entry.kb_id), "words": words}


def _version(kb_id: str, generation: int) -> dict[str, Any]:
    return {"kb_id": kb_id, "generation": generation}
