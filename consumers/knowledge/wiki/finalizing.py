"""The end of a burst of changes: the index is made anew, pages get their links, empty folders go.

All of it is made from the pages as they are, so doing it twice, or only half and then again, comes to the same. What
changes meanwhile asks for another run, which follows.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.wiki_lane import FORGET, PRUNE, finalize_lane, finalize_soon, ingest_lane
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.wiki import PageKind, WikiFolder, WikiPage
from consumers.knowledge.wiki.linking import Target, Titles, linked, links_in
from consumers.knowledge.wiki.names import INDEX
from consumers.knowledge.wiki.pages import Moved, Plan, forget_versions, known_pages, store_pages
from consumers.knowledge.wiki.writing import Draft, Entry, compose_index
from consumers.services import Services
from contracts.knowledge import EXTRACTIVE
from contracts.payloads.wiki import WikiFinalize
from pipeline import Context
from pipeline.store.pending_ops import PendingOp, claim_batch, count, delete_ops, release

MOST_ROWS: Final = 5000
"""Changes that one run follows."""
CLAIMED: Final = 1000
PAGES: Final = 200
"""Pages that are looked through at once."""
PRUNE_S: Final = 60.0
"""When folders are looked at again, as long as something waits to be written."""
LINKS_OF_DOCUMENTS: Final = 3
"""Words of a document's title from which on it is looked for in other pages."""


@dataclass(slots=True)
class Ending:
    """One run for a base. `owner` is the token of its claims."""

    ctx: Context[Services]
    job: WikiFinalize
    owner: str
    stale_before: int

    async def work(self) -> None:
        """Follow what has changed. Raises StoreUnavailable."""
        ops = await self._claim()
        if not ops:
            return
        changed = {op.dedup_key for op in ops if op.op not in {PRUNE, FORGET}}
        forget, relinked = any(op.op == FORGET for op in ops), 0
        if changed or forget:
            await self._write_index(forget=forget)
        if changed:
            relinked = await self._link(changed)
        await self._settle(ops)
        self.ctx.log.info("wiki finished", changes=len(changed), relinked=relinked)

    async def _claim(self) -> list[PendingOp]:
        lane, ops = finalize_lane(self.job.knowledge_base_id), list[PendingOp]()
        while len(ops) < MOST_ROWS:
            async with self.ctx.services.database.transaction() as session:
                some = await claim_batch(
                    session, lane, CLAIMED, owner=self.owner, stale_before=self.stale_before
                )
            if not some:
                break
            ops += some
        return ops

    async def _write_index(self, *, forget: bool) -> None:
        services, kb_id = self.ctx.services, self.job.knowledge_base_id
        for _ in range(PAGES):
            async with services.database.read() as session:
                base = await session.get_one(KnowledgeBase, kb_id)
                known = (await known_pages(session, kb_id, [INDEX])).get(INDEX)
                entries = await _entries(session, kb_id)
            draft: Draft | None = (
                await asyncio.to_thread(compose_index, base.name, entries) if entries else None
            )
            body = draft.body if draft else ""
            plan = Plan(
                slug=INDEX,
                kind=PageKind.INDEX,
                folder="",
                known=known,
                draft=draft,
                body=body,
                method=EXTRACTIVE,
            )
            try:
                async with services.database.transaction() as session:
                    await store_pages(session, services.search, kb_id, [plan])
                    if forget:
                        await forget_versions(session, kb_id, [INDEX])
            except Moved:
                continue
            return

    async def _link(self, changed: set[str]) -> int:
        """Link every page that names one of the changed ones, or linked to one."""
        services, kb_id, relinked = self.ctx.services, self.job.knowledge_base_id, 0
        async with services.database.read() as session:
            targets = await _targets(session, kb_id)
        titles = Titles(targets)
        sought = Titles(target for target in targets if target.slug in changed)
        async for pages in self._pages():
            bodies = await asyncio.to_thread(_relinked, pages, titles, sought, changed)
            for page in pages:
                if page.slug in bodies:
                    relinked += await self._put(page, bodies[page.slug])
        return relinked

    async def _pages(self) -> AsyncIterator[Sequence[WikiPage]]:
        after = ""
        while True:
            async with self.ctx.services.database.read() as session:
                found = select(WikiPage).where(
                    WikiPage.knowledge_base_id == self.job.knowledge_base_id,
                    WikiPage.slug > after,
                    WikiPage.kind != PageKind.INDEX,
                )
                pages = (await session.scalars(found.order_by(WikiPage.slug).limit(PAGES))).all()
            if not pages:
                return
            yield pages
            after = pages[-1].slug
            await self.ctx.progress(0, 0, f"linking {after}")

    async def _put(self, page: WikiPage, body: str) -> bool:
        """Store a body; not if its page was written again meanwhile, which will be finished in its turn."""
        async with self.ctx.services.database.transaction() as session:
            same = WikiPage.id == page.id, WikiPage.version == page.version
            done = update(WikiPage).where(*same).values(body=body).returning(WikiPage.id)
            return await session.scalar(done) is not None

    async def _settle(self, ops: Sequence[PendingOp]) -> None:
        """Say that it is done, unless folders have to wait for what is still being written."""
        services, kb_id = self.ctx.services, self.job.knowledge_base_id
        async with services.outbox.transaction(self.ctx.job) as session:
            writing = await count(session, ingest_lane(kb_id))
            waiting = [op.id for op in ops if op.op == PRUNE] if writing else []
            if not writing:
                await _prune(session, kb_id)
            await delete_ops(session, [op.id for op in ops if op.id not in set(waiting)], owner=self.owner)
            await release(session, waiting, owner=self.owner)
            left = await count(session, finalize_lane(kb_id))
            if left:
                await finalize_soon(session, self.job, delay=PRUNE_S if left == len(waiting) else 0)


async def _entries(session: AsyncSession, kb_id: str) -> list[Entry]:
    columns = select(
        WikiPage.slug, WikiPage.title, WikiPage.kind, WikiPage.folder, WikiPage.lead, WikiPage.language
    )
    there = columns.where(WikiPage.knowledge_base_id == kb_id, WikiPage.kind != PageKind.INDEX)
    return [
        Entry(
            row.slug, row.title, row.folder if row.kind is PageKind.DOCUMENT else None, row.lead, row.language
        )
        for row in await session.execute(there)
    ]


async def _targets(session: AsyncSession, kb_id: str) -> list[Target]:
    columns = select(WikiPage.slug, WikiPage.title, WikiPage.kind).where(WikiPage.knowledge_base_id == kb_id)
    rows = await session.execute(columns.where(WikiPage.kind != PageKind.INDEX))
    return [
        Target(slug, title, kind is PageKind.TOPIC or len(title.split()) >= LINKS_OF_DOCUMENTS)
        for slug, title, kind in rows
    ]


def _relinked(
    pages: Sequence[WikiPage], titles: Titles, sought: Titles, changed: set[str]
) -> Mapping[str, str]:
    """The bodies of those pages that change: pure."""
    bodies: dict[str, str] = {}
    for page in pages:
        touched = (
            page.slug in changed
            or not changed.isdisjoint(page.related)
            or not changed.isdisjoint(links_in(page.body))
            or not changed.isdisjoint(links_in(page.written))
            or next(sought.mentions(page.written), None) is not None
        )
        if touched:
            heading = "topics" if page.kind is PageKind.DOCUMENT else "see_also"
            body = linked(
                page.written,
                titles,
                own=page.slug,
                related=page.related,
                heading=heading,
                language=page.language,
            )
            if body != page.body:
                bodies[page.slug] = body
    return bodies


async def _prune(session: AsyncSession, kb_id: str) -> None:
    """Remove the folders in which no page lies."""
    used = exists().where(
        WikiPage.knowledge_base_id == WikiFolder.knowledge_base_id, WikiPage.folder == WikiFolder.path
    )
    await session.execute(
        delete(WikiFolder).where(WikiFolder.knowledge_base_id == kb_id, ~used),
        execution_options={"synchronize_session": False},
    )
