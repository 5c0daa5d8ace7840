"""What the HTTP service asks of whoever keeps the wikis of knowledge bases."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class WikiHome:
    """A knowledge base that has pages."""

    id: str
    name: str
    tenant_id: int
    pages: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WikiPage:
    """A page in a list. Times are milliseconds since the epoch."""

    slug: str
    title: str
    kind: str
    folder: str
    lead: str
    method: str
    version: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class WikiSource:
    """A document that a page is made from."""

    knowledge_id: str
    title: str
    source: str


@dataclass(frozen=True, slots=True)
class WikiText:
    """A page with its Markdown, whose links are `[title](wiki:slug)`, its sources, and the versions that are kept: their
    numbers and when each was written, the newest first.
    """

    page: WikiPage
    body: str
    sources: Sequence[WikiSource]
    versions: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
    """What a base is about, and of how many documents that was made. `error` says why it is not newer."""

    gist: str
    topics: Sequence[str]
    questions: Sequence[str]
    documents: int
    method: str
    error: str
    generated_at: int


class Wikis(Protocol):
    """Keeps wikis. Every method raises StoreUnavailable; a base of another tenant is as one that is not there."""

    async def bases(self, tenant_id: int | None = None) -> Sequence[WikiHome]:
        """Return the bases that have pages, of one tenant or of all."""

    async def base(self, base_id: str, tenant_id: int | None = None) -> WikiHome | None:
        """Return a base, whether it has pages or not."""

    async def portrait(self, base_id: str) -> Portrait | None:
        """Return what a base is about, if that was written."""

    async def pages(self, base_id: str, after: str = "", limit: int | None = None) -> Sequence[WikiPage]:
        """Return the pages of a base by slug, those behind `after`."""

    async def page(self, base_id: str, slug: str, version: int | None = None) -> WikiText | None:
        """Return a page, or what an older version of it said."""

    async def about(self, document_id: str) -> Sequence[tuple[str, str, str]]:
        """Return base, slug and title of the pages that a document contributed to, its own first."""
