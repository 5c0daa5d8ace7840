"""Tables of the wiki: the pages of a base, what each was at which time, and what each document contributed to it."""

from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Name, OfBase, OfDocument, Row, words

Slug = String(255)


class PageKind(StrEnum):
    """What a page is about."""

    DOCUMENT = "document"
    TOPIC = "topic"
    INDEX = "index"


class WikiPage(Row):
    """A page. `written` is what was written, `body` the same with links; a `version` counts what was written."""

    __tablename__ = "wiki_pages"
    __table_args__ = (UniqueConstraint("knowledge_base_id", "slug", name="wiki_pages_slug"),)

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_base_id: Mapped[OfBase]
    slug: Mapped[str] = mapped_column(Slug)
    title: Mapped[str]
    kind: Mapped[PageKind] = mapped_column(words(PageKind))
    folder: Mapped[Name]
    lead: Mapped[str]
    written: Mapped[str]
    body: Mapped[str]
    related: Mapped[list[str]]
    language: Mapped[str | None] = mapped_column(String(16))
    method: Mapped[str] = mapped_column(String(32))
    version: Mapped[int]
    created_at: Mapped[int]
    updated_at: Mapped[int]


class WikiPageVersion(Row):
    """What a page said at one time; of many the newest are kept."""

    __tablename__ = "wiki_page_versions"

    page_id: Mapped[Id] = mapped_column(ForeignKey("wiki_pages.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    written: Mapped[str]
    method: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[int]


class WikiPageSource(Row):
    """What an attempt at a document contributed to a page, which need not be there: one passing mention makes none.

    It outlives its document, for it says which pages have to be written again without it.
    """

    __tablename__ = "wiki_page_sources"
    __table_args__ = (
        Index("wiki_page_sources_page", "knowledge_base_id", "slug", "weight"),
        Index("wiki_page_sources_document", "knowledge_base_id", "knowledge_id"),
    )

    knowledge_base_id: Mapped[OfBase] = mapped_column(primary_key=True)
    slug: Mapped[str] = mapped_column(Slug, primary_key=True)
    knowledge_id: Mapped[Id] = mapped_column(primary_key=True)
    attempt: Mapped[int]
    kind: Mapped[PageKind] = mapped_column(words(PageKind))
    weight: Mapped[float]
    contribution: Mapped[dict[str, Any]]


class WikiReading(Row):
    """What was read out of a part of a long document, until its pages are written."""

    __tablename__ = "wiki_readings"

    knowledge_id: Mapped[OfDocument] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    part: Mapped[int] = mapped_column(primary_key=True)
    reading: Mapped[dict[str, Any]]


class WikiFolder(Row):
    """A folder that pages lie in. One that became empty is pruned once nothing waits to be written."""

    __tablename__ = "wiki_folders"

    knowledge_base_id: Mapped[OfBase] = mapped_column(primary_key=True)
    path: Mapped[Name] = mapped_column(primary_key=True)
    created_at: Mapped[int]
