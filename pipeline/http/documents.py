"""What the dashboard asks of whoever keeps documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """One document. Times are milliseconds, `size` bytes; `stall` is queued, stalled or nothing (facts 7.6)."""

    id: str
    name: str
    source: str
    base: str
    tenant_id: int
    status: str
    attempt: int
    size: int
    created_at: int
    moved_at: int
    stage: str = ""
    stall: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One span of a parse; `depth` says how far inside another one. None: it has not started, or not ended."""

    name: str
    status: str
    depth: int = 0
    started_at: int | None = None
    finished_at: int | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """One parse of a document."""

    document: DocumentRow
    attempt: int
    attempts: int
    parts: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = ()
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which documents to list; empty means any. `cursor` is the `next_cursor` of the page before."""

    status: str = ""
    name: str = ""
    tenant_id: int | None = None
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Some documents, those that moved last first, and how many there are of each status."""

    rows: tuple[DocumentRow, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    next_cursor: str | None = None


class Documents(Protocol):
    """Keeps documents."""

    async def page(self, wanted: Wanted, limit: int) -> DocumentPage:
        """Return some documents. Raises StoreUnavailable, CursorInvalid."""

    async def story(self, document_id: str, attempt: int | None = None) -> Story | None:
        """Return a parse of a document, the latest unless told; None where there is no such document."""
