"""The outbox: a job that a transaction asks for exists exactly if that transaction does.

`add` writes a row beside the caller's own changes; once they are committed the row is sent and deleted. Whatever
stops that in between (a kill, a queue that is away), the relay finds the row. Sending twice is harmless: the job has
the row's id for ever, so the second enqueue is a duplicate.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, Final

import structlog
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from contracts.jobs import Job, JobPayload, payload_type
from pipeline.client import Enqueue, Origin
from pipeline.clock import now_ms
from pipeline.errors import ConfigurationError, PartialEnqueue, StoreUnavailable, StreamlaneError
from pipeline.receipt import Receipt
from pipeline.store.engine import Database
from pipeline.store.rows import BATCH, insert_new
from pipeline.store.tables import outbox

EnqueueMany = Callable[[Sequence[Enqueue]], Awaitable[list[Receipt]]]

RELAY_AGE_MS: Final = 1000
"""The relay leaves younger rows to whoever wrote them."""

_ADDED: Final = "outbox.added"
_ORIGIN: Final = "outbox.origin"

log = structlog.get_logger(component="outbox")


class Outbox:
    """Sends what transactions ask for. Several processes may share one outbox."""

    def __init__(self, database: Database, enqueue_many: EnqueueMany) -> None:
        self._database = database
        self._enqueue_many = enqueue_many

    @asynccontextmanager
    async def transaction(self, parent: Job | None = None) -> AsyncIterator[AsyncSession]:
        """A write transaction; the jobs added in it are children of `parent`, and sent once it is committed.

        A queue that is away then is no error: the relay will send them. Raises as Database.transaction.
        """
        async with self._database.transaction() as session:
            session.info[_ORIGIN] = Origin.of(parent) if parent else None
            yield session
        if added := session.info.get(_ADDED):
            try:
                await self._deliver(added)
            except StreamlaneError as error:
                log.warning("left to the relay", jobs=len(added), error=str(error))

    @staticmethod
    async def add(
        session: AsyncSession,
        job_id: str,
        payload: JobPayload,
        *,
        delay: float | None = None,
        timeout: float | None = None,
    ) -> None:
        """Ask for a job in the caller's transaction. Asking again for the same id changes nothing."""
        await Outbox.add_many(session, [(job_id, payload)], delay=delay, timeout=timeout)

    @staticmethod
    async def add_many(
        session: AsyncSession,
        jobs: Sequence[tuple[str, JobPayload]],
        *,
        delay: float | None = None,
        timeout: float | None = None,
    ) -> None:
        """Ask for many jobs, each an id and a payload, in the caller's transaction; times in seconds.

        Raises ConfigurationError, ValueError for what could never be sent.
        """
        origin: Origin | None = session.info.get(_ORIGIN)
        added = [
            Enqueue(payload, id=job_id, delay=delay, timeout=timeout, origin=origin)
            for job_id, payload in jobs
        ]
        row = {
            "options": json.dumps(
                {"delay": delay, "timeout": timeout, "origin": asdict(origin) if origin else None}
            ),
            "created_at": now_ms(),
            "attempts": 0,
        }
        rows = [
            {"id": job_id, "type": payload.spec.type, "data": payload.encode(), **row}
            for job_id, payload in jobs
        ]
        await insert_new(session, outbox, rows)
        session.info.setdefault(_ADDED, []).extend(added)

    async def relay(self, limit: int = BATCH, *, older_than_ms: int = RELAY_AGE_MS) -> int:
        """Send the oldest rows that nobody has sent, refused ones last. Says how many were sent.

        Raises StoreUnavailable: the database or the queue is away; nothing is lost.
        """
        async with self._database.read() as session:
            rows = (
                await session.execute(
                    select(outbox)
                    .where(outbox.c.created_at <= now_ms() - older_than_ms)
                    .order_by(outbox.c.attempts, outbox.c.created_at)
                    .limit(limit)
                )
            ).all()
        readable = [item for row in rows if (item := _read(row)) is not None]
        sent = await self._deliver(readable)
        if len(readable) < len(rows):
            await self._refuse({row.id for row in rows} - {item.id for item in readable})
        return sent

    async def waiting(self) -> tuple[int, int]:
        """Return how many jobs wait to be sent, and the age of the oldest in milliseconds."""
        async with self._database.read() as session:
            count, oldest = (
                await session.execute(select(func.count(), func.min(outbox.c.created_at)).select_from(outbox))
            ).one()
        return count, max(now_ms() - oldest, 0) if oldest is not None else 0

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
        except StreamlaneError:  # one is at fault: let the others pass
            receipts = [await self._deliver_one(item) for item in items]
        done = [item.id for item, receipt in zip(items, receipts, strict=True) if receipt]
        if done:
            async with self._database.transaction() as session:
                await session.execute(delete(outbox).where(outbox.c.id.in_(done)))
        if failed is not None:
            raise StoreUnavailable(str(failed)) from failed
        return len(done)

    async def _deliver_one(self, item: Enqueue) -> Receipt | None:
        try:
            (receipt,) = await self._enqueue_many([item])
        except (PartialEnqueue, StoreUnavailable):
            raise
        except StreamlaneError as error:
            log.warning("the queue refuses a job", job=item.id, error=str(error))
            await self._refuse({item.id})
            return None
        return receipt

    async def _refuse(self, ids: Collection[str | None]) -> None:
        """Put rows that cannot be sent behind all others."""
        async with self._database.transaction() as session:
            await session.execute(
                update(outbox).where(outbox.c.id.in_(ids)).values(attempts=outbox.c.attempts + 1)
            )


def _read(row: Any) -> Enqueue | None:
    """Read a row back; None for one that another version wrote and this one does not understand."""
    kind = payload_type(row.type)
    options = json.loads(row.options)
    origin = Origin(**options["origin"]) if options["origin"] else None
    try:
        if kind is not None:
            payload, delay, timeout = kind.decode(row.data), options["delay"], options["timeout"]
            return Enqueue(payload, id=row.id, delay=delay, timeout=timeout, origin=origin)
    except (ValueError, ConfigurationError) as error:
        log.warning("a job of another version waits", job=row.id, type=row.type, error=str(error))
    return None
