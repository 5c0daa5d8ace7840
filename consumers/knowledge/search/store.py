"""The port of a search index: what is put in, what comes out, and what every implementation promises."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncSession

Vector = NDArray[np.float32]


class EntryKind(StrEnum):
    """What the text of an entry is."""

    TEXT = "text"  # a chunk of the document's own words
    OCR = "ocr"  # words read from a picture
    CAPTION = "caption"  # what a picture shows
    SUMMARY = "summary"  # stands for the whole document
    QUESTION = "question"  # stands for the chunk that answers it
    WIKI = "wiki"  # a page of the wiki; its `knowledge_id` is the id of the page
    TABLE = "table"  # what a table holds: its columns, their types and ranges
    FAQ = "faq"  # a form of a question, with the answers; its `knowledge_id` is the id of the entry


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One searchable text. `id` is derived by the caller: putting it again replaces it.

    Questions and summaries are found by their vectors only: their words are those of the text they stand for, and
    so short that they would crowd it out.
    """

    id: str
    kb_id: str
    knowledge_id: str
    attempt: int
    kind: EntryKind
    text: str
    chunk_id: str | None = None  # None: the entry stands for the document
    position: int = 0  # of the chunk within its document and kind
    heading: str = ""  # the headings above the chunk, outermost first
    vector: Vector | None = None  # of any length; None: found by words only
    model: str = ""  # that made the vector; required with one
    generation: int = 0  # of the index that the vector belongs to: see `sides`


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """An entry that has no vector of some generation yet; `digest` and `attempt` tell whether it still says the same."""

    id: str
    kind: EntryKind
    chunk_id: str | None
    heading: str
    text: str
    digest: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One passage that was found. `score` is within 0..1 and falls along the list; it ranks, and says nothing of how
    well the passage fits. `closeness` is its cosine to the query, 0 where it is only known to be lower than others.
    """

    knowledge_id: str
    kb_id: str
    chunk_id: str | None  # None: only the summary of the document matched
    text: str
    heading: str
    position: int
    score: float
    kinds: tuple[EntryKind, ...]  # of all entries that led here, best first
    closeness: float = 0.0


class SearchStore(Protocol):
    """An index of entries. Writing happens in the caller's transaction, so nothing is ever half indexed."""

    async def put(self, session: AsyncSession, entries: Sequence[IndexEntry]) -> None:
        """Add entries, replacing those of the same id with their vectors of whatever generation."""

    async def drop(
        self,
        session: AsyncSession,
        knowledge_id: str,
        *,
        before_attempt: int | None = None,
        kinds: Collection[EntryKind] | None = None,
    ) -> int:
        """Remove the entries of a document, all or only of older attempts or some kinds. Says how many."""

    async def drop_chunks(self, session: AsyncSession, chunk_ids: Sequence[str]) -> int:
        """Remove the entries of some chunks, those of their questions too. Says how many."""

    async def drop_base(self, session: AsyncSession, kb_id: str, *, limit: int | None = None) -> int:
        """Remove the entries of a knowledge base, every one or at most so many. Says how many; after none, nothing of the base
        is left here.
        """

    async def entries(
        self, session: AsyncSession, knowledge_id: str, *, generation: int = 0
    ) -> list[IndexEntry]:
        """All entries of a document, by id, with their vectors of this generation."""

    async def count(self, session: AsyncSession, kb_id: str, generation: int) -> int:
        """How many vectors a generation of a base has."""

    async def lacking(
        self, session: AsyncSession, kb_id: str, generation: int, *, serving: int, after: str, limit: int
    ) -> list[Lacking]:
        """Entries by ascending id, those behind `after`, that have a vector of generation `serving` and none of this one."""

    async def add(
        self,
        session: AsyncSession,
        kb_id: str,
        generation: int,
        model: str,
        entries: Sequence[Lacking],
        vectors: Vector,
    ) -> None:
        """Add vectors, a row an entry, of a generation; those of entries that say something else by now are left out."""

    async def drop_vectors(
        self, session: AsyncSession, kb_id: str, *, kept: Collection[int], limit: int
    ) -> int:
        """Remove at most so many vectors of a base that are of none of the `kept` generations. Says how many."""

    async def read(
        self, session: AsyncSession, kb_id: str, generation: int, *, after: str, limit: int
    ) -> list[IndexEntry]:
        """Entries by ascending id, those behind `after`, with their vectors of this generation."""

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
        """The best passages of some bases for any text whatever, at most 100; none for a text without a word.

        Only vectors of the same model, length and generation are compared; without one, words decide.
        """

    async def close(self) -> None:
        """Let go of what searching holds. Nothing may be searched afterwards."""
