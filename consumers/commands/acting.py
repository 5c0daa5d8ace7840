"""`streamlane jobs cancel|run-now|delete`: acting on one job, on some, or on all that match."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from consumers.commands.jobs import Choice, Place
from consumers.commands.terminal import FAILED, OK, UNCHANGED, agreed, emit, out
from consumers.commands.wording import SAYS, checked, plain, scope_alone
from consumers.desk import by_hand
from contracts.jobs import Scope
from contracts.states import JobState, allowed
from contracts.topology import queue as known_queue
from pipeline.actions import Action, Effect
from pipeline.actions import allowed as allowed_of
from pipeline.errors import ConfigurationError, JobNotFound, NotAllowed
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem
from pipeline.http.steering import (
    DID_IT,
    TASK_DEEDS,
    Matching,
    act_on_records,
    act_on_task,
    cancel_scope,
    named,
)
from pipeline.records import Count, JobRecord
from pipeline.store.audit import Outcome

COMMANDS: Final[Mapping[Action, str]] = {
    Action.CANCEL: "cancel",
    Action.RUN_NOW: "run-now",
    Action.DELETE: "delete",
}


async def act(action: Action, choice: Choice, *, yes: bool, as_json: bool) -> int:
    """Do one thing to the jobs that were chosen, and say what that came to."""
    if bool(choice.ids) == choice.narrowed:
        how = "not both" if choice.ids else f"for example: streamlane jobs {COMMANDS[action]} --queue default"
        raise ConfigurationError(f"say which jobs: by their ids, or by filters that they match; {how}")
    if choice.queue:
        known_queue(choice.queue)
    checked(choice.filters)
    async with by_hand(f"jobs {COMMANDS[action]}") as call:
        if len(choice.ids) == 1:
            return await _act_on_one(call, action, choice.ids[0], as_json)
        if choice.ids:
            effects = await _act_on_named(call, action, choice.ids)
            return _tell(action, Counter(effects.values()), as_json, effects)
        counts = await _act_on_matching(call, action, choice, yes=yes)
    if counts is None:
        out.print(UNCHANGED)
        return FAILED
    return _tell(action, counts, as_json)


async def _act_on_one(call: Call, action: Action, job_id: str, as_json: bool) -> int:
    before = await call.desk.broker.job(job_id)
    effect = await act_on_one(call, action, job_id)
    if as_json:
        emit({"id": job_id, "action": action, "outcome": effect, "success": effect in DID_IT})
    else:
        out.print(_repeated(action, effect, before) or SENTENCES[effect])
    return OK if effect in DID_IT else FAILED


SENTENCES: Final[Mapping[Effect, str]] = {
    Effect.CANCELLED: "cancelled",
    Effect.SIGNALLED: "told to stop; it runs until its handler notices",
    Effect.TOO_LATE: "too late: it has ended",
    Effect.NOT_FOUND: "no job has this id (any more): streamlane jobs list names those there are",
    Effect.NOT_ALLOWED: "its state does not let it",
    Effect.RUN: "put in its queue",
    Effect.DELETED: "deleted",
}


def _repeated(action: Action, effect: Effect, before: JobRecord | None) -> str:
    """What is said of a cancel that was asked for before."""
    if action is not Action.CANCEL or before is None:
        return ""
    if before.state is JobState.CANCELLED:
        return "was cancelled already"
    again = before.cancel_requested and effect is Effect.SIGNALLED
    return "was told to stop already; it runs until its handler notices" if again else ""


async def act_on_one(call: Call, action: Action, job_id: str) -> Effect:
    """Do one thing to one job. One that a document waits for takes the document with it when it is cancelled: it would
    stay open for ever. Raises JobNotFound, NotAllowed; a cancel that comes too late only says so.
    """
    try:
        record = await call.desk.inspector.job(job_id)
    except JobNotFound as gone:
        async with recorded(call, TASK_DEEDS[action], ("queue_task", job_id), action=action.value) as entry:
            entry.outcome, entry.details["error"] = Outcome.DENIED, str(gone)
        if action is Action.CANCEL:
            return Effect.NOT_FOUND
        raise
    try:
        return await act_on_task(call, record.job.queue, job_id, action)
    except Problem as problem:
        if action is Action.CANCEL and problem.code in {"task_changed", "task_gone"}:
            return Effect.TOO_LATE
        if problem.code != "action_not_allowed":
            raise
        may = [COMMANDS[one] for one in allowed_of(record) if one is not action]
        raise NotAllowed(f"{problem.error}; it allows {' and '.join(may) or 'nothing'}") from None


async def _act_on_named(call: Call, action: Action, ids: Sequence[str]) -> dict[str, Effect]:
    records = {job_id: await call.desk.broker.job(job_id) for job_id in dict.fromkeys(ids)}
    effects = dict.fromkeys(records, Effect.NOT_FOUND)
    queues = dict.fromkeys(record.job.queue for record in records.values() if record)
    for queue in queues:
        theirs = [job_id for job_id, record in records.items() if record and record.job.queue == queue]
        done = await act_on_records(call, queue, action, named(call.desk, call.who, queue, theirs))
        effects |= {job_id: one.effect for job_id, one in done.items()}
    return effects


async def _act_on_matching(
    call: Call, action: Action, choice: Choice, *, yes: bool
) -> Counter[Effect] | None:
    """Act on all that match, if that is wanted; return how many fared how, None if it is not."""
    running = {JobState.ACTIVE} if action is Action.CANCEL else set()
    states = [state for state in JobState if allowed(state, action) or state in running]
    places, counted = await _count(call, choice, states)
    counts: Counter[Effect] = Counter()
    scope = None if choice.queue or choice.state else scope_alone(choice.filters)
    whole = scope if action is Action.CANCEL else None
    if not (counted.number or counted.more or whole):
        return counts
    if not await agreed(_question(action, counted, whole), yes=yes):
        return None
    if whole:
        return Counter((await cancel_scope(call, whole)).values())
    for queue, state in places:
        cursor: str | None = None
        while True:
            found = Matching(call.desk, call.who, queue, state, choice.filters.match, cursor)
            done = await act_on_records(call, queue, action, found.records())
            counts.update(one.effect for one in done.values())
            cursor = found.cursor
            if cursor is None:
                break
    return counts


def _question(action: Action, counted: Count, whole: Scope | None) -> str:
    asked = [SAYS(f"confirm.{action}", n=counted.number)]
    if counted.more:
        asked.append(SAYS("confirm.at_least"))
    if whole:
        asked.append(SAYS("confirm.cancel_scope", scope=str(whole)))
    asked.append(SAYS("confirm.cancel_scope.about" if whole else f"confirm.{action}.about"))
    return plain(" ".join(asked))


async def _count(call: Call, choice: Choice, states: Sequence[JobState]) -> tuple[list[Place], Count]:
    see, match = call.desk.inspector, choice.filters.match
    stats = {stat.name: stat for stat in await see.queues()}
    places: list[Place] = []
    number, more = 0, False
    for name, state in choice.places(states):
        if not getattr(stats[name], state):
            continue
        counted = await see.count(name, state, match)
        number, more = number + counted.number, more or counted.more
        if counted.number or counted.more:
            places.append((name, state))
    return places, Count(number, more)


def _tell(
    action: Action, counts: Mapping[Effect, int], as_json: bool, effects: Mapping[str, Effect] = {}
) -> int:
    told = {effect: n for effect, n in counts.items() if n}
    done = sum(n for effect, n in told.items() if effect in DID_IT)
    ok = done == sum(told.values()) if effects else done > 0 or not told
    if as_json:
        named = {"effects": dict(effects)} if effects else {}
        emit({"action": action, "success": ok, "counts": told, **named})
    else:
        said = [plain(SAYS(f"done.{effect}", n=n)) for effect, n in told.items()]
        out.print("; ".join(said) or "no job matches", markup=False)
    return OK if ok else FAILED
