"""What the dashboard asks of whoever keeps documents."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from contracts.knowledge import DocumentEffect, DocumentVerb


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """One document. Times are milliseconds, `size` bytes; `kind` is how it came in, `type` that of its file; `stall` is queued,
    stalled or nothing (facts 7.6).
    """

    id: str
    name: str
    source: str
    base: str
    base_id: str
    tenant_id: int
    status: str
    attempt: int
    size: int
    created_at: int
    moved_at: int
    kind: str = ""
    type: str = ""
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
    """One parse of a document, and what was made of it: tags with how sure they are, and how many questions it answers."""

    document: DocumentRow
    attempt: int
    attempts: int
    parts: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = ()
    chunks: int = 0
    questions: int = 0
    tags: tuple[tuple[str, float], ...] = ()
    summary: str = ""
    summary_status: str = ""
    summary_method: str = ""
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which documents to list; empty means any. `cursor` is the `next_cursor` of the page before. `counted`: how many there
    are of each status is wanted too, which means to count them all.
    """

    status: str = ""
    name: str = ""
    tenant_id: int | None = None
    cursor: str = ""
    base_id: str = ""
    counted: bool = False


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """Some documents, those that moved last first, and, if it was wanted, how many there are of each status, whosever."""

    rows: tuple[DocumentRow, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Deed:
    """What is to be done to documents, by whom: a person or program, in a role. `tenant_id` None: to those of all tenants. A
    parse that is `fresh` uses nothing that earlier ones found out.
    """

    verb: DocumentVerb
    who: str = ""
    role: str = ""
    tenant_id: int | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one document. `status` and `attempt` are those it had before; unless `delivered`, its jobs are told
    once the queue is there again.
    """

    id: str
    effect: DocumentEffect
    status: str = ""
    attempt: int = 0
    delivered: bool = True

    @property
    def ok(self) -> bool:
        """Whether the document is as it was asked for."""
        return self.effect in {DocumentEffect.DONE, DocumentEffect.ALREADY}


class Documents(Protocol):
    """Keeps documents."""

    async def page(self, wanted: Wanted, limit: int) -> DocumentPage:
        """Return some documents. Raises StoreUnavailable, CursorInvalid."""

    async def names(self, ids: Collection[str]) -> Mapping[str, str]:
        """Return by id what the files of these documents are called; what is no document is absent. Raises StoreUnavailable."""

    async def story(self, document_id: str, attempt: int | None = None) -> Story | None:
        """Return a parse of a document, the latest unless told; None where there is no such document."""

    async def spans(
        self, document_id: str, tenant_id: int | None = None, attempt: int | None = None
    ) -> object | None:
        """Return the tree of a parse, the latest unless told, as `answers_knowledge.Spans` reads it; None where there is no
        such document or parse.
        """

    async def act(self, deed: Deed, ids: Sequence[str]) -> list[Done]:
        """Do something to each of these documents. Raises StoreUnavailable, ConfigurationError (not from this process)."""
