"""What the indexes in SQL share: an entry as a row, and rows as what ranking and readers take."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from sqlalchemy import Text, TextClause, bindparam
from sqlalchemy import text as sql

from consumers.knowledge.language.terms import clean, index_terms
from consumers.knowledge.search.ranking import Candidate, Place, Ranked, passages
from consumers.knowledge.search.store import EntryKind, Hit, IndexEntry, Vector

MAX_HITS: Final = 100
POSTINGS: Final = 4_000
"""Read for one query: what more words match is common words, which tell nothing."""


def many(statement: str, *names: str) -> TextClause:
    """Return a statement in which these parameters are lists of texts."""
    return sql(statement).bindparams(*(bindparam(name, type_=Text(), expanding=True) for name in names))


PLACES: Final = many(
    "SELECT hit.chunk_id AS found, near.kb_id, near.knowledge_id, near.chunk_id, near.position, near.heading, near.text"
    " FROM search_entries hit JOIN search_entries near ON near.knowledge_id = hit.knowledge_id"
    " AND near.attempt = hit.attempt AND near.kind = hit.kind"
    " AND near.position BETWEEN hit.position - 1 AND hit.position + 1"
    " WHERE hit.chunk_id IN :chunk_ids AND hit.kind IN ('text', 'ocr', 'caption', 'table', 'faq')",
    "chunk_ids",
)
"""The chunks that were found, each with its neighbours."""
SUMMARIES: Final = many(
    "SELECT kb_id, knowledge_id, chunk_id, position, heading, text FROM search_entries"
    " WHERE knowledge_id IN :knowledge_ids AND chunk_id IS NULL",
    "knowledge_ids",
)


def row_of(entry: IndexEntry) -> dict[str, Any]:
    """Return an entry as a row, with its `terms` and its `unit` vector, None where there is none.

    Raises ValueError for a vector that cannot be compared, or whose model is not named.
    """
    text, heading = clean(entry.text), clean(entry.heading)
    words = list(index_terms(text))
    vector = None if entry.vector is None else unit(entry.vector)
    if vector is not None and not entry.model:
        raise ValueError(f"entry {entry.id} has a vector and does not say which model made it")
    return {
        "id": entry.id,
        "kb_id": entry.kb_id,
        "knowledge_id": entry.knowledge_id,
        "attempt": entry.attempt,
        "kind": entry.kind,
        "chunk_id": entry.chunk_id,
        "position": entry.position,
        "heading": heading,
        "text": text,
        "digest": int.from_bytes(
            blake2b(" ".join(words).encode(), digest_size=8).digest(), "big", signed=True
        ),
        "terms": [*index_terms(heading), *words],
        "model": "" if vector is None else entry.model,
        "dimension": 0 if vector is None else len(vector),
        "unit": vector,
    }


def unit(vector: Vector) -> Vector | None:
    """Return the vector at length one, so that a product is a cosine; None for zeros, which point nowhere.

    Raises ValueError for what is no vector.
    """
    flat = np.asarray(vector, np.float32)
    if flat.ndim != 1 or not np.isfinite(flat).all():
        raise ValueError("a vector is one row of finite numbers")
    length = np.linalg.norm(flat)
    return flat / length if length else None


def token(kb_id: str) -> str:
    """Return the id of a base as one word, whatever characters it has."""
    return blake2b(kb_id.encode(), digest_size=8).hexdigest()


def rarest(counted: Iterable[tuple[str, int]]) -> list[str]:
    """Of patterns and how many entries each matches, those to be read: the rarest first, while it is affordable."""
    chosen: list[str] = []
    read = 0
    for frequency, pattern in sorted((frequency, pattern) for pattern, frequency in counted if frequency):
        read += frequency
        if chosen and read > POSTINGS:
            break
        chosen.append(pattern)
    return chosen


def candidates(rows: Iterable[Any]) -> list[Candidate]:
    """Return the rows of a ranking."""
    return [
        Candidate(row.knowledge_id, row.chunk_id, EntryKind(row.kind), row.digest, row.closeness)
        for row in rows
    ]


def wanted(ranked: Sequence[Ranked]) -> tuple[list[str], list[str]]:
    """Return the ids of the chunks to be shown, and of the documents whose summary stands for itself."""
    chunk_ids = [one.chunk_id for one in ranked if one.chunk_id is not None]
    return chunk_ids, [one.knowledge_id for one in ranked if one.chunk_id is None]


def hits(ranked: Sequence[Ranked], places: Iterable[Any], summaries: Iterable[Any], limit: int) -> list[Hit]:
    """Return what is shown, from the rows of `PLACES` and `SUMMARIES`."""
    chunks: dict[str, list[Place]] = {}
    for found, *place in places:
        chunks.setdefault(found, []).append(Place(*place))
    return passages(ranked, chunks, {row.knowledge_id: [Place(*row)] for row in summaries})[:limit]
