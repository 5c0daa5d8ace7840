"""What people and programs do to jobs: checked, done, and written down. The API and the dashboard both come through here."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from contracts.jobs import Scope
from contracts.states import TERMINAL, ArchiveReason, JobState
from contracts.topology import QUEUES
from pipeline.actions import DOCUMENT_TYPES, Action, Effect, allowed, cancellable, of_document, payload
from pipeline.broker import ScopeCancel
from pipeline.errors import JobNotFound, NotAllowed
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.desk import Belonging, Chance, Desk
from pipeline.http.errors import Problem
from pipeline.http.principal import Principal
from pipeline.inspector import AT_ONCE, BULK_S, LONGEST_PAGE
from pipeline.records import JobRecord, TaskFilter
from pipeline.store import dead_letters
from pipeline.store.audit import Outcome

TASK_DEEDS: Final[Mapping[str, str]] = {
    Action.CANCEL: "system.queue_task_cancelled",
    Action.RUN_NOW: "system.queue_task_run_now",
    Action.DELETE: "system.queue_task_deleted",
}
BULK_DEEDS: Final[Mapping[str, str]] = {
    Action.CANCEL: "system.queue_tasks_cancelled",
    Action.RUN_NOW: "system.queue_tasks_run_now",
    Action.DELETE: "system.queue_tasks_deleted",
}
PURGED: Final = "system.queue_archived_purged"
PAUSED: Final = "system.queue_paused"
RESUMED: Final = "system.queue_resumed"
SCOPE_CANCELLED: Final = "system.scope_cancelled"

DID_IT: Final = frozenset({Effect.CANCELLED, Effect.SIGNALLED, Effect.RUN, Effect.DELETED})
PAST: Final[Mapping[Action, str]] = {
    Action.CANCEL: "cancelled",
    Action.RUN_NOW: "run",
    Action.DELETE: "deleted",
}


@dataclass(frozen=True, slots=True)
class Acted:
    """What an action did to one job. `why` it was not allowed; `orphan`: what it worked on is gone."""

    effect: Effect
    why: str = ""
    orphan: bool = False


def known_queue(name: str) -> str:
    """Return the name of a queue if it is one. Raises Problem 400."""
    if name not in QUEUES:
        raise Problem(400, "Unknown task queue", "unknown_task_queue")
    return name


def known_state(name: str) -> JobState:
    """Return a state by name. Raises Problem 400."""
    if name not in set(JobState):
        raise Problem(400, "Unknown task state", "unknown_task_state")
    return JobState(name)


def known_reason(name: str | None) -> str | None:
    """Return why a job may have been given up, None for nothing. Raises Problem 400."""
    if name and name not in set(ArchiveReason):
        raise Problem(400, f"Unknown reason; there are {', '.join(ArchiveReason)}", "unknown_reason")
    return name or None


def known_scope(text: str) -> Scope | None:
    """Return the scope that kind:id names; None for nothing. Raises Problem 400."""
    if not text:
        return None
    kind, _, ident = text.partition(":")
    try:
        return Scope(kind, ident)
    except ValueError as error:
        raise Problem(400, f"a scope is written kind:id: {error}", "invalid_scope") from None


async def act_on_task(call: Call, queue: str, task_id: str, action: str) -> Effect:
    """Do one thing to a job; return what came of it. Raises Problem, StoreUnavailable."""
    desk = call.desk
    known_queue(queue)
    if not task_id or len(task_id) > 128:
        raise Problem(400, "Invalid task id", "invalid_task_id")
    record = await desk.broker.job(task_id)
    there = record is not None and record.job.queue == queue and call.who.sees(record)
    about = {"queue": queue, "task_id": task_id, "action": action}
    if there and record is not None:
        about |= {"task_type": record.job.type, "from_state": str(record.state)}
    deed = TASK_DEEDS.get(action, "system.queue_task_refused")
    async with recorded(call, deed, ("queue_task", task_id), **about) as entry:
        if not there or record is None:
            raise Problem(409, "the task is gone", "task_gone")
        if action not in set(Action):
            raise Problem(409, f"unknown action; there are {', '.join(Action)}", "action_not_allowed")
        done = await act(call, record, Action(action))
        if done.effect is Effect.NOT_ALLOWED:
            raise Problem(409, done.why, "action_not_allowed")
        if done.orphan:
            entry.details["orphan_purge"] = "true"
        if done.effect not in DID_IT:
            raise Problem(409, f"the task cannot be {PAST[Action(action)]} any more", "task_changed")
        await _decide(desk, {task_id: done.effect})
    return done.effect


async def act_on_records(
    call: Call, queue: str, action: Action, records: AsyncIterator[JobRecord | str]
) -> dict[str, Acted]:
    """Do one thing to many jobs of a queue; an id instead of a job is one that is not there. Return what truly happened
    to each. Raises Problem, StoreUnavailable.
    """
    done: dict[str, Acted] = {}
    about = {"queue": known_queue(queue), "task_id": ""}
    async with recorded(call, BULK_DEEDS[action], ("task_queue", queue), **about) as entry:
        try:
            async for one in records:
                if isinstance(one, str):
                    done[one] = Acted(Effect.NOT_FOUND)
                else:
                    done[one.job.id] = await act(call, one, action)
        finally:
            effects = {job_id: one.effect for job_id, one in done.items()}
            entry.details |= {str(effect): str(n) for effect, n in Counter(effects.values()).items()}
            await _decide(call.desk, effects)
        if any(effect not in DID_IT for effect in effects.values()):
            entry.outcome = Outcome.PARTIAL
    return done


async def _decide(desk: Desk, effects: Mapping[str, Effect]) -> None:
    """Whoever runs or deletes a dead job has decided about its death, too: it waits for nobody any more."""
    run, deleted = (
        [one for one, effect in effects.items() if effect is which] for which in (Effect.RUN, Effect.DELETED)
    )
    if run or deleted:
        async with desk.database.transaction() as sql:
            await dead_letters.decide(sql, run, replayed=True)
            await dead_letters.decide(sql, deleted, replayed=False)


async def named(desk: Desk, who: Principal, queue: str, ids: Sequence[str]) -> AsyncIterator[JobRecord | str]:
    """Yield the jobs of a queue that have these ids, or the ids of those that are not there."""
    for task_id in dict.fromkeys(ids):
        record = await desk.broker.job(task_id)
        theirs = record is not None and record.job.queue == queue and who.sees(record)
        yield record if record is not None and theirs else task_id


class Matching:
    """A thousand jobs of a queue in a state that match, from a cursor on, or as many as were acted on within a second.
    After them, `cursor` leads on.
    """

    def __init__(
        self, desk: Desk, who: Principal, queue: str, state: JobState, match: TaskFilter, cursor: str | None
    ) -> None:
        self._desk, self._who, self.cursor = desk, who, cursor
        self._queue, self._state, self._match = queue, state, match

    async def records(self) -> AsyncIterator[JobRecord | str]:
        """Yield them. Raises CursorInvalid, CursorExpired."""
        clock, seen = asyncio.get_running_loop().time, 0
        end = clock() + BULK_S
        while seen < AT_ONCE:
            page = await self._desk.inspector.tasks(
                self._queue, self._state, self.cursor, LONGEST_PAGE, match=self._match
            )
            self.cursor = page.next_cursor
            for record in page.records:
                if self._who.sees(record):
                    seen += 1
                    yield record
            if self.cursor is None or clock() >= end:
                return


async def act(call: Call, record: JobRecord, action: Action) -> Acted:
    """Do one thing to a job; return what came of it. Raises Problem 503."""
    see, job_id, may = call.desk.inspector, record.job.id, action in allowed(record)
    if not may and not (action is Action.CANCEL and call.any_job):
        return Acted(Effect.NOT_ALLOWED, refusal(record, action))
    if action is Action.CANCEL:
        if may and of_document(record):
            return await _cancel(call, record)
        return Acted((await see.act(action, [job_id]))[job_id])
    verb, effect = (see.run_now, Effect.RUN) if action is Action.RUN_NOW else (see.delete, Effect.DELETED)
    try:
        if action is Action.RUN_NOW and record.state is JobState.ARCHIVED:
            if action not in await see.actions(record):
                return Acted(
                    Effect.NOT_ALLOWED, "the job was cancelled with what it belongs to; enqueue it anew"
                )
            said = await run_again(call.desk, record)
            return Acted(Effect.NOT_ALLOWED if said else Effect.RUN, said)
        await verb(job_id)
    except JobNotFound:
        return Acted(Effect.NOT_FOUND)
    except NotAllowed as error:  # a cancel covers it, its unique key is taken, or somebody was faster
        return Acted(Effect.NOT_ALLOWED, str(error))
    return Acted(effect)


async def run_again(desk: Desk, record: JobRecord) -> str:
    """Give an archived job another attempt, or have what it worked on done afresh in its place; return why not, if not.
    Raises JobNotFound, NotAllowed, StoreUnavailable.
    """
    job = record.job
    chance = await another_chance(desk, job.id, job.type, job.data)
    if chance.refusal:
        return chance.refusal
    if not chance.afresh:
        await desk.inspector.run_now(job.id)
        return ""
    with suppress(JobNotFound, NotAllowed):  # it is done with
        await desk.inspector.delete(job.id)
    return ""


async def another_chance(desk: Desk, job_id: str, task_type: str, data: str) -> Chance:
    """Return what another chance of a job that died comes to. Raises StoreUnavailable."""
    if desk.business is not None:
        return await desk.business.again(job_id, task_type, data)
    return Chance("what it works on is not known to this process" if task_type in DOCUMENT_TYPES else "")


def refusal(record: JobRecord, action: Action) -> str:
    """Return why an action is not among those that a job allows."""
    job, state = record.job, record.state
    if action is Action.CANCEL and state is JobState.CANCELLED:
        return "the job is cancelled already"
    if action is Action.CANCEL and state not in TERMINAL:
        if cancellable(job.type):
            return "the job names no tenant and document, so it cannot be cancelled by itself"
        return f"a job of type {job.type} is not cancelled by itself: cancel what it belongs to"
    return f"a job that is {state} cannot be {PAST[action]}"


async def cancel_scope(call: Call, scope: Scope) -> dict[str, Effect]:
    """Cancel what a scope has, and what its jobs would still enqueue; with documents, these too. Return what truly happened
    to each job.
    """
    desk, target = call.desk, (scope.kind, scope.id)
    async with recorded(call, SCOPE_CANCELLED, target) as entry:
        effects = await desk.inspector.effects(await _sweep(desk, scope))
        entry.details |= {effect: str(count) for effect, count in Counter(effects.values()).items()}
    return effects


async def _sweep(desk: Desk, scope: Scope) -> ScopeCancel:
    if scope.kind == "knowledge_base":
        return await _cancel_base(desk, scope.id)
    stopped: Sequence[ScopeCancel] = ()
    if scope.kind == "knowledge" and desk.business is not None:
        _, stopped = await desk.business.cancel_document(None, scope.id)
    return _together([*stopped, await desk.inspector.cancel_scope(scope.kind, scope.id)])


def _together(parts: Sequence[ScopeCancel]) -> ScopeCancel:
    """What still runs may have been told twice, and counts once."""
    cancelled = dict.fromkeys(job for part in parts for job in part.cancelled)
    signalled = dict.fromkeys(job for part in parts for job in part.signalled)
    return ScopeCancel(max(part.cut for part in parts), tuple(cancelled), tuple(signalled))


async def _cancel_base(desk: Desk, ident: str) -> ScopeCancel:
    """Its jobs first, so that nothing of it starts while its documents, which may be many, are cancelled."""
    done = await desk.inspector.cancel_knowledge_base(ident)
    documents = await desk.business.cancel_base(ident) if desk.business else ()
    if not documents:
        return done
    return _together([done, await desk.inspector.cancel_knowledge_base(ident, documents, cut=done.cut)])


async def set_paused(call: Call, queue: str, *, paused: bool) -> None:
    """Let a queue start nothing, or undo that."""
    see = call.desk.inspector
    known_queue(queue)
    deed = PAUSED if paused else RESUMED
    async with recorded(call, deed, ("task_queue", queue), queue=queue):
        await (see.pause if paused else see.resume)(queue)


async def purge(call: Call, queue: str) -> int:
    """Delete the archived jobs of a queue; return how many."""
    known_queue(queue)
    about = {"queue": queue, "task_id": ""}
    async with recorded(call, PURGED, ("task_queue", queue), **about) as entry:
        deleted = await call.desk.inspector.purge(queue)
        entry.details["deleted"] = str(deleted)
    return deleted


async def _cancel(call: Call, record: JobRecord) -> Acted:
    """Cancel the document that a job works on, and its jobs: the job alone would leave it open for ever. Where it is gone
    nobody can say whose the other jobs are that name it, so that a tenant's key does not reach them.
    """
    desk = call.desk
    if desk.business is None:
        raise Problem(
            503, "cancelling documents is not available in this process", "business_cancel_unavailable"
        )
    said, job_id = payload(record), record.job.id
    whose, stopped = await desk.business.cancel_document(said["tenant_id"], said["knowledge_id"])
    if whose is Belonging.GONE and call.who.tenant_id is None:
        stopped = [await desk.inspector.cancel_scope("knowledge", said["knowledge_id"])]
    effect = Effect.NOT_FOUND
    for done in stopped:
        if job_id in done.cancelled:
            effect = Effect.CANCELLED
        elif job_id in done.signalled:
            effect = Effect.SIGNALLED
    if effect not in DID_IT:
        effect = (await desk.inspector.act(Action.CANCEL, [job_id]))[job_id]
    if whose is Belonging.GONE:
        with suppress(JobNotFound, NotAllowed):
            await desk.inspector.delete(job_id)
    return Acted(effect, orphan=whose is Belonging.GONE)
