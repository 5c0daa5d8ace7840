"""The index in PostgreSQL: words in a tsvector under GIN, vectors in pgvector, compared exactly.

The words are our own terms (`search_terms`), so that all languages are found as they are in SQLite; no configuration of
the server's text search has a say. Beside them stands the base as a word of its own, so that GIN narrows by both at once.
Vectors are scanned, not guessed: a scan of one base and model reads 20,000 vectors of 512 numbers in some 10 ms and
misses none, while HNSW over all bases misses some, and slows each insert down.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np
from sqlalchemy import ColumnElement, column, delete, select, table
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.language.terms import query_terms
from consumers.knowledge.search.generations import SORTS, Generations
from consumers.knowledge.search.ranking import HEARSAY, RANK_DEPTH, Candidate, rank
from consumers.knowledge.search.rows import (
    MAX_HITS,
    PLACES,
    POSTINGS,
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
from pipeline.store import Database, batches, changed

LAST_POSITION: Final = 16_383
MOST_POSITIONS: Final = 255
"""Of one term, as far as a tsvector counts."""
SAMPLE: Final = 50_000
"""Entries of the bases looked at, for how many there are and how long they usually are."""

_entries = table(
    "search_entries", *map(column, ("id", "kb_id", "knowledge_id", "attempt", "kind", "chunk_id"))
)
_vectors = table("search_vectors", column("id"))

_ADD = sql(
    "INSERT INTO search_entries (id, kb_id, knowledge_id, attempt, kind, chunk_id, position, heading, text, digest,"
    " length, words) VALUES (:id, :kb_id, :knowledge_id, :attempt, :kind, :chunk_id, :position, :heading, :text, :digest,"
    " :length, CAST(CAST(:words AS text) AS tsvector)) ON CONFLICT (id) DO UPDATE SET (kb_id, knowledge_id, attempt, kind,"
    " chunk_id, position, heading, text, digest, length, words) = (excluded.kb_id, excluded.knowledge_id, excluded.attempt,"
    " excluded.kind, excluded.chunk_id, excluded.position, excluded.heading, excluded.text, excluded.digest,"
    " excluded.length, excluded.words)"
)
_ADD_VECTORS = sql(
    "INSERT INTO search_vectors (id, kb_id, generation, model, dimension, sort, vector) VALUES (:id, :kb_id, :generation,"
    " :model, :dimension, :sort, CAST(CAST(:vector AS real[]) AS vector)) ON CONFLICT (id, generation) DO UPDATE SET (kb_id,"
    " model, dimension, sort, vector) = (excluded.kb_id, excluded.model, excluded.dimension, excluded.sort, excluded.vector)"
)
_FREQUENCIES = sql(
    "SELECT asked.pattern, (SELECT count(*) FROM (SELECT 1 FROM search_entries WHERE words @@ CAST(asked.scoped AS tsquery)"
    " LIMIT :most) found) AS found FROM unnest(CAST(:patterns AS text[]), CAST(:scoped AS text[])) asked (pattern, scoped)"
)
_SAMPLE = sql(
    "SELECT count(*) AS entries, coalesce(avg(length), 0) AS usual FROM (SELECT length FROM search_entries"
    " WHERE kb_id = ANY(CAST(:kb_ids AS text[])) AND words IS NOT NULL LIMIT :most) sampled"
)
# ts_rank of one term is 1 + 1/4 + 1/9 + ... as often as it stands there, up to pi^2/6, times a constant; so it tells how
# often that is. Of several terms with the same beginning it tells the sum.
_BY_WORDS = sql(
    "SELECT entry.knowledge_id, entry.chunk_id, entry.kind, entry.digest, 0.0 AS closeness FROM ("
    " SELECT id, sum(weight * often * 2.2 / (often + 0.3 + 0.9 * length / CAST(:usual AS float8))) AS score FROM ("
    "  SELECT entry.id, asked.weight, entry.length, CASE WHEN told.sum < 1.64 THEN 1 / (1.645 - told.sum) - 0.5"
    "  ELSE told.sum END AS often"
    "  FROM unnest(CAST(:patterns AS text[]), CAST(:scoped AS text[]), CAST(:weights AS float8[])) asked"
    "  (pattern, scoped, weight) CROSS JOIN LATERAL (SELECT id, words, length FROM search_entries"
    "  WHERE words @@ CAST(asked.scoped AS tsquery) LIMIT :most) entry CROSS JOIN LATERAL"
    "  (SELECT 16.4493 * ts_rank(entry.words, CAST(asked.pattern AS tsquery))) told (sum)) matched"
    " GROUP BY id ORDER BY score DESC, id LIMIT :depth"
    ") found JOIN search_entries entry ON entry.id = found.id ORDER BY found.score DESC, found.id"
)
_BY_MEANING = sql(
    "SELECT entry.knowledge_id, entry.chunk_id, entry.kind, entry.digest, found.closeness"
    " FROM (VALUES (0), (1), (2), (3)) sorts (sort) CROSS JOIN LATERAL ("
    " SELECT id, -(vector <#> CAST(CAST(:sought AS real[]) AS vector)) AS closeness FROM search_vectors"
    " WHERE kb_id = ANY(CAST(:kb_ids AS text[])) AND generation = :generation AND model = :model AND dimension = :dimension"
    " AND sort = sorts.sort"
    " ORDER BY closeness DESC, id LIMIT :depth"
    ") found JOIN search_entries entry ON entry.id = found.id ORDER BY found.closeness DESC, found.id"
)


class PostgresSearch(Generations):
    """The `SearchStore` of one PostgreSQL database. It holds nothing of its own."""

    # Locked, so that whoever is about to change the entry sees what is added here, and we what is changed there.
    _add_vector = (
        "INSERT INTO search_vectors (id, kb_id, generation, model, dimension, sort, vector) SELECT entry.id, :kb_id,"
        " :generation, :model, :dimension, :sort, CAST(CAST(:vector AS real[]) AS vector) FROM (SELECT id FROM search_entries"
        " WHERE id = :id AND kb_id = :kb_id AND digest = :digest AND attempt = :attempt FOR SHARE) entry"
        " ON CONFLICT (id, generation) DO NOTHING"
    )
    _vector_column = "CAST(made.vector AS real[])"

    def __init__(self, database: Database) -> None:
        self._database = database

    async def close(self) -> None:
        """The database is its owner's to close."""

    async def put(self, session: AsyncSession, entries: Sequence[IndexEntry]) -> None:
        """See `SearchStore`. Raises ValueError for a vector that cannot be compared."""
        latest = {entry.id: entry for entry in entries}
        if not latest:
            return
        # by id, so that two who put the same never wait for each other
        ordered = [latest[key] for key in sorted(latest)]
        rows, vectors = await asyncio.to_thread(_rows, ordered)
        await session.execute(_ADD, rows)
        for ids in batches([row["id"] for row in rows]):
            await session.execute(delete(_vectors).where(_vectors.c.id.in_(ids)))
        if vectors:
            await session.execute(_ADD_VECTORS, vectors)

    async def drop(
        self,
        session: AsyncSession,
        knowledge_id: str,
        *,
        before_attempt: int | None = None,
        kinds: Collection[EntryKind] | None = None,
    ) -> int:
        """Remove the entries of a document, all or only of older attempts or some kinds. Says how many."""
        conditions: list[ColumnElement[bool]] = [_entries.c.knowledge_id == knowledge_id]
        if before_attempt is not None:
            conditions.append(_entries.c.attempt < before_attempt)
        if kinds is not None:
            conditions.append(_entries.c.kind.in_([str(kind) for kind in kinds]))
        return await changed(session, delete(_entries).where(*conditions))

    async def drop_chunks(self, session: AsyncSession, chunk_ids: Sequence[str]) -> int:
        """Remove the entries of some chunks, those of their questions too. Says how many."""
        return sum(
            [
                await changed(session, delete(_entries).where(_entries.c.chunk_id.in_(some)))
                for some in batches(chunk_ids)
            ]
        )

    async def drop_base(self, session: AsyncSession, kb_id: str, *, limit: int | None = None) -> int:
        """Remove the entries of a knowledge base, every one or at most so many. Says how many; after none, nothing of the base
        is left here.
        """
        some = select(_entries.c.id).where(_entries.c.kb_id == kb_id).limit(limit)
        return await changed(session, delete(_entries).where(_entries.c.id.in_(some)))

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
        async with self._database.read() as session:
            by_meaning: list[Candidate] = []
            if sought is not None:
                asked = {"kb_ids": list(kb_ids), "model": model, "dimension": len(sought)}
                asked |= {"generation": generation, "sought": sought.tolist(), "depth": RANK_DEPTH}
                by_meaning = candidates(await session.execute(_BY_MEANING, asked))
            by_words = await _by_words(session, kb_ids, patterns)
            # Twice as many as asked for, because a passage may show one that comes later.
            ranked = rank([by_meaning, by_words], 2 * limit)
            chunk_ids, documents = wanted(ranked)
            places = await session.execute(PLACES, {"chunk_ids": chunk_ids})
            summaries = await session.execute(SUMMARIES, {"knowledge_ids": documents})
            return hits(ranked, places, summaries, limit)

    def _written(self, vector: Vector) -> list[float]:
        return [float(number) for number in vector]

    def _read_vector(self, stored: Any) -> Vector:
        return np.asarray(stored, np.float32)

    async def _note(
        self, session: AsyncSession, kb_id: str, generations: Sequence[int], *, put: bool
    ) -> None:
        """Nothing is kept in memory that would have to know."""


async def _by_words(session: AsyncSession, kb_ids: Sequence[str], terms: Sequence[str]) -> list[Candidate]:
    """Entries that share words with the query, by bm25, the rarest words first while the reading is affordable."""
    bases = " | ".join(f"'={token(kb_id)}'" for kb_id in dict.fromkeys(kb_ids))
    scoped = {pattern: f"({bases}) & {pattern}" for pattern in map(_pattern, terms)}
    asked = {"patterns": list(scoped), "scoped": list(scoped.values()), "most": POSTINGS + 1}
    counted = {row.pattern: row.found for row in await session.execute(_FREQUENCIES, asked)}
    chosen = rarest(counted.items())
    if not chosen:
        return []
    sample = (await session.execute(_SAMPLE, {"kb_ids": list(kb_ids), "most": SAMPLE})).one()
    asked |= {
        "patterns": chosen,
        "scoped": [scoped[pattern] for pattern in chosen],
        "usual": float(sample.usual),
    }
    asked["weights"] = [_weight(sample.entries, counted[pattern]) for pattern in chosen]
    return candidates(await session.execute(_BY_WORDS, {**asked, "depth": RANK_DEPTH}))


def _weight(entries: int, matching: int) -> float:
    """What it tells that an entry has a word, as bm25 has it."""
    return max(math.log((entries - matching + 0.5) / (matching + 0.5)), 1e-6) if matching <= entries else 1e-6


def _pattern(term: str) -> str:
    """A term of FTS5's syntax in that of tsquery. It holds no quote: it is all letters and digits."""
    word = term.strip('"*')
    return f"'{word}':*" if term.endswith("*") else f"'{word}'"


def _rows(entries: Sequence[IndexEntry]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows, vectors = [], []
    for entry in entries:
        row = row_of(entry)
        vector, terms = row.pop("unit"), row.pop("terms")
        model, dimension = row.pop("model"), row.pop("dimension")
        own = entry.kind not in HEARSAY
        rows.append(
            {
                **row,
                "kind": str(entry.kind),
                "length": len(terms),
                "words": _tsvector(entry, terms) if own else None,
            }
        )
        if vector is not None:
            place = {
                "id": entry.id,
                "kb_id": entry.kb_id,
                "sort": SORTS.get(entry.kind, 0),
                "generation": entry.generation,
            }
            vectors.append({**place, "model": model, "dimension": dimension, "vector": vector.tolist()})
    return rows, vectors


def _tsvector(entry: IndexEntry, terms: Sequence[str]) -> str:
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for place, term in enumerate(terms, start=1):
        if len(positions[term]) < MOST_POSITIONS:
            positions[term].append(min(place, LAST_POSITION))
    words = (f"'{term}':{','.join(map(str, at))}" for term, at in positions.items())
    return " ".join((f"'={token(entry.kb_id)}'", *words))
