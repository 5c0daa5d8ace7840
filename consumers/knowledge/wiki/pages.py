"""Pages as they are stored: what documents contributed, what was written of it, and what that was before."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.reading.markdown import plain
from consumers.knowledge.search.store import EntryKind, IndexEntry, SearchStore, Vector
from consumers.knowledge.tables.knowledge import Knowledge, table_of
from consumers.knowledge.tables.wiki import (
    PageKind,
    WikiFolder,
    WikiPage,
    WikiPageSource,
    WikiPageVersion,
    WikiReading,
)
from consumers.knowledge.wiki.names import page_id
from consumers.knowledge.wiki.writing import MOST_SOURCES, Account, Contribution, Draft
from contracts.knowledge import SILENT
from pipeline.store import batches, insert_new, now_ms, upsert

VERSIONS: Final = 20
"""Versions of a page that are kept."""
FOUND: Final = 600  # characters of a page by which it is found

_contribution: Final = TypeAdapter(Contribution)
_account: Final = TypeAdapter(Account)

Said = Contribution | Account
"""What a document says to one page: to that of a topic, or to its own."""


@dataclass(frozen=True, slots=True)
class Known:
    """A page that is there, as it was when the next one was written."""

    version: int
    title: str
    written: str
    body: str
    related: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to become of a page: the `draft`, or nothing; `known` is what it was when that was written."""

    slug: str
    kind: PageKind
    folder: str
    known: Known | None
    draft: Draft | None
    body: str = ""
    method: str = ""
    vector: Vector | None = None
    model: str = ""
    generation: int = 0

    @property
    def rewritten(self) -> bool:
        """Whether it says something else than before."""
        if self.draft is None or self.known is None:
            return (self.draft is None) is not (self.known is None)
        return (self.draft.body, self.draft.title, self.draft.related) != (
            self.known.written,
            self.known.title,
            self.known.related,
        )


class Moved(Exception):  # noqa: N818 - named by what happened
    """Somebody else changed what this was made from: make it again."""


async def slugs_of(session: AsyncSession, kb_id: str, knowledge_ids: Sequence[str]) -> dict[str, set[str]]:
    """Return by document the pages it contributed to."""
    found: dict[str, set[str]] = {ident: set() for ident in knowledge_ids}
    for some in batches(knowledge_ids):
        rows = await session.execute(
            select(WikiPageSource.knowledge_id, WikiPageSource.slug).where(
                WikiPageSource.knowledge_base_id == kb_id, WikiPageSource.knowledge_id.in_(some)
            )
        )
        for knowledge_id, slug in rows:
            found[knowledge_id].add(slug)
    return found


async def said_elsewhere(
    session: AsyncSession, kb_id: str, slug: str, without: Collection[str]
) -> list[Said]:
    """Return what other documents say to a page, the weightiest first; what is silent says nothing."""
    rows = await session.execute(
        select(WikiPageSource.kind, WikiPageSource.contribution)
        .join(Knowledge, Knowledge.id == WikiPageSource.knowledge_id)
        .where(WikiPageSource.knowledge_base_id == kb_id, WikiPageSource.slug == slug)
        .where(WikiPageSource.knowledge_id.not_in(without), Knowledge.parse_status.not_in(SILENT))
        .order_by(WikiPageSource.weight.desc(), WikiPageSource.knowledge_id)
        .limit(2 * MOST_SOURCES)
    )
    return [_read(kind, contribution) for kind, contribution in rows]


async def known_pages(session: AsyncSession, kb_id: str, slugs: Iterable[str]) -> dict[str, Known]:
    """Return those of these pages that are there."""
    found: dict[str, Known] = {}
    columns = select(
        WikiPage.slug, WikiPage.version, WikiPage.title, WikiPage.written, WikiPage.body, WikiPage.related
    )
    for some in batches(list(slugs)):
        for row in await session.execute(
            columns.where(WikiPage.knowledge_base_id == kb_id, WikiPage.slug.in_(some))
        ):
            found[row.slug] = Known(row.version, row.title, row.written, row.body, tuple(row.related))
    return found


async def store_sources(
    session: AsyncSession, kb_id: str, knowledge_id: str, attempt: int, said: Mapping[str, Said]
) -> None:
    """Put what a document says in the place of what it said before."""
    await session.execute(
        delete(WikiPageSource).where(
            WikiPageSource.knowledge_base_id == kb_id, WikiPageSource.knowledge_id == knowledge_id
        )
    )
    await session.execute(delete(WikiReading).where(WikiReading.knowledge_id == knowledge_id))
    rows = [
        {
            "knowledge_base_id": kb_id,
            "slug": slug,
            "knowledge_id": knowledge_id,
            "attempt": attempt,
            **_columns(one),
        }
        for slug, one in said.items()
    ]
    await insert_new(session, table_of(WikiPageSource), rows)


async def store_pages(session: AsyncSession, index: SearchStore, kb_id: str, plans: Sequence[Plan]) -> None:
    """Carry plans out, each page exactly once. Raises Moved, to be rolled back, if a page is not what it was."""
    now = now_ms()
    for plan in sorted(plans, key=lambda plan: plan.slug):
        if plan.rewritten:
            await _store(session, index, kb_id, plan, now)
    folders = {plan.folder for plan in plans if plan.draft is not None and plan.folder}
    rows = [{"knowledge_base_id": kb_id, "path": path, "created_at": now} for path in sorted(folders)]
    await insert_new(session, table_of(WikiFolder), rows)


async def forget_versions(session: AsyncSession, kb_id: str, slugs: Collection[str]) -> None:
    """Keep of these pages only what they say now: what they said before is in the words of who may no longer speak."""
    for some in batches(sorted(slugs)):
        now = select(WikiPage.version).where(WikiPage.id == WikiPageVersion.page_id)
        await session.execute(
            delete(WikiPageVersion).where(
                WikiPageVersion.page_id.in_([page_id(kb_id, slug) for slug in some]),
                WikiPageVersion.version < now.scalar_subquery(),
            ),
            execution_options={"synchronize_session": False},
        )


async def _store(session: AsyncSession, index: SearchStore, kb_id: str, plan: Plan, now: int) -> None:
    ident, draft = page_id(kb_id, plan.slug), plan.draft
    version = plan.known.version if plan.known else 0
    if draft is None:
        gone = (
            delete(WikiPage).where(WikiPage.id == ident, WikiPage.version == version).returning(WikiPage.id)
        )
        if await session.scalar(gone) is None:
            raise Moved(plan.slug)
        await index.drop(session, ident)
        return
    values = {
        "title": draft.title,
        "folder": plan.folder,
        "lead": draft.lead,
        "written": draft.body,
        "body": plan.body,
        "related": list(draft.related),
        "language": draft.language,
        "method": plan.method,
        "version": version + 1,
        "updated_at": now,
    }
    if plan.known is None:
        row = {**values, "id": ident, "knowledge_base_id": kb_id, "slug": plan.slug, "kind": plan.kind}
        await insert_new(session, table_of(WikiPage), [{**row, "created_at": now}])
        standing = select(WikiPage.updated_at, WikiPage.version).where(WikiPage.id == ident)
        if (await session.execute(standing)).one() != (now, 1):
            raise Moved(plan.slug)
    else:
        rewritten = update(WikiPage).where(WikiPage.id == ident, WikiPage.version == version).values(values)
        if await session.scalar(rewritten.returning(WikiPage.id)) is None:
            raise Moved(plan.slug)
    past = {"title": draft.title, "written": draft.body, "method": plan.method, "created_at": now}
    await upsert(
        session,
        table_of(WikiPageVersion),
        [{"page_id": ident, "version": version + 1, **past}],
        replace=list(past),
    )
    await session.execute(
        delete(WikiPageVersion).where(
            WikiPageVersion.page_id == ident, WikiPageVersion.version <= version + 1 - VERSIONS
        )
    )
    if plan.vector is not None:
        entry = IndexEntry(
            id=ident,
            kb_id=kb_id,
            knowledge_id=ident,
            attempt=version + 1,
            kind=EntryKind.WIKI,
            text=words_of(draft),
            vector=plan.vector,
            model=plan.model,
            generation=plan.generation,
        )
        await index.put(session, [entry])


def words_of(draft: Draft) -> str:
    """The words by which a page is found: its title and what it says first."""
    lines = (plain(line) for line in draft.body.splitlines() if line and not line.startswith(("[^", "#")))
    said = " ".join(line.partition("[^")[0].strip() for line in lines)
    return f"{draft.title}. {said}"[:FOUND]


def _columns(said: Said) -> dict[str, Any]:
    if isinstance(said, Account):
        return {
            "kind": PageKind.DOCUMENT,
            "weight": 0.0,
            "contribution": _account.dump_python(said, mode="json"),
        }
    contribution = _contribution.dump_python(said, mode="json")
    return {"kind": PageKind.TOPIC, "weight": said.weight, "contribution": contribution}


def _read(kind: PageKind, contribution: Mapping[str, Any]) -> Said:
    if kind is PageKind.DOCUMENT:
        return _account.validate_python(contribution)
    return _contribution.validate_python(contribution)
