"""The outbox: what a transaction asks of the queue happens exactly if that transaction does.

`add` and `cancel` write a row beside the caller's own changes; once they are committed the row is delivered and
deleted. Whatever stops that in between (a kill, a queue that is away), the relay finds the row. Delivering twice is
harmless: a job has the row's id for ever, so the second enqueue is a duplicate, and a fence has the cut of its row.

Fences go before jobs: a root that is enqueued after a fence is put behind its cut, and so is never covered by it.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, Final, Protocol

import structlog
from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from contracts.fences import Coverage
from contracts.identity import new_id
from contracts.jobs import Job, JobPayload, Scope, Unique, payload_type
from pipeline.broker import ScopeCancel
from pipeline.client import Enqueue, Origin
from pipeline.clock import now_ms
from pipeline.errors import PartialEnqueue, StoreUnavailable, StreamlaneError
from pipeline.receipt import Receipt
from pipeline.store.engine import Database
from pipeline.store.rows import BATCH, insert_new
from pipeline.store.tables import outbox

EnqueueMany = Callable[[Sequence[Enqueue]], Awaitable[list[Receipt]]]

RELAY_AGE_MS: Final = 1000
"""The relay leaves younger rows to whoever wrote them."""
LATE_MS: Final = 60_000
"""What waits longer is said, once in so long a time."""
FENCE: Final = "|fence"
"""The type of a row that is no job; neither a type nor an id of a job has such a character."""

_ADDED: Final = "outbox.added"
_CUTS: Final = "outbox.cuts"
_DONE: Final = "outbox.done"
_ORIGIN: Final = "outbox.origin"
_TYPE, _OPTIONS = outbox.c.type, outbox.c.options
_AT_FAULT: Final = (StreamlaneError, LookupError, TypeError, ValueError)
"""What one row may be at fault with; the others have to go on."""

log = structlog.get_logger(component="outbox")


class Fences(Protocol):
    """What of the queue's port a cancel needs; see `pipeline.broker.Broker`."""

    async def choose_cut(self) -> int: ...

    async def cancel_scope(self, scope: Scope, coverage: Coverage, cut: int | None = None) -> ScopeCancel: ...


class Outbox:
    """Delivers what transactions ask for. Several processes may share one outbox; without `fences`, this one leaves
    cancels to another.
    """

    def __init__(self, database: Database, enqueue_many: EnqueueMany, fences: Fences | None = None) -> None:
        self.database = database
        self._enqueue_many = enqueue_many
        self._fences = fences
        self._said_at = 0

    @asynccontextmanager
    async def transaction(self, parent: Job | None = None) -> AsyncIterator[AsyncSession]:
        """A write transaction; the jobs added in it are children of `parent`, and sent once it is committed.

        A queue that is away then is no error: the relay will deliver. Raises as Database.transaction.
        """
        async with self.database.transaction() as session:
            session.info[_ORIGIN] = Origin.of(parent) if parent else None
            yield session
        jobs, cuts = session.info.get(_ADDED, ()), session.info.get(_CUTS)
        if not (jobs or cuts):
            return
        try:
            if cuts or any(job.origin is None for job in jobs):  # children keep the root they descend from
                session.info[_DONE] = await self._fence()
            await self._deliver(jobs)
        except StreamlaneError as error:
            session.info[_DONE] = None
            log.warning("left to the relay", jobs=len(jobs), cancels=cuts or 0, error=str(error))

    @staticmethod
    def delivered(session: AsyncSession) -> bool:
        """Whether all that a transaction asked for was delivered when it ended; if not, the relay will do it."""
        return session.info.get(_DONE, ()) is not None

    @staticmethod
    def stopped(session: AsyncSession) -> Sequence[ScopeCancel]:
        """Return what the cancels did that were delivered when a transaction ended."""
        return session.info.get(_DONE) or ()

    async def choose_cut(self) -> int:
        """Return the cut of a cancel whose transaction is yet to come: now, by the queue's clock if that can be told. A
        root enqueued after that transaction is never covered. Ask outside of any transaction.
        """
        try:
            return await self._fences.choose_cut() if self._fences else now_ms()
        except StoreUnavailable:
            return now_ms()

    @staticmethod
    async def cancel(session: AsyncSession, scope: Scope, coverage: Coverage, cut: int) -> None:
        """Ask in the caller's transaction for a cancel of what a scope has, up to `cut`. What was added before and not
        sent yet is taken back; what is added afterwards is not covered.
        """
        only, excluding = coverage.only, coverage.excluding
        of_type = _TYPE.in_(only) if only is not None else _TYPE.not_in([*excluding, FENCE])
        await session.execute(delete(outbox).where(of_type, _belongs(scope)))
        said = {
            "kind": scope.kind,
            "id": scope.id,
            "only": None if only is None else sorted(only),
            "excluding": sorted(excluding),
            "cut": cut,
        }
        row = {"id": f"|{new_id()}", "type": FENCE, "data": json.dumps(said), "options": "{}"}
        await insert_new(session, outbox, [{**row, "created_at": now_ms(), "attempts": 0}])
        session.info[_CUTS] = session.info.get(_CUTS, 0) + 1

    @staticmethod
    async def add(
        session: AsyncSession,
        job_id: str,
        payload: JobPayload,
        *,
        delay: float | None = None,
        timeout: float | None = None,
        unique: Unique | None = None,
    ) -> None:
        """Ask for a job in the caller's transaction. Asking again for the same id changes nothing."""
        await Outbox.add_many(session, [(job_id, payload)], delay=delay, timeout=timeout, unique=unique)

    @staticmethod
    async def add_many(
        session: AsyncSession,
        jobs: Sequence[tuple[str, JobPayload]],
        *,
        delay: float | None = None,
        timeout: float | None = None,
        unique: Unique | None = None,
    ) -> None:
        """Ask for many jobs, each an id and a payload, in the caller's transaction; times in seconds.

        Raises ConfigurationError, ValueError for what could never be sent.
        """
        origin: Origin | None = session.info.get(_ORIGIN)
        added = [
            Enqueue(payload, id=job_id, delay=delay, timeout=timeout, unique=unique, origin=origin)
            for job_id, payload in jobs
        ]
        options = {"delay": delay, "timeout": timeout, "origin": asdict(origin) if origin else None}
        if unique is not None:
            options["unique"] = asdict(unique)
        now = now_ms()
        rows = [
            {
                "id": job_id,
                "type": payload.spec.type,
                "data": payload.encode(),
                "options": json.dumps(options | {"scopes": list(map(str, payload.scopes()))}),
                "created_at": now,
                "attempts": 0,
            }
            for job_id, payload in jobs
        ]
        await insert_new(session, outbox, rows)
        session.info.setdefault(_ADDED, []).extend(added)

    async def relay(self, limit: int = BATCH, *, older_than_ms: int = RELAY_AGE_MS) -> int:
        """Deliver the oldest rows that nobody has delivered, fences first and refused ones last. Says how many.

        Raises StoreUnavailable: the database or the queue is away; nothing is lost.
        """
        fenced = await self._fence(limit, older_than_ms) if self._fences else ()
        async with self.database.read() as session:
            rows = await _oldest(session, _TYPE != FENCE, limit, older_than_ms)
        await self._say_if_late(rows)
        readable = [item for row in rows if (item := _read(row)) is not None]
        sent = await self._deliver(readable)
        if len(readable) < len(rows):
            await self._refuse({row.id for row in rows} - {item.id for item in readable})
        return sent + len(fenced)

    async def waiting(self) -> tuple[int, int]:
        """Return how many rows wait to be delivered, and the age of the oldest in milliseconds."""
        async with self.database.read() as session:
            count, oldest = (
                await session.execute(select(func.count(), func.min(outbox.c.created_at)).select_from(outbox))
            ).one()
        return count, max(now_ms() - oldest, 0) if oldest is not None else 0

    async def has_queued(self, scope: Scope, types: frozenset[str] | None = None) -> bool:
        """Whether the scope has a job that was not sent yet. Raises StoreUnavailable."""
        query = select(outbox.c.id).where(_of(types), _belongs(scope)).limit(1)
        async with self.database.read() as session:
            return await session.scalar(query) is not None

    async def queued_ids(self, kind: str, types: frozenset[str] | None = None) -> set[str]:
        """Return the ids of this kind of scope that have a job that was not sent yet. Raises StoreUnavailable."""
        async with self.database.read() as session:
            said = await session.scalars(select(_OPTIONS).where(_of(types)))
            scopes = [
                scope.partition(":") for text in said for scope in _read_options(text).get("scopes", ())
            ]
        return {ident for which, _, ident in scopes if which == kind}

    async def _fence(self, limit: int = BATCH, older_than_ms: int = 0) -> list[ScopeCancel]:
        """Deliver cancels, the oldest first. Raises StoreUnavailable."""
        async with self.database.read() as session:
            rows = await _oldest(session, _TYPE == FENCE, limit, older_than_ms)
        fences = self._fences
        if not rows:
            return []
        if fences is None:
            raise StoreUnavailable("another process has to deliver a cancel first")
        done: list[ScopeCancel] = []
        for row in rows:
            try:
                said = json.loads(row.data)
                only, scope = said["only"], Scope(said["kind"], said["id"])
                coverage = Coverage(None if only is None else frozenset(only), frozenset(said["excluding"]))
                cut = int(said["cut"])
            except _AT_FAULT as error:
                log.warning("a cancel of another version waits", row=row.id, error=repr(error))
                await self._refuse({row.id})
                continue
            done.append(await fences.cancel_scope(scope, coverage, cut))
            await self._delete([row.id])
        return done

    async def _deliver(self, items: Sequence[Enqueue]) -> int:
        """Enqueue jobs and delete the rows of those that the queue confirmed."""
        failed: StreamlaneError | None = None
        receipts: Sequence[Receipt | None] = []
        try:
            receipts = await self._enqueue_many(items) if items else []
        except PartialEnqueue as error:
            receipts, failed = error.receipts, error
        except StoreUnavailable:
            raise
        except _AT_FAULT:  # one is at fault: let the others pass
            receipts = [await self._deliver_one(item) for item in items]
        done = [item.id for item, receipt in zip(items, receipts, strict=True) if receipt]
        if done:
            await self._delete(done)
        if failed is not None:
            raise StoreUnavailable(str(failed)) from failed
        return len(done)

    async def _deliver_one(self, item: Enqueue) -> Receipt | None:
        try:
            (receipt,) = await self._enqueue_many([item])
        except (PartialEnqueue, StoreUnavailable):
            raise
        except _AT_FAULT as error:
            log.warning("the queue refuses a job", job=item.id, error=str(error))
            await self._refuse({item.id})
            return None
        return receipt

    async def _delete(self, ids: Collection[str | None]) -> None:
        async with self.database.transaction() as session:
            # what another relay is about to delete is left to it, so that no two wait for each other
            ours = select(outbox.c.id).where(outbox.c.id.in_(ids)).with_for_update(skip_locked=True)
            await session.execute(delete(outbox).where(outbox.c.id.in_(ours)))

    async def _refuse(self, ids: Collection[str | None]) -> None:
        """Put rows that cannot be sent behind all others."""
        async with self.database.transaction() as session:
            await session.execute(
                update(outbox).where(outbox.c.id.in_(ids)).values(attempts=outbox.c.attempts + 1)
            )

    async def _say_if_late(self, rows: Sequence[Any]) -> None:
        now = now_ms()
        if any(row.created_at < now - LATE_MS for row in rows) and self._said_at < now - LATE_MS:
            self._said_at = now
            count, age_ms = await self.waiting()
            log.warning("waits to be delivered", rows=count, oldest_s=age_ms // 1000)


async def _oldest(
    session: AsyncSession, which: ColumnElement[bool], limit: int, older_than_ms: int
) -> Sequence[Any]:
    now = now_ms()
    due = or_(
        outbox.c.created_at <= now - older_than_ms,
        outbox.c.created_at > now + older_than_ms,  # by a clock that was ahead: nobody knows when
    )
    query = select(outbox).where(which, due).order_by(outbox.c.attempts, outbox.c.created_at).limit(limit)
    return (await session.execute(query)).all()


def _belongs(scope: Scope) -> ColumnElement[bool]:
    """Return the condition under which a row is a job of a scope."""
    return _OPTIONS.contains(json.dumps(str(scope)), autoescape=True)


def _of(types: frozenset[str] | None) -> ColumnElement[bool]:
    return _TYPE != FENCE if types is None else _TYPE.in_(types)


def _read_options(text: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except ValueError:
        return {}
    return options if isinstance(options, dict) else {}


def _read(row: Any) -> Enqueue | None:
    """Read a row back; None for one that another version wrote and this one does not understand."""
    kind, options = payload_type(row.type), _read_options(row.options)
    try:
        if kind is not None:
            origin = Origin(**options["origin"]) if options["origin"] else None
            payload, delay, timeout = kind.decode(row.data), options["delay"], options["timeout"]
            unique = Unique(**options["unique"]) if "unique" in options else None
            return Enqueue(payload, id=row.id, delay=delay, timeout=timeout, unique=unique, origin=origin)
    except _AT_FAULT as error:
        log.warning("a job of another version waits", job=row.id, type=row.type, error=str(error))
    return None
