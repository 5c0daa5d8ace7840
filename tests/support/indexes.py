"""A real index on a migrated database, and entries of few words."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from consumers.knowledge.search.store import EntryKind, Hit, IndexEntry, SearchStore, Vector
from consumers.services import search_of
from pipeline.store.engine import Database
from sqlalchemy import URL

MODEL = "test-model"


@dataclass(frozen=True)
class Index:
    """An index and the database it lies in. Every write is a transaction of its own."""

    database: Database
    store: SearchStore

    async def put(self, *entries: IndexEntry) -> None:
        async with self.database.transaction() as session:
            await self.store.put(session, entries)

    async def drop(self, knowledge_id: str, **which: Any) -> int:
        async with self.database.transaction() as session:
            return await self.store.drop(session, knowledge_id, **which)

    async def search(
        self,
        text: str,
        at: Vector | None = None,
        *,
        kb: str | Sequence[str] = "kb",
        model: str = MODEL,
        limit: int = 10,
    ) -> list[Hit]:
        return await self.store.search(
            [kb] if isinstance(kb, str) else kb, text, at, model=model, limit=limit
        )

    async def found(self, text: str, at: Vector | None = None, **how: Any) -> list[str | None]:
        return [hit.chunk_id for hit in await self.search(text, at, **how)]


@asynccontextmanager
async def open_index(url: str | URL, store: SearchStore | None = None) -> AsyncIterator[Index]:
    """The index of a migrated database, or `store`."""
    database = Database.open(url)
    index = Index(database, store or search_of(database))
    yield index
    await index.store.close()
    await database.close()


def entry(chunk: str, text: str = "", at: Vector | None = None, **fields: Any) -> IndexEntry:
    """The text of chunk `chunk`, of the document named before its slash."""
    defaults = {
        "id": chunk,
        "kb_id": "kb",
        "knowledge_id": chunk.partition("/")[0],
        "attempt": 1,
        "kind": EntryKind.TEXT,
        "chunk_id": chunk,
        "model": MODEL if at is not None else "",
    }
    return IndexEntry(text=text, vector=at, **{**defaults, **fields})


def direction(degrees: float, dimension: int = 4) -> Vector:
    """A vector at an angle to the first axis: the smaller the difference, the closer."""
    vector = np.zeros(dimension, np.float32)
    vector[0], vector[1] = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return vector
