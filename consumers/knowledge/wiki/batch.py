"""One batch of a wiki: documents claimed, read, written into their pages, and settled in one transaction.

Until that transaction nothing is changed but claims and the kept readings of long documents, so a batch may be killed
anywhere and done again. Pages are written from what was read before; if anything of that has moved when it is to be
stored, it is made again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.bases.pending import base_lives
from consumers.knowledge.bases.settings import WikiLimits
from consumers.knowledge.bases.wiki_lane import (
    ADDED,
    FAILED_S,
    FOLLOW_UP_S,
    MAX_FAILS,
    REMOVED,
    ingest_lane,
    note_changes,
    trigger_place,
)
from consumers.knowledge.documents.slots import finish_slot
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.search.sides import Side, held
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.knowledge.tables.wiki import PageKind
from consumers.knowledge.wiki.linking import Target, Titles, linked, links_in
from consumers.knowledge.wiki.mapping import Due, Mapped, Verdict, map_document
from consumers.knowledge.wiki.names import TOPICS
from consumers.knowledge.wiki.pages import (
    Known,
    Moved,
    Plan,
    Said,
    forget_versions,
    known_pages,
    said_elsewhere,
    slugs_of,
    store_pages,
    store_sources,
    words_of,
)
from consumers.knowledge.wiki.writing import Account, Contribution, Draft, Writer
from consumers.services import Services
from contracts.identity import derive_id
from contracts.knowledge import Stage
from contracts.payloads.wiki import WikiIngest
from pipeline import Context, Retry
from pipeline.errors import Outage
from pipeline.store import dead_letters
from pipeline.store.pending_ops import delete_lane, delete_ops, fail, pressure, release

SLUG_TTL_S: Final = 30.0
SLUG_WAIT_S: Final = 120.0
SLUG_POLL_S: Final = 0.05
ROUNDS: Final = 50
"""How often a batch is made again because others changed what it was made from."""

T = TypeVar("T")
R = TypeVar("R")


class _KilledReaders(Exception):  # noqa: N818 - named by what happened
    """Too many batches that held a document died."""


@dataclass(slots=True)
class Batch:
    """Some claimed documents of a base. `owner` is the token of their claim."""

    ctx: Context[Services]
    job: WikiIngest
    writer: Writer
    limits: WikiLimits
    owner: str
    stale_before: int
    due: list[Due]
    mapped: dict[str, Mapped] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    """Documents whose pages somebody else holds: they are given back."""
    side: Side | None = None
    """The index that the pages were embedded for."""

    @property
    def kb_id(self) -> str:
        """The base."""
        return self.job.knowledge_base_id

    async def work(self) -> None:
        """Do all of it. Raises Outage."""
        await self._read(self.due)
        for _ in range(ROUNDS):
            async with AsyncExitStack() as held:
                pages = await self._hold(held)
                plans = await self._write(pages)
                try:
                    await self._settle(plans)
                except Moved as moved:
                    what = str(moved)
                    self.ctx.log.info("what a batch was made from has moved", what=what)
                else:
                    return
            await self._read(one for one in self.due if one.knowledge_id == what)
        raise Retry(reason="others change the same pages all the time")

    async def _read(self, due: Iterable[Due]) -> None:
        """Map documents; one that cannot be read fails alone."""
        services = self.ctx.services

        async def read(one: Due) -> None:
            try:
                if one.fails > MAX_FAILS:
                    raise _KilledReaders
                mapped = await map_document(services.database, services.embedder, one)
            except Outage:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a document does to its reader
                self._give_up(one.knowledge_id, error)
            else:
                self.mapped[one.knowledge_id] = mapped

        wanted = [one for one in due if one.knowledge_id not in self.failed]
        await _several(wanted, read, self.limits.ingest_map_parallel)

    async def _hold(self, held: AsyncExitStack) -> dict[str, set[str]]:
        """Lock the pages that this batch touches, and return who touches each.

        They are taken in one order by everybody, so nobody waits for one who waits for him.
        """
        async with self.ctx.services.database.read() as session:
            before = await slugs_of(session, self.kb_id, list(self.mapped))
        pages: defaultdict[str, set[str]] = defaultdict(set)
        for knowledge_id, one in self._speaking().items():
            for slug in before[knowledge_id] | set(one.said):
                pages[slug].add(knowledge_id)
        for slug in sorted(pages):
            if pages[slug] - self.waiting and not await self._take(held, slug):
                self.waiting |= pages[slug]
        return {slug: who - self.waiting for slug, who in pages.items() if who - self.waiting}

    async def _take(self, held: AsyncExitStack, slug: str) -> bool:
        """Lock a page, within two minutes; False if it is still taken."""
        name = f"wiki:slug:{self.kb_id}:{derive_id(slug)}"
        for _ in range(round(SLUG_WAIT_S / SLUG_POLL_S)):
            try:
                await held.enter_async_context(self.ctx.lock(name, SLUG_TTL_S))
            except Retry:
                await asyncio.sleep(SLUG_POLL_S)
            else:
                return True
        return False

    async def _write(self, pages: Mapping[str, set[str]]) -> list[Plan]:
        """Write the pages; one that cannot be written fails the documents that touch it."""
        async with self.ctx.services.database.read() as session:
            known = await known_pages(session, self.kb_id, pages)
        plans: list[Plan] = []

        async def write(slug: str) -> None:
            try:
                plans.append(await self._plan(slug, known.get(slug), pages[slug]))
            except Outage:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                for knowledge_id in await self._guilty(slug, pages[slug]):
                    self._give_up(knowledge_id, error)

        await _several(pages, write, self.limits.ingest_reduce_parallel)
        if any(
            self.failed.keys() & who for who in pages.values()
        ):  # what they say elsewhere does not count either
            left = {slug: who - self.failed.keys() for slug, who in pages.items()}
            return await self._write({slug: who for slug, who in left.items() if who})
        return await self._placed(plans)

    async def _guilty(self, slug: str, who: set[str]) -> set[str]:
        """Which of the documents that touch a page keep it from being written; all, if none does so alone."""
        guilty = set()
        for knowledge_id in who if len(who) > 1 else ():
            try:
                await self._plan(slug, None, {knowledge_id})
            except Outage:
                raise
            except Exception:  # noqa: BLE001 - as above
                guilty.add(knowledge_id)
        return guilty or who

    async def _plan(self, slug: str, known: Known | None, who: set[str]) -> Plan:
        speaking = self._speaking()
        async with self.ctx.services.database.read() as session:
            said: list[Said] = await said_elsewhere(session, self.kb_id, slug, list(speaking))
        ours = [one for ident in sorted(who) if (one := speaking.get(ident)) and slug in one.said]
        said += [one.said[slug] for one in ours]
        accounts = [one for one in said if isinstance(one, Account)]
        if accounts:
            draft: Draft | None = await self.writer.document(accounts[0])
            return Plan(slug=slug, kind=PageKind.DOCUMENT, folder=ours[0].folder, known=known, draft=draft)
        topic = [one for one in said if isinstance(one, Contribution)]
        draft = await self.writer.topic(topic) if topic else None
        return Plan(slug=slug, kind=PageKind.TOPIC, folder=TOPICS, known=known, draft=draft)

    async def _placed(self, plans: Sequence[Plan]) -> list[Plan]:
        """Give what is written anew the links that are sure already, and a vector; all others come at the end."""
        services = self.ctx.services
        new = [plan for plan in plans if plan.rewritten and plan.draft is not None]
        self.side = await services.side(self.kb_id)
        vectors = await self.side.embedder.embed([words_of(plan.draft) for plan in new if plan.draft])
        titles = Titles(await self._targets(new))
        placed = {plan.slug: plan for plan in plans}
        for plan, vector in zip(new, vectors, strict=True):
            draft = plan.draft
            if draft is not None:
                heading = "topics" if plan.kind is PageKind.DOCUMENT else "see_also"
                body = linked(
                    draft.body,
                    titles,
                    own=plan.slug,
                    related=draft.related,
                    heading=heading,
                    language=draft.language,
                )
                placed[plan.slug] = replace(
                    plan,
                    body=body,
                    method=self.writer.method,
                    vector=vector,
                    model=self.side.model,
                    generation=self.side.generation,
                )
        return list(placed.values())

    async def _targets(self, plans: Sequence[Plan]) -> list[Target]:
        """What these pages name themselves: their sources, what they are related to, what they linked to before."""
        named: set[str] = set()
        for plan in plans:
            if plan.draft is not None:
                named |= links_in(plan.draft.body) | set(plan.draft.related)
                named |= links_in(plan.known.body) if plan.known else set()
        async with self.ctx.services.database.read() as session:
            there = await known_pages(session, self.kb_id, named)
        titles = {slug: known.title for slug, known in there.items()}
        titles |= {plan.slug: plan.draft.title for plan in plans if plan.draft is not None}
        return [Target(slug, title, sought=False) for slug, title in titles.items()]

    async def _settle(self, plans: Sequence[Plan]) -> None:
        """Store everything, and say that it is done; all of it or nothing. Raises Moved."""
        services, job = self.ctx.services, self.job
        async with services.outbox.transaction(self.ctx.job) as session:
            if not await base_lives(session, job.tenant_id, self.kb_id):
                await delete_lane(session, ingest_lane(self.kb_id))
                return
            if self.side is not None and not await held(session, self.side):
                raise Moved(self.kb_id)
            done = [self.mapped[one.knowledge_id] for one in self.due if one.knowledge_id in self._counted()]
            await self._confirm(session, done)
            await store_pages(session, services.search, self.kb_id, plans)
            left = await self._left(session)
            await forget_versions(session, self.kb_id, left)
            for one in done:
                if one.verdict is not Verdict.LEAVE:
                    await store_sources(session, self.kb_id, one.due.knowledge_id, one.due.attempt, one.said)
                await self._close(session, one.due)
            await self._fail(session)
            await release(session, self._ids(self.waiting), owner=self.owner)
            changes = {
                plan.slug: ADDED if plan.draft is not None else REMOVED for plan in plans if plan.rewritten
            }
            await note_changes(session, job, changes, forget=bool(left))
            await self._follow_up(session)
        self.ctx.log.info(
            "wiki batch",
            documents=len(done),
            pages=len(changes),
            failed=len(self.failed),
            waiting=len(self.waiting),
        )

    async def _left(self, session: AsyncSession) -> set[str]:
        """The pages for which a document said something that it says no more: not in their former versions, either."""
        speaking = self._speaking()
        before = await slugs_of(session, self.kb_id, list(speaking))
        return {slug for ident, one in speaking.items() for slug in before[ident] - one.said.keys()}

    async def _confirm(self, session: AsyncSession, done: Sequence[Mapped]) -> None:
        """See that every document is what it was when it was read, and is still ours."""
        wanted = sorted(
            due.knowledge_id for due in self.due
        )  # those that failed, too: all are locked in one order
        rows = await session.scalars(
            select(Knowledge).where(Knowledge.id.in_(wanted)).order_by(Knowledge.id).with_for_update()
        )
        documents = {document.id: document for document in rows}
        for one in done:
            due = one.due
            if due.verdict(documents.get(due.knowledge_id)) is not one.verdict:
                raise Moved(due.knowledge_id)
            if await delete_ops(session, due.ids, owner=self.owner) == 0:
                self.due.remove(due)  # taken back, or in other hands by now
                del self.mapped[due.knowledge_id]
                raise Moved(due.knowledge_id)

    async def _close(self, session: AsyncSession, due: Due) -> None:
        for attempt in due.slots:
            slot = ids.enrichment_job(due.knowledge_id, attempt, "wiki")
            if (await finish_slot(session, slot, due.knowledge_id, attempt)).ours:
                spans = Attempt(session, due.knowledge_id, attempt)
                await spans.record_part(Stage.POSTPROCESS, "postprocess.wiki", self.ctx.started_at)

    async def _fail(self, session: AsyncSession) -> None:
        """Count failures; a document that failed too often is given up, and waits for its pages no longer."""
        for due in (one for one in self.due if one.knowledge_id in self.failed):
            counts = await fail(session, due.ids, owner=self.owner)
            if max(counts.values(), default=0) > MAX_FAILS:
                await delete_ops(session, due.ids)
                await dead_letters.record(
                    session,
                    f"{derive_id('wiki', due.knowledge_id, self.owner)}:1",
                    self.job,
                    related_id=due.knowledge_id,
                    error=f"exceeded wikiMaxFailRetries={MAX_FAILS} (in-batch retries)",
                    fail_count=max(counts.values()),
                )
                await self._close(session, due)

    async def _follow_up(self, session: AsyncSession) -> None:
        delay = FOLLOW_UP_S if self.waiting else 0
        if len(self.failed) == len(self.due):
            delay = FAILED_S
        await wake(session, self.job, self.limits, stale_before=self.stale_before, delay=delay)

    def _counted(self) -> dict[str, Mapped]:
        """The documents that this batch will settle as done."""
        out = set(self.failed) | self.waiting
        return {ident: one for ident, one in self.mapped.items() if ident not in out}

    def _speaking(self) -> dict[str, Mapped]:
        """Those of them that change what pages say."""
        return {ident: one for ident, one in self._counted().items() if one.verdict is not Verdict.LEAVE}

    def _ids(self, knowledge_ids: Collection[str]) -> list[int]:
        return [op for due in self.due if due.knowledge_id in knowledge_ids for op in due.ids]

    def _give_up(self, knowledge_id: str, error: Exception) -> None:
        self.failed[knowledge_id] = repr(error)
        self.ctx.log.warning("a document cannot be written about", knowledge=knowledge_id, error=repr(error))


async def wake(
    session: AsyncSession, job: WikiIngest, limits: WikiLimits, *, stale_before: int, delay: float = 0
) -> None:
    """Have so many jobs work that every place of a base is used as long as there is work for it.

    There is one for each place: it is woken if it waits, and runs again if it runs.
    """
    size, width = limits.ingest_batch_size, limits.ingest_max_inflight
    lane = ingest_lane(job.knowledge_base_id)
    told = await pressure(session, lane, stale_before=stale_before, most=size * width)
    for place in range(min(-(-told.free // size), width)):
        await trigger_place(session, job, place, delay=delay)


async def _several(items: Iterable[T], step: Callable[[T], Awaitable[R]], width: int) -> None:
    """Run a step for each item, `width` at once."""
    turns = asyncio.Semaphore(width)

    async def one(item: T) -> None:
        async with turns:
            await step(item)

    try:
        async with asyncio.TaskGroup() as tasks:
            for item in items:
                tasks.create_task(one(item))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
