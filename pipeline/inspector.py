"""Seeing and steering, for people and tools: the broker's verbs with names instead of types."""

import asyncio
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final, Protocol

from contracts.fences import coverage
from contracts.jobs import Scope
from contracts.options import check_count
from contracts.states import TERMINAL, WAITING, JobState
from contracts.topology import POOLS, weights
from contracts.topology import queue as known_queue
from pipeline.actions import Action, Done, Effect, allowed
from pipeline.broker import Broker, CancelOutcome, ScopeCancel
from pipeline.errors import ConfigurationError, JobNotFound, NotAllowed, StoreUnavailable
from pipeline.reasons import Reason, reasons
from pipeline.records import (
    ANY,
    Count,
    HourStat,
    JobRecord,
    Page,
    PoolStat,
    QueueStat,
    Relatives,
    TaskFilter,
    WorkerBeat,
)

PAGE: Final = 20
LONGEST_PAGE: Final = 100
AT_ONCE: Final = 1_000
"""Jobs of one bulk action at most, so that it ends soon."""
BULK_S: Final = 1.0
LONGEST_HOURS: Final = 7 * 24
CHILDREN: Final = 100
SETTLE_S: Final = 1.0
"""How long those that were told to stop have for it (facts 3.2)."""
LOOK_S: Final = 0.05
STALL_S: Final = 60
"""How long the answer to what is queued may be old (facts 7.6)."""


def _default_slots(pool: str) -> int:
    return POOLS[pool].slots


def _width(scope: Scope) -> int:
    """Return how many jobs a scope of its kind may have, roughly: the narrow ones are looked into first."""
    return {"tenant": 2, "knowledge_base": 1}.get(scope.kind, 0)


class Unsent(Protocol):
    """Jobs that were asked for and did not come to the queue yet. Every method raises StoreUnavailable."""

    async def has_queued(self, scope: Scope, types: frozenset[str] | None = None) -> bool:
        """Whether the scope has one."""

    async def queued_ids(self, kind: str, types: frozenset[str] | None = None) -> set[str]:
        """Return the ids of this kind of scope that have one."""

    async def waiting(self) -> tuple[int, int]:
        """Return how much waits, and the age of the oldest in milliseconds."""


class Inspector:
    """Every method raises StoreUnavailable; one that takes a queue raises UnknownNameError for one that is not."""

    def __init__(self, broker: Broker, slots: Callable[[str], int] = _default_slots) -> None:
        """`slots` says how many jobs a pool runs at once in one process, as configured."""
        self._broker, self._slots = broker, slots
        self.unsent: Unsent | None = None
        self._queued: dict[str, tuple[float, set[str]]] = {}
        self._scan = asyncio.Lock()

    def configure(self, slots: Callable[[str], int]) -> None:
        """From now on `slots` says how many jobs a pool runs at once in one process."""
        self._slots = slots

    async def queues(self) -> list[QueueStat]:
        """Return one row a queue, in registry order."""
        return await self._broker.queue_stats()

    async def workers(self) -> list[WorkerBeat]:
        """Return the worker processes that live."""
        return await self._broker.workers()

    async def pools(self) -> list[PoolStat]:
        """Return one row a pool: the six of the facts in their order, then ours. A pool is known by its name."""
        workers = [worker for worker in await self._broker.workers() if worker.state == "running"]
        found: list[PoolStat] = []
        for name in POOLS:
            beats = [beat for worker in workers for beat in worker.pools if beat.name == name]
            capacity, active = sum(beat.slots for beat in beats), sum(beat.active for beat in beats)
            share = min(active / capacity, 1.0) if capacity else 0.0
            row = PoolStat(name, self._slots(name), len(weights(name)), len(beats), capacity, active, share)
            found.append(row)
        return found

    async def strange(
        self, stats: Iterable[QueueStat], pools: Iterable[PoolStat], handled: Container[str]
    ) -> dict[str, list[str]]:
        """Return the queues that no live worker of their pool reads and where only types wait, as far as the newest jobs
        tell, that are not `handled` by any worker of ours; and these types.
        """
        living = {pool.name for pool in pools if pool.instances}
        found: dict[str, list[str]] = {}
        for stat in stats:
            if stat.pending and stat.pool not in living:
                page = await self.tasks(stat.name, JobState.PENDING)
                types = sorted({record.job.type for record in page.records})
                if types and not any(one in handled for one in types):
                    found[stat.name] = types
        return found

    async def history(self, hours: int = 24) -> list[HourStat]:
        """Return what each queue did in each of the last `hours` hours (UTC), the present one last; at most a week.
        In registry order. Raises ConfigurationError (no hour).
        """
        try:
            hours = min(check_count(hours, "hours", least=1), LONGEST_HOURS)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(str(error)) from None
        return await self._broker.history(hours)

    async def why(self, record: JobRecord) -> list[Reason]:
        """Return why a job waits, what weighs most first; nothing of one that runs or has ended."""
        if record.state not in WAITING:
            return []
        found = await self._broker.obstacles(record.job.queue, record.job.id)
        return reasons(record, found, await self._broker.workers())

    async def actions(self, record: JobRecord) -> tuple[Action, ...]:
        """Return what may be done to a job: a dead one that a cancel covers does not run again."""
        may = allowed(record)
        if record.state is JobState.ARCHIVED and Action.RUN_NOW in may:
            found = await self._broker.obstacles(record.job.queue, record.job.id)
            return tuple(one for one in may if one is not Action.RUN_NOW or found.fence is None)
        return may

    async def relatives(self, record: JobRecord) -> Relatives:
        """Return parent and root of a job, where they are kept, and its children that have not ended, some at most."""
        job = record.job
        parent = await self._broker.job(job.parent_id) if job.parent_id else None
        root = await self._broker.job(job.root_id) if job.root_id not in {"", job.id} else None
        children: dict[str, JobRecord] = {}
        more = False
        for scope in sorted(job.scopes, key=_width):
            found, others = await self._broker.children(job.id, scope, CHILDREN)
            children |= {one.job.id: one for one in found}
            more = more or others
        return Relatives(parent, root, tuple(children.values())[:CHILDREN], more or len(children) > CHILDREN)

    async def tasks(
        self,
        queue: str,
        state: JobState,
        cursor: str | None = None,
        page_size: int = PAGE,
        *,
        match: TaskFilter = ANY,
    ) -> Page:
        """Return one page of the jobs of a queue in a state; at most 100.

        Raises CursorInvalid, CursorExpired, ConfigurationError (a page of no job).
        """
        try:
            size = min(check_count(page_size, "page_size", least=1), LONGEST_PAGE)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(str(error)) from None
        return await self._broker.tasks(
            known_queue(queue).name, JobState(state), cursor=cursor, limit=size, match=match
        )

    async def count(self, queue: str, state: JobState, match: TaskFilter = ANY) -> Count:
        """Return how many jobs of a queue in a state match; it does not look for long."""
        name = known_queue(queue).name
        if match == ANY:
            (stat,) = [one for one in await self._broker.queue_stats() if one.name == name]
            return Count(getattr(stat, JobState(state)))
        return Count(*await self._broker.count(name, JobState(state), match))

    async def count_scope(self, scope: Scope) -> Count:
        """Return how many jobs of a scope have not ended; it does not look for long."""
        number = 0
        for stat in await self.queues():
            for state in (JobState.ACTIVE, *sorted(WAITING)):
                if getattr(stat, state):
                    found = await self.count(stat.name, state, TaskFilter(scope=scope))
                    number += found.number
                    if found.more:
                        return Count(number, more=True)
        return Count(number)

    async def job(self, job_id: str) -> JobRecord:
        """Return one job. Raises JobNotFound when there is none (any more)."""
        record = await self._broker.job(job_id)
        if record is None:
            raise JobNotFound(f"no job {job_id} (any more): done jobs are kept for their retention only")
        return record

    async def cancel(self, job_id: str) -> CancelOutcome:
        """Cancel one job; an active one is told to stop."""
        (outcome,) = await self._broker.cancel([job_id])
        return outcome

    async def cancel_scope(self, kind: str, id: str, types: Iterable[str] | None = None) -> ScopeCancel:  # noqa: A002
        """Cancel what a scope has, and what its jobs would still enqueue."""
        covered = coverage(kind, None if types is None else frozenset(types))
        return await self._broker.cancel_scope(Scope(kind, id), covered)

    async def cancel_knowledge_base(
        self,
        id: str,  # noqa: A002
        knowledge_ids: Iterable[str] = (),
        data_source_ids: Iterable[str] = (),
        *,
        cut: int | None = None,
    ) -> ScopeCancel:
        """Cancel what a knowledge base has, and what names only one of its documents or sources; its `kb:delete` and
        `index:delete` still run (facts 3.2). `cut` is that of an earlier cancel of which this is the rest: what came
        after it is left alone.
        """
        covered = coverage("knowledge_base")
        done = await self._broker.cancel_scope(Scope("knowledge_base", id), covered, cut)
        cancelled, signalled = dict.fromkeys(done.cancelled), dict.fromkeys(done.signalled)
        for kind, asked in (("knowledge", knowledge_ids), ("data_source", data_source_ids)):
            wanted = frozenset(asked)  # a base has many documents, and few of them have something under way
            queued = await self._broker.queued_ids(kind) if wanted else set()
            for one in sorted(wanted & queued):
                more = await self._broker.cancel_scope(Scope(kind, one), covered, done.cut)
                cancelled |= dict.fromkeys(more.cancelled)
                signalled |= dict.fromkeys(more.signalled)
        return ScopeCancel(done.cut, tuple(cancelled), tuple(signalled))

    async def effects(self, done: ScopeCancel, within: float = SETTLE_S) -> dict[str, Effect]:
        """Return what truly happened to each job of a cancel; those told to stop have `within` seconds for it."""
        effects = dict.fromkeys(done.cancelled, Effect.CANCELLED)
        return effects | await self._stopped(done.signalled, within)

    async def _stopped(self, signalled: Sequence[str], within: float) -> dict[str, Effect]:
        effects = dict.fromkeys(signalled, Effect.SIGNALLED)
        left, end = list(effects), asyncio.get_running_loop().time() + within
        while left:
            states = await self._broker.states(left)
            for job_id, state in zip(left, states, strict=True):
                if state is JobState.CANCELLED:
                    effects[job_id] = Effect.CANCELLED
                elif state is None or state in TERMINAL:
                    effects[job_id] = Effect.TOO_LATE
            left = [job_id for job_id in left if effects[job_id] is Effect.SIGNALLED]
            if asyncio.get_running_loop().time() >= end:
                break
            if left:
                await asyncio.sleep(LOOK_S)
        return effects

    async def has_queued(self, kind: str, id: str, types: Iterable[str] | None = None) -> bool:  # noqa: A002
        """Whether a scope has a job that is not ended, or not sent yet."""
        scope, only = Scope(kind, id), None if types is None else frozenset(types)
        if self.unsent and await self.unsent.has_queued(
            scope, only
        ):  # first: from there jobs come to the queue
            return True
        return await self._broker.has_queued(scope, only)

    async def queued_ids(self, kind: str, types: Iterable[str] | None = None) -> set[str]:
        """Return the ids of this kind of scope that have a job that is not ended, or not sent yet."""
        only = None if types is None else frozenset(types)
        unsent = await self.unsent.queued_ids(kind, only) if self.unsent else set()
        return unsent | await self._broker.queued_ids(kind, only)

    async def stall_state(self, kind: str, ids: Iterable[str]) -> dict[str, str]:
        """Return `queued` for each id of this kind of scope that has a job under way of the types that are its own, else
        `stalled`; the answer may be a minute old. Without an answer of the store, nothing.
        """
        try:
            queued = await self._queued_lately(kind)
        except StoreUnavailable:
            return {}
        return {one: "queued" if one in queued else "stalled" for one in ids}

    async def _queued_lately(self, kind: str) -> set[str]:
        async with self._scan:
            now = asyncio.get_running_loop().time()
            at, found = self._queued.get(kind, (now - STALL_S, set[str]()))
            if now - at >= STALL_S:
                found = await self.queued_ids(kind, coverage(kind).only)
                self._queued[kind] = now, found
            return found

    async def act(self, action: Action, job_ids: Sequence[str]) -> dict[str, Effect]:
        """Do one thing to each of these jobs; return what truly happened to each."""
        if action is Action.CANCEL:
            said = await self._broker.cancel(job_ids)
            return {one: Effect(outcome) for one, outcome in zip(job_ids, said, strict=True)}
        verb, done = {
            Action.RUN_NOW: (self._broker.run_now, Effect.RUN),
            Action.DELETE: (self._broker.delete, Effect.DELETED),
        }[action]
        effects: dict[str, Effect] = {}
        for job_id in job_ids:
            try:
                await verb(job_id)
                effects[job_id] = done
            except JobNotFound:
                effects[job_id] = Effect.NOT_FOUND
            except NotAllowed:
                effects[job_id] = Effect.NOT_ALLOWED
        return effects

    async def bulk(
        self,
        action: Action,
        queue: str,
        state: JobState,
        match: TaskFilter = ANY,
        cursor: str | None = None,
    ) -> Done:
        """Do one thing to some jobs that match, a thousand or for a second; `next_cursor` says where to go on, None at
        the end.

        Raises CursorInvalid, CursorExpired.
        """
        effects: dict[str, Effect] = {}
        end = asyncio.get_running_loop().time() + BULK_S
        while len(effects) < AT_ONCE and asyncio.get_running_loop().time() < end:
            page = await self.tasks(queue, state, cursor, LONGEST_PAGE, match=match)
            effects |= await self.act(action, [record.job.id for record in page.records])
            cursor = page.next_cursor
            if cursor is None:
                break
        return Done(effects, cursor)

    async def run_now(self, job_id: str) -> None:
        """Make a waiting or archived job pending. Raises JobNotFound, NotAllowed."""
        await self._broker.run_now(job_id)

    async def delete(self, job_id: str) -> None:
        """Remove an ended job. Raises JobNotFound, NotAllowed."""
        await self._broker.delete(job_id)

    async def purge(self, queue: str) -> int:
        """Remove all archived jobs of a queue; return how many."""
        return await self._broker.purge(known_queue(queue).name)

    async def pause(self, queue: str) -> None:
        """Let a queue start nothing."""
        await self._broker.pause(known_queue(queue).name)

    async def resume(self, queue: str) -> None:
        """Undo a pause."""
        await self._broker.resume(known_queue(queue).name)
