"""Jobs in one SQLite file: no server, several processes, and everything survives a restart."""

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from contracts.fences import Coverage
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.backends.lite import (
    beats,
    cancelling,
    dead_letters,
    inspection,
    locks,
    memory,
    steering,
)
from pipeline.backends.lite.claiming import Turns, claim
from pipeline.backends.lite.connection import connect, prepare, refuse_network
from pipeline.backends.lite.deliveries import held, release, report
from pipeline.backends.lite.enqueuing import Enqueue
from pipeline.backends.lite.errors import closed
from pipeline.backends.lite.leases import LiteLeases
from pipeline.backends.lite.listing import Listing, count
from pipeline.backends.lite.operations import Fleeting
from pipeline.backends.lite.promoting import promote
from pipeline.backends.lite.reader import Reader
from pipeline.backends.lite.reclaiming import reclaim
from pipeline.backends.lite.records import find, standing
from pipeline.backends.lite.retention import prune
from pipeline.backends.lite.settling import settle
from pipeline.backends.lite.transaction import Snapshot, Transaction, array
from pipeline.backends.lite.wakeups import Listeners, Wakeups
from pipeline.backends.lite.watcher import Watcher
from pipeline.backends.lite.writer import Writer
from pipeline.broker import (
    CancelOutcome,
    Condition,
    DeadLetter,
    Delivery,
    NewJob,
    Promoted,
    Pruned,
    Reclaimed,
    ReclaimPolicy,
    Retention,
    ScopeCancel,
    Settlement,
)
from pipeline.errors import StoreUnavailable
from pipeline.receipt import Receipt
from pipeline.records import (
    ANY,
    HourStat,
    JobRecord,
    Obstacles,
    Page,
    Progress,
    QueueStat,
    TaskFilter,
    WorkerBeat,
)

BUSY_S: Final = 5.0
MANY: Final = 1_000
"""Jobs of one enqueue that share a transaction, so that nobody waits long for the writer."""


class LiteBroker:
    """The port `pipeline.broker.Broker` on a file. What each verb promises is said there."""

    def __init__(self, path: Path, *, busy_s: float, folder: tempfile.TemporaryDirectory[str] | None) -> None:
        self._path = path
        self._folder = folder
        self._busy_s = busy_s
        lasting = folder is None
        connection = connect(path, busy_s=busy_s, durable=lasting)
        try:
            prepare(connection, path)
            self.reader = Reader(path, connect(path, busy_s=busy_s))
        except BaseException:
            connection.close()
            raise
        self.writer = Writer(path, connection, self._committed, busy_s=busy_s, lasting=lasting)
        self._watcher: Watcher | None = None
        self._leases: list[LiteLeases] = []
        self._wakeups = Wakeups()
        self._turns = Turns()
        self._signals = Listeners()
        self._signal_count = 0
        self._dues = Listeners()
        self._head: int | None = None
        self._closed = False

    @classmethod
    def open(cls, path: Path | None, *, busy_s: float = BUSY_S) -> Self:
        """Open the queue file, made if absent; None: one for this process, gone when it is closed.

        `busy_s` limits how long an operation waits while another process writes.

        Raises:
            StoreUnavailable: the file cannot be used; the message says what to do.
            ConfigurationError: the file is another program's, or lies on a network file system.
        """
        if path is None:
            folder = tempfile.TemporaryDirectory(prefix="streamlane-")
            return cls(Path(folder.name) / "queue.db", busy_s=busy_s, folder=folder)
        path = path.absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"folder {path.parent} cannot be made: {error.strerror}") from error
        refuse_network(path.resolve())
        return cls(path, busy_s=busy_s, folder=None)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        receipts: list[Receipt] = []
        for first in range(0, len(jobs), MANY):
            receipts += await self.writer.submit(Enqueue(jobs[first : first + MANY]))
        return receipts

    async def claim(self, consumer: str, wants: Sequence[tuple[str, int]]) -> list[Delivery]:
        return await self.writer.submit(
            Fleeting(partial(claim, consumer=consumer, wants=wants, turns=self._turns))
        )

    async def held(self, consumer: str, queues: Sequence[str]) -> list[Delivery]:
        return await self.reader.run(partial(held, consumer=consumer, queues=queues))

    async def wait_for_work(self, queues: Sequence[str], timeout: float) -> bool:
        self._watch()
        work = self._wakeups.expect(queues)
        try:
            if not await self.reader.run(partial(ready, queues=queues)):
                async with asyncio.timeout(timeout):
                    await work
            return True
        except TimeoutError:
            return False
        finally:
            self._wakeups.forget(work)

    def leases(self) -> LiteLeases:
        self._check_open()
        leases = LiteLeases(self._path)
        self._leases = [one for one in self._leases if not one.closed] + [leases]
        return leases

    async def settle(self, settlements: Sequence[Settlement]) -> list[JobState | None]:
        return await self.writer.submit(partial(settle, settlements=settlements))

    async def release(self, deliveries: Sequence[Delivery]) -> int:
        return await self.writer.submit(partial(release, deliveries=deliveries))

    async def promote(self, limit: int = 500) -> Promoted:
        def moved(transaction: Transaction) -> Promoted:
            count, due = promote(transaction, limit)
            self._head = due
            return Promoted(count, None if due is None else max(due - transaction.now, 0))

        return await self.writer.submit(Fleeting(moved))

    async def reclaim(self, policy: ReclaimPolicy) -> list[Reclaimed]:
        return await self.writer.submit(Fleeting(partial(reclaim, policy=policy)))

    async def report(self, delivery: Delivery, progress: Progress) -> bool:
        return await self.writer.submit(Fleeting(partial(report, one=delivery, progress=progress)))

    async def prune(self, retention: Retention) -> Pruned:
        step = Fleeting(partial(prune, retention=retention))
        pruned = Pruned()
        while (more := await self.writer.submit(step)) != Pruned():
            pruned += more
        return pruned

    async def cancel(self, job_ids: Sequence[str]) -> list[CancelOutcome]:
        return await self.writer.submit(partial(cancelling.cancel, job_ids=job_ids))

    async def choose_cut(self) -> int:
        return await self.reader.run(cancelling.choose_cut)

    async def cancel_scope(self, scope: Scope, coverage: Coverage, cut: int | None = None) -> ScopeCancel:
        part = partial(cancelling.cancel_scope, scope=scope, coverage=coverage)
        done, after = await self.writer.submit(partial(part, cut=cut, after=0))
        while after is not None:
            more, after = await self.writer.submit(partial(part, cut=done.cut, after=after))
            done = ScopeCancel(done.cut, done.cancelled + more.cancelled, done.signalled + more.signalled)
        return done

    async def run_now(self, job_id: str) -> None:
        await self.writer.submit(partial(steering.run_now, job_id=job_id))

    async def delete(self, job_id: str) -> None:
        await self.writer.submit(partial(steering.delete, job_id=job_id))

    async def purge(self, queue: str) -> int:
        purged = 0
        while more := await self.writer.submit(partial(steering.purge, queue=queue)):
            purged += more
        return purged

    async def pause(self, queue: str) -> None:
        await self.writer.submit(partial(steering.pause, queue=queue))

    async def resume(self, queue: str) -> None:
        await self.writer.submit(partial(steering.resume, queue=queue))

    async def job(self, job_id: str) -> JobRecord | None:
        return await self.reader.run(partial(find, job_id=job_id))

    async def states(self, job_ids: Sequence[str]) -> list[JobState | None]:
        known = await self.reader.run(partial(standing, ids=job_ids))
        return [known.get(job_id) for job_id in job_ids]

    async def tasks(
        self,
        queue: str,
        state: JobState,
        *,
        cursor: str | None,
        limit: int,
        match: TaskFilter = ANY,
    ) -> Page:
        return await self.reader.run(Listing(queue, state, cursor, limit, match))

    async def count(self, queue: str, state: JobState, match: TaskFilter) -> tuple[int, bool]:
        return await self.reader.run(partial(count, queue=queue, state=state, match=match))

    async def queue_stats(self) -> list[QueueStat]:
        return await self.reader.run(inspection.queue_stats)

    async def has_queued(self, scope: Scope, types: frozenset[str] | None = None) -> bool:
        return await self.reader.run(partial(inspection.has_queued, scope=scope, types=types))

    async def queued_ids(self, kind: str, types: frozenset[str] | None = None) -> set[str]:
        return await self.reader.run(partial(inspection.queued_ids, kind=kind, types=types))

    async def history(self, hours: int) -> list[HourStat]:
        return await self.reader.run(partial(inspection.history, hours=hours))

    async def obstacles(self, queue: str, job_id: str) -> Obstacles:
        return await self.reader.run(partial(inspection.obstacles, queue=queue, job_id=job_id))

    async def children(self, parent_id: str, scope: Scope, limit: int) -> tuple[list[JobRecord], bool]:
        return await self.reader.run(
            partial(inspection.children, parent_id=parent_id, scope=scope, limit=limit)
        )

    async def heartbeat(self, beat: WorkerBeat, ttl_ms: int) -> None:
        await self.writer.submit(Fleeting(partial(beats.beat, said=beat, ttl_ms=ttl_ms)))

    async def forget(self, worker: str) -> None:
        await self.writer.submit(partial(beats.forget, worker=worker))

    async def workers(self) -> list[WorkerBeat]:
        return await self.reader.run(beats.living)

    async def dead_letters(
        self, queues: Sequence[str], limit: int, *, tended: bool = False
    ) -> list[DeadLetter]:
        return await self.reader.run(partial(dead_letters.oldest, queues=queues, limit=limit, tended=tended))

    async def tend_dead_letters(self, death_ids: Sequence[str]) -> None:
        await self.writer.submit(partial(dead_letters.tend, death_ids=death_ids))

    async def forget_dead_letters(self, death_ids: Sequence[str]) -> None:
        await self.writer.submit(partial(dead_letters.forget, death_ids=death_ids))

    async def lock(self, name: str, owner: str, ttl_ms: int, width: int = 1) -> int | None:
        take = partial(locks.lock, name=name, owner=owner, ttl_ms=ttl_ms, width=width)
        return await self.writer.submit(Fleeting(take))

    async def unlock(self, name: str, owner: str) -> bool:
        return await self.writer.submit(partial(locks.unlock, name=name, owner=owner))

    async def remember(self, name: str, value: str, *, anew: bool = False) -> str:
        known = None if anew else await self.reader.run(partial(memory.recall, name=name))
        if known is None:
            known = await self.writer.submit(partial(memory.remember, name=name, value=value, anew=anew))
        return known

    def on_signal(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._watch()
        return self._signals.add(listener)

    def on_due(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._watch()
        return self._dues.add(listener)

    @property
    def where(self) -> str:
        return str(self._path)

    async def ping(self) -> None:
        await self.writer.submit(_touch)

    async def condition(self) -> Condition:
        return Condition((f"SQLite {sqlite3.sqlite_version}",))

    async def close(self) -> None:
        self._closed = True
        if self._watcher is not None:
            self._watcher.close()
        for leases in self._leases:
            leases.close()
        await self.reader.close()
        await self.writer.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _watch(self) -> None:
        """Look out for other processes, once somebody here waits for them."""
        self._check_open()
        if self._watcher is None:
            self._watcher = Watcher(connect(self._path, busy_s=self._busy_s), self._changed)

    def _check_open(self) -> None:
        if self._closed:
            raise closed(self._path)

    def _committed(self, transactions: Sequence[Transaction]) -> None:
        """Tell this process at once what it wrote itself; called in the writer's thread."""
        self._wakeups.wake(set().union(*(one.woken for one in transactions)))
        self._announce(min((one.due for one in transactions if one.due is not None), default=None))
        if any(one.signalled for one in transactions):
            self._signals.call()

    def _changed(self, snapshot: Snapshot) -> None:
        """Tell this process what anybody wrote; called in the watcher's thread."""
        self._wakeups.wake(ready(snapshot, tuple(self._wakeups.awaited())))
        self._announce(snapshot.run("select_next_due").fetchone()[0])
        (signals,) = snapshot.run("select_signals").fetchone()
        if signals != self._signal_count:
            self._signal_count = signals
            self._signals.call()

    def _announce(self, due: int | None) -> None:
        if due is not None and (self._head is None or due < self._head):
            self._head = due
            self._dues.call()


def ready(snapshot: Snapshot, queues: Sequence[str]) -> set[str]:
    """Return those of `queues` that have jobs to claim."""
    return {row["queue"] for row in snapshot.run("select_ready", queues=array(queues))}


def _touch(transaction: Transaction) -> None:
    transaction.run("touch")
