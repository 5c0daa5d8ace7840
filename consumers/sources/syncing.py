"""A run of a source: what its mode looks at, in which order, and what is written of it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import update

from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.sources import DataSource
from consumers.services import Services
from consumers.sources import items, runs
from consumers.sources.connector import PAGE, Connector, Item, Page
from consumers.sources.items import Known
from consumers.sources.runs import COUNTS
from consumers.sources.taking import Look, Taker
from contracts.payloads.maintenance import DataSourceSync
from contracts.sources import ItemState, SyncMode, SyncState
from pipeline import Context
from pipeline.store import changed, now_ms

LOOKS_AT_ALL: Final = frozenset({SyncMode.FULL, SyncMode.INCREMENTAL, SyncMode.RECONCILE})


class AllFailed(Exception):  # noqa: N818 - what happened
    """Not one item could be taken in: it is rather the source that is at fault, and tried again."""


class Emptied(Exception):  # noqa: N818 - what was found
    """A source that had items lists none: rather a mount or a bucket that is missing than all of it deleted."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A run that may go on, with what it works on."""

    source: DataSource
    kb: KnowledgeBase
    run_id: str
    mode: SyncMode
    again: bool


class Syncing:
    """Works on one run of one source, on an opened connector."""

    def __init__(
        self, ready: Ready, job: DataSourceSync, ctx: Context[Services], connector: Connector
    ) -> None:
        self._job, self._ctx, self._services = job, ctx, ctx.services
        self._source, self._run_id, self._mode = ready.source, ready.run_id, ready.mode
        self._again = ready.again
        self._connector = connector
        self._taker = Taker(ctx.services, ready.source, ready.run_id, ready.kb, connector)
        self._total = self._done = 0
        self._left = job.max_items
        self._stopped = False

    async def run(self) -> SyncState:
        """Work until everything that the mode asks for is done, and say how it ended.

        Raises AllFailed, Emptied, Stopped, SourceError, OutboundError, StoreUnavailable, FileStoreError: what was done stays.
        """
        async with self._services.database.read() as session:
            self._total = sum((await items.counted(session, self._source.id)).values())
        if self._again and self._mode not in {SyncMode.FULL, SyncMode.INCREMENTAL}:
            await self._start_over("")  # these begin anew at each attempt
        match self._mode:
            case SyncMode.HEALTH:
                return await self._look_after()
            case SyncMode.DLQ_RETRY:
                await self._retry()
            case SyncMode.PARTIAL_RESYNC:
                await self._list("", Look(0, listing=True, force=True), saves=False)
            case SyncMode.RECONCILE:
                await self._reconcile()
            case SyncMode.FULL:
                await self._list(self._source.cursor, Look(0, listing=True, force=True), saves=True)
            case SyncMode.INCREMENTAL:
                await self._list(self._source.cursor, Look(0, listing=True), saves=True)
        return await self._finish()

    async def _list(self, cursor: str, look: Look, *, saves: bool) -> None:
        look, ended = replace(look, generation=self._source.listing, again=self._again), False
        async for page in self._connector.changes(cursor):
            progress: dict[str, Any] = {}
            if page.begins:
                look.generation = await self._new_generation()
                progress |= {"listing": look.generation}
            for some, last in _parts(page):
                if last and not page.ends:
                    progress |= {"cursor": page.cursor}
                await self._take(some, look, progress if saves else {})
                if self._stopped:
                    return
            if page.ends:
                await self._end(look, page.cursor if saves else None)
                ended = True
        if not ended:
            await self._settle(replace(look, settling=True))

    async def _new_generation(self) -> int:
        """Number what looks through the source now."""
        async with self._services.database.transaction() as session:
            this = DataSource.id == self._source.id
            found = await session.scalar(
                update(DataSource)
                .where(this)
                .values(generation=DataSource.generation + 1)
                .returning(DataSource.generation),
                execution_options={"synchronize_session": False},
            )
        return int(found or 1)

    async def _take(self, some: Sequence[Item], look: Look, progress: Mapping[str, Any]) -> None:
        wanted = [one for one in some if self._is_selected(one.id)]
        if len(wanted) < len(some):
            async with self._services.database.transaction() as session:
                others = [one.id for one in some if not self._is_selected(one.id)]
                await items.see(session, self._source.id, others, look.generation)
        if not (wanted or progress):
            return
        worked = await self._taker.take(wanted, look, progress, self._left)
        self._stopped = worked is None
        if self._left is not None and worked is not None:
            self._left -= worked
        self._done += len(some)
        await self._ctx.progress(self._done, max(self._done, self._total), self._mode)

    def _is_selected(self, ident: str) -> bool:
        chosen = self._job.selection
        if self._mode is not SyncMode.PARTIAL_RESYNC or not chosen:
            return True
        return any(ident == one or (one.endswith("/") and ident.startswith(one)) for one in chosen)

    async def _end(self, look: Look, cursor: str | None) -> None:
        """After a listing of everything: tell renamed items from new ones, and remove what it did not name."""
        await self._refuse_failure()
        await self._settle(replace(look, settling=True))
        async with self._services.database.read() as session:
            seen = await items.has_seen(session, self._source.id, look.generation)
        if not seen and not self._job.force_full:
            async with self._services.database.read() as session:
                if await items.unseen(session, self._source.id, look.generation, "", 1):
                    raise Emptied
        unseen = partial(items.unseen, source_id=self._source.id, before=look.generation, limit=PAGE)
        async for found in self._rows(unseen):
            if gone := [one for one in found if self._is_selected(one.item.id)]:
                await self._taker.remove(gone)
        if cursor is not None:
            async with self._services.database.transaction() as session:
                await self._set(session, cursor=cursor)

    async def _settle(self, look: Look) -> None:
        held = partial(items.page, source_id=self._source.id, state=ItemState.HELD, limit=PAGE)
        async for some in self._rows(held):
            await self._taker.take([one.item for one in some], look)

    async def _retry(self) -> None:
        """Try again what failed, and what was taken in and could not be read."""
        look = Look(self._source.listing, force=True, retry=True)
        failed = partial(items.page, source_id=self._source.id, state=ItemState.FAILED, limit=PAGE)
        broken = partial(items.broken, source_id=self._source.id, limit=PAGE)
        for rows in (failed, broken):
            async for some in self._rows(rows):
                await self._taker.take([one.item for one in some], look)
                self._done += len(some)
                await self._ctx.progress(self._done, max(self._done, self._total), self._mode)

    async def _reconcile(self) -> None:
        """Compare both sides, repair what differs, and report it."""
        look = Look(0, listing=True, check=True)
        await self._list("", look, saves=False)
        stray = 0
        while True:
            async with self._services.database.read() as session:
                lost = await items.strays(session, self._source.id, PAGE)
            if not lost:
                break
            await self._taker.remove_strays(lost)
            stray += len(lost)
        async with self._services.database.transaction() as session:
            run = await runs.find_run(session, self._run_id)
            if run is None:
                return
            drift = {name: getattr(run, name) for name in COUNTS if name != "unchanged"}
            drift |= {"lost": run.detail.get("lost", 0), "stray": stray}
            drift["deleted"] -= stray
            said = {"drift": drift, "in_step": not any(drift.values())}
            await runs.count(session, self._run_id, runs.Tally(), said)

    async def _look_after(self) -> SyncState:
        """Say whether the source can be reached and read, how far behind it is, and what fails in it."""
        began = now_ms()
        said = await self._connector.health()
        async with self._services.database.transaction() as session:
            counts = await items.counted(session, self._source.id)
            health = {
                "ok": True,
                "message": said,
                "checked_at": now_ms(),
                "took_ms": now_ms() - began,
                "lag_ms": None
                if self._source.last_success_at is None
                else began - self._source.last_success_at,
                "items": {state.value: number for state, number in counts.items()},
            }
            await self._set(session, health=health)
            await runs.finish(session, self._run_id, SyncState.SUCCESS, said, health)
        return SyncState.SUCCESS

    async def _finish(self) -> SyncState:
        failed = ""
        try:
            await self._refuse_failure()
        except AllFailed as error:
            if self._mode is not SyncMode.DLQ_RETRY:
                raise
            failed = str(error)
        async with self._services.database.transaction() as session:
            run = await runs.find_run(session, self._run_id)
            state = SyncState.PARTIAL if run and run.failed else SyncState.SUCCESS
            stopped = (
                f"stopped after {self._job.max_items} items; the next run goes on" if self._stopped else ""
            )
            state = SyncState.FAILED if failed else state
            await runs.finish(session, self._run_id, state, failed or stopped)
            if self._mode in LOOKS_AT_ALL and not self._stopped:
                now = now_ms()
                health = {"ok": True, "message": "its last run succeeded", "checked_at": now}
                await self._set(session, last_success_at=now, health=health)
        return state

    async def _refuse_failure(self) -> None:
        """Raise AllFailed where nothing but failures was counted; the next attempt begins where this run did."""
        async with self._services.database.read() as session:
            run = await runs.find_run(session, self._run_id)
        if run is None or not run.failed or any(getattr(run, name) for name in COUNTS if name != "failed"):
            return
        first = run.errors[0] if run.errors else {"item": "", "error": ""}
        message = (
            f"none of its {run.failed} items could be taken in; {first['item'][:200]}: {first['error'][:500]}"
        )
        if self._mode in {SyncMode.FULL, SyncMode.INCREMENTAL}:
            async with self._services.database.transaction() as session:
                await self._set(session, cursor=run.began_at)
        if not self._ctx.final and self._mode is not SyncMode.DLQ_RETRY:
            await self._start_over(message)
        raise AllFailed(message)

    async def _start_over(self, message: str) -> None:
        async with self._services.database.transaction() as session:
            await runs.start_over(session, self._run_id, message)

    async def _set(self, session: Any, **values: Any) -> None:
        this = DataSource.id == self._source.id
        await changed(session, update(DataSource).where(this).values(updated_at=now_ms(), **values))

    async def _rows(self, read: Callable[..., Awaitable[Any]]) -> AsyncIterator[list[Known]]:
        """Yield pages of rows, each once: those that are still the same after they were looked at do not come again."""
        after = ""
        while True:
            async with self._services.database.read() as session:
                found: Sequence[tuple[str, Known]] = await read(session, after=after)
            if not found:
                return
            after = found[-1][0]
            yield [one for _, one in found]


def _parts(page: Page) -> Iterator[tuple[Sequence[Item], bool]]:
    """Yield what fits into a transaction, and whether it is the last part."""
    some = page.items
    for start in range(0, max(len(some), 1), PAGE):
        yield some[start : start + PAGE], start + PAGE >= len(some)
