"""Pages as people read them: listed, shown with their sources and versions, and exported as files."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Final

from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.tables.wiki import PageKind, WikiPage, WikiPageSource, WikiPageVersion
from consumers.knowledge.wiki.linking import links_in, mapped
from consumers.knowledge.wiki.names import INDEX
from contracts.knowledge import SILENT

CITED: Final = 5
"""Sources that are named where a page is cited."""
MADE_BY: Final = "generator: streamlane wiki"
"""A line of each exported file, by which a later export knows it for its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A page in a list. Times are milliseconds since the epoch."""

    slug: str
    title: str
    kind: PageKind
    folder: str
    lead: str
    language: str | None
    method: str
    version: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Source:
    """A document that a page is made from."""

    knowledge_id: str
    title: str
    source: str


@dataclass(frozen=True, slots=True)
class Version:
    """When a page was written anew."""

    number: int
    created_at: int


@dataclass(frozen=True, slots=True)
class Shown:
    """A page: its Markdown has links of the form `[title](wiki:slug)`. An older version has none but to its sources."""

    page: Listed
    body: str
    sources: tuple[Source, ...]
    versions: tuple[Version, ...]


async def pages_of(
    session: AsyncSession, kb_id: str, after: str = "", limit: int | None = None
) -> list[Listed]:
    """Return the pages of a base by slug, those behind `after`."""
    wanted = _LISTED.where(WikiPage.knowledge_base_id == kb_id, WikiPage.slug > after).order_by(WikiPage.slug)
    rows = await session.execute(wanted if limit is None else wanted.limit(limit))
    return [Listed(**row._mapping) for row in rows]  # noqa: SLF001 - SQLAlchemy's public name


async def shown_page(
    session: AsyncSession, kb_id: str, slug: str, version: int | None = None
) -> Shown | None:
    """Return a page, as it is or as an older version said it; None where there is none."""
    here = WikiPage.knowledge_base_id == kb_id, WikiPage.slug == slug
    page = (await session.scalars(select(WikiPage).where(*here))).one_or_none()
    if page is None:
        return None
    kept = select(WikiPageVersion).where(WikiPageVersion.page_id == page.id)
    versions = (await session.scalars(kept.order_by(WikiPageVersion.version.desc()))).all()
    body = page.body
    if version not in {None, page.version}:
        older = next((one for one in versions if one.version == version), None)
        if older is None:
            return None
        body = older.written
    row = {name: getattr(page, name) for name in Listed.__dataclass_fields__}
    numbers = tuple(Version(one.version, one.created_at) for one in versions)
    return Shown(Listed(**row), body, tuple(await sources_of_page(session, kb_id, slug)), numbers)


async def sources_of_page(session: AsyncSession, kb_id: str, slug: str) -> list[Source]:
    """Return the documents that a page is made from, the weightiest first."""
    rows = await session.execute(
        select(Knowledge.id, Knowledge.title, Knowledge.source)
        .join(WikiPageSource, WikiPageSource.knowledge_id == Knowledge.id)
        .where(WikiPageSource.knowledge_base_id == kb_id, WikiPageSource.slug == slug)
        .where(Knowledge.parse_status.not_in(SILENT))
        .order_by(WikiPageSource.weight.desc(), Knowledge.source)
    )
    return [Source(*row) for row in rows]


@dataclass(frozen=True, slots=True)
class PageFound:
    """A page that is to be cited; `path` names it, and the files it is made from."""

    path: str
    slug: str
    title: str


async def pages_found(session: AsyncSession, page_ids: Sequence[str]) -> dict[str, PageFound]:
    """Return by id what to cite these pages as."""
    found: dict[str, PageFound] = {}
    for page in await session.scalars(select(WikiPage).where(WikiPage.id.in_(page_ids))):
        sources = await sources_of_page(session, page.knowledge_base_id, page.slug)
        names = [PurePosixPath(one.source).name or one.source for one in sources[:CITED]]
        more = [f"and {len(sources) - CITED} more"] if len(sources) > CITED else []
        path = f"wiki {page.slug}, made from {', '.join([*names, *more])}"
        found[page.id] = PageFound(path, page.slug, page.title)
    return found


async def pages_about(session: AsyncSession, knowledge_id: str) -> list[tuple[str, str, str]]:
    """Return base, slug and title of the pages that a document contributed to, its own first."""
    rows = await session.execute(
        select(WikiPage.knowledge_base_id, WikiPage.slug, WikiPage.title, WikiPage.kind)
        .join(
            WikiPageSource,
            (WikiPageSource.knowledge_base_id == WikiPage.knowledge_base_id)
            & (WikiPageSource.slug == WikiPage.slug),
        )
        .where(WikiPageSource.knowledge_id == knowledge_id)
        .order_by(WikiPage.kind != PageKind.DOCUMENT, WikiPageSource.weight.desc(), WikiPage.slug)
    )
    return [(kb_id, slug, title) for kb_id, slug, title, _ in rows]


async def wikis(session: AsyncSession, tenant_id: int | None = None) -> list[tuple[KnowledgeBase, int]]:
    """Return the bases that have pages, and how many."""
    counted: Select[KnowledgeBase, int] = (
        select(KnowledgeBase, func.count())
        .join(WikiPage, WikiPage.knowledge_base_id == KnowledgeBase.id)
        .where(KnowledgeBase.deleted_at.is_(None))
        .group_by(KnowledgeBase.id)
        .order_by(KnowledgeBase.name)
    )
    if tenant_id is not None:
        counted = counted.where(KnowledgeBase.tenant_id == tenant_id)
    return [(row[0], row[1]) for row in await session.execute(counted)]


async def exported(session: AsyncSession, kb_id: str) -> dict[str, str]:
    """Return all pages of a base as Markdown files with front matter, by path. The same pages give the same bytes."""
    pages = (await session.scalars(select(WikiPage).where(WikiPage.knowledge_base_id == kb_id))).all()
    sources: dict[str, list[str]] = {}
    rows = await session.execute(
        select(WikiPageSource.slug, Knowledge.file_name)
        .join(Knowledge, Knowledge.id == WikiPageSource.knowledge_id)
        .where(WikiPageSource.knowledge_base_id == kb_id, Knowledge.parse_status.not_in(SILENT))
        .order_by(WikiPageSource.weight.desc(), Knowledge.source)
    )
    for slug, name in rows:
        sources.setdefault(slug, []).append(name)
    paths = {page.slug: path_of(page.slug, page.folder) for page in pages}
    return {
        paths[page.slug]: _front(page, sources.get(page.slug, ())) + mapped(page.body, _from(paths, page))
        for page in pages
    }


def path_of(slug: str, folder: str) -> str:
    """The path of an exported page."""
    return str(PurePosixPath(folder, f"{slug}.md")) if slug != INDEX else f"{INDEX}.md"


def _from(paths: Mapping[str, str], page: WikiPage) -> dict[str, str]:
    """Where the pages lie that a page links to, seen from it."""
    here = PurePosixPath(paths[page.slug]).parent
    linked = {slug: paths[slug] for slug in links_in(page.body) if slug in paths}
    relative = {slug: os.path.relpath(path, here) for slug, path in linked.items()}
    return {slug: re.sub(r"[\s()<>%]", _percent, path) for slug, path in relative.items()}


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def _front(page: WikiPage, sources: Iterable[str]) -> str:
    when = datetime.fromtimestamp(page.updated_at / 1000, UTC).isoformat(timespec="seconds")
    lines = [
        f"title: {_quoted(page.title)}",
        f"kind: {page.kind.value}",
        f"method: {page.method}",
        f"version: {page.version}",
        f"updated: {when}",
        *_sequence("sources", sources),
        MADE_BY,
    ]
    return "---\n" + "\n".join(lines) + "\n---\n\n"


def _sequence(name: str, values: Iterable[str]) -> Sequence[str]:
    items = [f"  - {_quoted(value)}" for value in values]
    return [f"{name}:", *items] if items else []


def _quoted(text: str) -> str:
    """A YAML scalar: in double quotes everything may stand."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


_LISTED: Final = select(
    WikiPage.slug,
    WikiPage.title,
    WikiPage.kind,
    WikiPage.folder,
    WikiPage.lead,
    WikiPage.language,
    WikiPage.method,
    WikiPage.version,
    WikiPage.updated_at,
)
