"""Taking in some items of a source at once: what each needs is decided, fetched, and written in one transaction with the
cursor behind them. Killed anywhere and run again, it comes to the same.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import case, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.knowledge_bases import keep_base
from consumers.knowledge.documents import lifecycle
from consumers.knowledge.documents.documents import (
    Entry,
    ProcessOptions,
    Registered,
    SourceFile,
    register_many,
)
from consumers.knowledge.documents.ingesting import printable
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.tables.sources import DataSource
from consumers.scratch import scratch
from consumers.services import Services
from consumers.sources import items, runs
from consumers.sources.connector import Connector, Deed, Item
from consumers.sources.fetching import Fetcher, Got, suffix
from consumers.sources.items import Known
from consumers.sources.runs import Tally
from contracts.knowledge import ParseStatus
from contracts.sources import ItemState
from pipeline.store import changed, now_ms

_COUNTED: Final[Mapping[Entry, str]] = {
    Entry.CREATED: "created",
    Entry.CHANGED: "changed",
    Entry.RETRIED: "changed",
}


class Stopped(Exception):  # noqa: N818 - an end
    """The run was ended by somebody else, or its base is gone: what was about to be written is not."""


@dataclass(slots=True)
class Look:
    """How a run looks at the items it is given.

    `generation` marks what it has seen; in a `listing` of everything, one that is new may turn out to be a renamed one, so
    it is held until the end, which is `settling`. `again`: this run was interrupted. With `force` all is fetched, with `check` what is in step is looked for, with `retry` what
    could not be read is read again.
    """

    generation: int
    listing: bool = False
    settling: bool = False
    again: bool = False
    force: bool = False
    check: bool = False
    retry: bool = False
    lost: int = 0


@dataclass(slots=True)
class Plan:
    """What some items need."""

    fetch: list[Item] = field(default_factory=list)
    held: list[Item] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    moved: list[tuple[Known, Item]] = field(default_factory=list)
    gone: list[Known] = field(default_factory=list)
    known: dict[str, Known] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)


class Taker:
    """Takes items of one source in, for one run."""

    def __init__(
        self, services: Services, source: DataSource, run_id: str, kb: KnowledgeBase, connector: Connector
    ) -> None:
        self._services, self._source, self._run_id = services, source, run_id
        self._fetcher = Fetcher(services, source.id, connector)
        self._options = ProcessOptions.of(kb, services.settings.document_process_timeout)

    async def take(
        self,
        some: Sequence[Item],
        look: Look,
        progress: Mapping[str, Any] | None = None,
        budget: int | None = None,
    ) -> int | None:
        """Take items in, and write `progress` to the row of the source with them; return how many needed anything, or None
        where the `budget` was too small for all: then there is no progress. Raises Stopped, StoreUnavailable, FileStoreError.
        """
        plan = await self._plan(some, look)
        work = len(plan.fetch) + len(plan.moved) + len(plan.gone) + len(plan.held)
        short = budget is not None and work > budget
        if short:
            plan.fetch, plan.held = plan.fetch[:budget], []
            plan.moved, plan.gone, progress = [], [], None
        with scratch() as folder:
            fetched = await asyncio.gather(
                *(
                    self._fetcher.fetch(item, plan.known.get(item.id), folder / str(at))
                    for at, item in enumerate(plan.fetch)
                )
            )
            twins = await self._twins(fetched, plan, look)
            cut = await self._services.outbox.choose_cut()
            async with self._services.outbox.transaction() as session:
                await self._write(session, plan, look, fetched, twins, cut, progress)
            for got in fetched:  # a delete of another document may have taken it along
                if got.file and got.local and not await self._services.files.exists(got.file.file_key):
                    await self._services.files.put(got.file.file_key, got.local)
        return None if short else work

    async def remove(self, gone: Sequence[Known]) -> None:
        """Remove what the source has no longer, with its documents. Raises Stopped, StoreUnavailable."""
        cut = await self._services.outbox.choose_cut()
        async with self._services.outbox.transaction() as session:
            await self._kept_base(session)
            await self._remove(session, gone, cut)
            await self._count(session, Tally(deleted=len(gone)))

    async def remove_strays(self, documents: Sequence[str]) -> None:
        """Remove documents of this source that no item became. Raises Stopped, StoreUnavailable."""
        cut = await self._services.outbox.choose_cut()
        async with self._services.outbox.transaction() as session:
            await self._kept_base(session)
            await lifecycle.delete(session, self._source.tenant_id, documents, cut)
            await self._count(session, Tally(deleted=len(documents)))

    async def _plan(self, some: Sequence[Item], look: Look) -> Plan:
        plan = Plan()
        named = {one.id: one for one in some}
        async with self._services.database.read() as session:
            asked = {*named, *(one.was for one in named.values() if one.was)}
            plan.known.update(await items.known(session, self._source.id, asked))
        for item in named.values():
            known, was = plan.known.get(item.id), plan.known.get(item.was)
            if why := items.unfit(item.id):
                plan.tally.fail(item.id, why)
                continue
            if item.deed is Deed.DELETE:
                plan.gone += [known] if known else []
                continue
            if item.deed is Deed.RENAME and was:
                if known is None and _same_type(was.item, item) and was.status:
                    plan.moved.append((was, item))
                    continue
                plan.gone.append(was)
            await self._plan_one(item, known, plan, look)
        if look.listing and not look.settling:
            await self._hold(plan, look, set(named))
        return plan

    async def _plan_one(self, item: Item, known: Known | None, plan: Plan, look: Look) -> None:
        same = (
            known is not None
            and known.state is ItemState.SYNCED
            and bool(item.version)
            and known.item.version == items.fitting(item.version)
        )
        if known and same and look.again and known.generation == look.generation:
            return  # this run had it before it was interrupted
        if (
            known
            and _waits(known)
            and look.listing
            and not look.settling
            and known.generation == look.generation
        ):
            return  # likewise, and it is held until the end
        if known and same and not look.force:
            if not look.check or await self._is_there(known):
                plan.seen.append(item.id)
                plan.tally.unchanged += 1
                return
            look.lost += 1
        plan.fetch.append(item)

    async def _is_there(self, known: Known) -> bool:
        if known.status in {None, ParseStatus.DELETING} or known.knowledge_id is None:
            return False
        async with self._services.database.read() as session:
            key = await session.scalar(select(Knowledge.file_key).where(Knowledge.id == known.knowledge_id))
        return key is not None and await self._services.files.exists(key)

    async def _hold(self, plan: Plan, look: Look, named: set[str]) -> None:
        """Hold those that are new and look like one that was not named until now: they may be renamed."""
        new = [one for one in plan.fetch if one.version and _is_new(plan.known.get(one.id))]
        if not new:
            return
        async with self._services.database.read() as session:
            versions = sorted({items.fitting(one.version) for one in new})
            found = await items.twins(session, self._source.id, look.generation, versions=versions)
        twins = {one.item.version for one in found if one.item.id not in named}
        plan.held = [one for one in new if items.fitting(one.version) in twins]
        plan.fetch = [one for one in plan.fetch if one not in plan.held]

    async def _twins(self, fetched: Sequence[Got], plan: Plan, look: Look) -> dict[str, list[Known]]:
        """Return those that were not named until now by the hash of their content, where it was fetched as something new."""
        new = [got.file.file_hash for got in fetched if got.file and _is_new(plan.known.get(got.item.id))]
        if not (look.listing and new):
            return {}
        async with self._services.database.read() as session:
            found = await items.twins(session, self._source.id, look.generation, hashes=sorted(set(new)))
        twins: dict[str, list[Known]] = {}
        for one in found:
            if one.item.id not in {got.item.id for got in fetched}:
                twins.setdefault(one.file_hash, []).append(one)
        return twins

    async def _write(
        self,
        session: AsyncSession,
        plan: Plan,
        look: Look,
        fetched: Sequence[Got],
        twins: dict[str, list[Known]],
        cut: int,
        progress: Mapping[str, Any] | None,
    ) -> None:
        kb = await self._kept_base(session)
        rows, marked = [], {"generation": look.generation}
        await self._remove(session, plan.gone, cut)
        plan.tally.deleted += len(plan.gone)
        for was, item in plan.moved:
            rows += await self._move(session, was, item, plan, look)
        files = []
        for got in fetched:
            known = plan.known.get(got.item.id)
            twin = self._twin(got, twins) if _is_new(known) else None
            if got.error:
                plan.tally.fail(got.item.id, got.error)
                kept = _kept(known) if known else {}
                rows.append(
                    {**kept, "item": got.item, "state": ItemState.FAILED, "error": got.error, **marked}
                )
            elif got.file is None:
                plan.tally.unchanged += 1
                kept = _kept(known) if known else {}
                kept |= {"stamp": got.content.stamp or kept.get("stamp", "")}
                rows.append({**kept, "item": got.item, "state": ItemState.SYNCED, **marked})
            elif twin and look.settling and await _rename(session, twin, got.file):
                twins[got.file.file_hash].remove(twin)
                await items.forget(session, self._source.id, [twin.item.id])
                plan.tally.renamed += 1
                rows.append(self._synced(got, twin.knowledge_id, look))
            elif twin and look.listing and not look.settling:
                rows.append({"item": got.item, "state": ItemState.HELD, **marked})
            else:
                files.append(got)
        entered = [got.file for got in files if got.file]
        registered = await register_many(session, kb, entered, self._options, retry=look.retry)
        rows += [
            self._entered(got, one, plan.tally, look) for got, one in zip(files, registered, strict=True)
        ]
        rows += [{"item": item, "state": ItemState.HELD, **marked} for item in plan.held]
        await items.keep(session, self._source.id, rows)
        await items.see(session, self._source.id, plan.seen, look.generation)
        if progress:
            values = {**progress, "updated_at": now_ms()}
            await changed(session, update(DataSource).where(DataSource.id == self._source.id).values(values))
        await self._count(session, plan.tally, {"lost": look.lost} if look.check else None)

    def _entered(self, got: Got, one: Registered, tally: Tally, look: Look) -> Mapping[str, Any]:
        """Return what is kept of an item whose file was registered, and count it."""
        if one.entry is Entry.DELETING:
            why = "its former document is being removed: it comes with the next run"
            tally.fail(got.item.id, why)
            return {"item": got.item, "state": ItemState.FAILED, "error": why, "generation": look.generation}
        name = _COUNTED.get(one.entry, "unchanged")
        setattr(tally, name, getattr(tally, name) + 1)
        return self._synced(got, one.knowledge_id, look)

    @staticmethod
    def _synced(got: Got, knowledge_id: str | None, look: Look) -> Mapping[str, Any]:
        return {
            "item": got.item,
            "stamp": got.content.stamp,
            "file_hash": got.file.file_hash if got.file else "",
            "state": ItemState.SYNCED,
            "generation": look.generation,
            "knowledge_id": knowledge_id,
        }

    @staticmethod
    def _twin(got: Got, twins: Mapping[str, Sequence[Known]]) -> Known | None:
        found = twins.get(got.file.file_hash, ()) if got.file else ()
        return next((one for one in found if _same_type(one.item, got.item)), None)

    async def _move(
        self, session: AsyncSession, was: Known, item: Item, plan: Plan, look: Look
    ) -> list[Mapping[str, Any]]:
        """Let a document go by the name that its source gave it; its content is compared at the next look."""
        name = printable(item.name) or was.item.name
        file = SourceFile(
            source=items.document_source(self._source.id, item.id),
            file_name=name,
            file_type=suffix(name),
            file_hash=was.file_hash,
            file_size=0,
            file_key="",
            data_source_id=self._source.id,
        )
        if not await _rename(session, was, file):
            why = "its document is being removed: it comes with the next run"
            plan.tally.fail(item.id, why)
            return [{"item": item, "state": ItemState.FAILED, "error": why, "generation": look.generation}]
        await items.forget(session, self._source.id, [was.item.id])
        plan.tally.renamed += 1
        kept = replace(item, version=was.item.version if item.version == was.item.version else "")
        return [{**_kept(was), "item": kept, "state": ItemState.SYNCED, "generation": look.generation}]

    async def _remove(self, session: AsyncSession, gone: Sequence[Known], cut: int) -> None:
        """Remove documents, of this source only, and forget their items."""
        named = [one.knowledge_id for one in gone if one.knowledge_id]
        ours = select(Knowledge.id).where(
            Knowledge.id.in_(named), Knowledge.data_source_id == self._source.id
        )
        documents = (await session.scalars(ours.order_by(Knowledge.id))).all() if named else ()
        await lifecycle.delete(session, self._source.tenant_id, documents, cut)
        await items.forget(session, self._source.id, [one.item.id for one in gone])

    async def _kept_base(self, session: AsyncSession) -> KnowledgeBase:
        kb = await keep_base(session, self._source.knowledge_base_id)
        if kb is None:
            raise Stopped("its knowledge base is gone")
        return kb

    async def _count(
        self, session: AsyncSession, tally: Tally, detail: Mapping[str, Any] | None = None
    ) -> None:
        if not await runs.count(session, self._run_id, tally, detail):
            raise Stopped("it was stopped")


async def _rename(session: AsyncSession, was: Known, file: SourceFile) -> bool:
    """Give a document another name and place. False where it is going or gone elsewhere, or another has that place."""
    row = await lifecycle.locked(session, None, was.knowledge_id or "")
    ours = row is not None and row.data_source_id == file.data_source_id
    if row is None or not ours or row.parse_status is ParseStatus.DELETING:
        return False
    place = Knowledge.knowledge_base_id == row.knowledge_base_id, Knowledge.source == file.source
    if await session.scalar(select(Knowledge.id).where(*place)):
        return False
    title = case((Knowledge.title == Knowledge.file_name, file.file_name), else_=Knowledge.title)
    values = {"source": file.source, "file_name": file.file_name, "title": title, "updated_at": now_ms()}
    return bool(await changed(session, update(Knowledge).where(Knowledge.id == row.id).values(values)))


def _is_new(known: Known | None) -> bool:
    """Whether no document was made of it yet, so that it may be another one under a new name."""
    return known is None or _waits(known)


def _waits(known: Known) -> bool:
    return known.state is ItemState.HELD


def _kept(known: Known) -> dict[str, Any]:
    return {"stamp": known.stamp, "file_hash": known.file_hash, "knowledge_id": known.knowledge_id}


def _same_type(one: Item, other: Item) -> bool:
    return suffix(one.name) == suffix(other.name)
