"""Generations of an index: vectors of another model are made beside those that serve, entry by entry, and take their place.

The words of an entry are the same whatever model it is embedded with, so only its vectors are there twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, RowMapping, bindparam
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.search.rows import unit
from consumers.knowledge.search.store import EntryKind, IndexEntry, Lacking, Vector

SORTS: Final[Mapping[EntryKind, int]] = {EntryKind.QUESTION: 1, EntryKind.SUMMARY: 2, EntryKind.WIKI: 3}
"""Entries are ranked among their like; all others are of sort 0."""

_COUNT: Final = sql("SELECT count(*) FROM search_vectors WHERE kb_id = :kb_id AND generation = :generation")
_LACKING: Final = sql(
    "SELECT entry.id, entry.kind, entry.chunk_id, entry.heading, entry.text, entry.digest, entry.attempt"
    " FROM search_vectors old JOIN search_entries entry ON entry.id = old.id"
    " WHERE old.kb_id = :kb_id AND old.generation = :serving AND old.id > :after AND NOT EXISTS"
    " (SELECT 1 FROM search_vectors made WHERE made.id = old.id AND made.generation = :generation)"
    " ORDER BY old.id LIMIT :limit"
)
_DROP: Final = sql(
    "DELETE FROM search_vectors WHERE (id, generation) IN (SELECT id, generation FROM search_vectors"
    " WHERE kb_id = :kb_id AND generation NOT IN :kept LIMIT :limit) RETURNING generation"
).bindparams(bindparam("kept", type_=BigInteger(), expanding=True))
_ENTRIES: Final = (
    "SELECT entry.id, entry.kb_id, entry.knowledge_id, entry.attempt, entry.kind, entry.chunk_id, entry.position,"
    " entry.heading, entry.text, made.model, {vector} AS vector FROM search_entries entry"
    " LEFT JOIN search_vectors made ON made.id = entry.id AND made.generation = :generation"
)
_READ: Final = f"{_ENTRIES} WHERE entry.kb_id = :kb_id AND entry.id > :after ORDER BY entry.id LIMIT :limit"
_OF_DOCUMENT: Final = f"{_ENTRIES} WHERE entry.knowledge_id = :knowledge_id ORDER BY entry.id"


class Generations(ABC):
    """What both indexes in SQL do with generations in the same way."""

    _add_vector: str
    """Adds the vector of an entry that is still what it was, if it has none of that generation."""
    _vector_column: str

    async def count(self, session: AsyncSession, kb_id: str, generation: int) -> int:
        """See `SearchStore`."""
        asked = {"kb_id": kb_id, "generation": generation}
        return int((await session.execute(_COUNT, asked)).scalar_one())

    async def lacking(
        self, session: AsyncSession, kb_id: str, generation: int, *, serving: int, after: str, limit: int
    ) -> list[Lacking]:
        """See `SearchStore`."""
        asked = {"kb_id": kb_id, "generation": generation, "serving": serving, "after": after, "limit": limit}
        rows = (await session.execute(_LACKING, asked)).mappings()
        return [Lacking(**{**row, "kind": EntryKind(row["kind"])}) for row in rows]

    async def add(
        self,
        session: AsyncSession,
        kb_id: str,
        generation: int,
        model: str,
        entries: Sequence[Lacking],
        vectors: Vector,
    ) -> None:
        """See `SearchStore`."""
        if entries:
            made = {"kb_id": kb_id, "generation": generation, "model": model, "dimension": vectors.shape[1]}
            pairs = sorted(zip(entries, vectors, strict=True), key=lambda pair: pair[0].id)
            rows = [
                {
                    **made,
                    "id": entry.id,
                    "digest": entry.digest,
                    "attempt": entry.attempt,
                    "sort": SORTS.get(entry.kind, 0),
                    "vector": self._written(vector if (one := unit(vector)) is None else one),
                }
                for entry, vector in pairs
            ]
            await session.execute(sql(self._add_vector), rows)
            await self._note(session, kb_id, [generation], put=True)

    async def drop_vectors(
        self, session: AsyncSession, kb_id: str, *, kept: Collection[int], limit: int
    ) -> int:
        """See `SearchStore`."""
        asked = {"kb_id": kb_id, "kept": sorted(kept), "limit": limit}
        gone = (await session.execute(_DROP, asked)).scalars().all()
        if gone:
            await self._note(session, kb_id, sorted(set(gone)), put=False)
        return len(gone)

    async def read(
        self, session: AsyncSession, kb_id: str, generation: int, *, after: str, limit: int
    ) -> list[IndexEntry]:
        """See `SearchStore`."""
        asked = {"kb_id": kb_id, "generation": generation, "after": after, "limit": limit}
        rows = (await session.execute(sql(_READ.format(vector=self._vector_column)), asked)).mappings()
        return [self._entry(row, generation) for row in rows]

    async def entries(
        self, session: AsyncSession, knowledge_id: str, *, generation: int = 0
    ) -> list[IndexEntry]:
        """See `SearchStore`."""
        asked = {"knowledge_id": knowledge_id, "generation": generation}
        query = sql(_OF_DOCUMENT.format(vector=self._vector_column))
        return [self._entry(row, generation) for row in (await session.execute(query, asked)).mappings()]

    def _entry(self, row: RowMapping, generation: int) -> IndexEntry:
        vector = None if row["vector"] is None else self._read_vector(row["vector"])
        made = {"kind": EntryKind(row["kind"]), "vector": vector, "model": row["model"] or ""}
        return IndexEntry(**{**row, **made}, generation=generation)

    @abstractmethod
    def _written(self, vector: Vector) -> Any:
        """Return a vector as this database is given it."""

    @abstractmethod
    def _read_vector(self, stored: Any) -> Vector:
        """Return a vector that this database gave."""

    @abstractmethod
    async def _note(
        self, session: AsyncSession, kb_id: str, generations: Sequence[int], *, put: bool
    ) -> None:
        """Let every cache of these generations know that there are more vectors, or fewer."""
