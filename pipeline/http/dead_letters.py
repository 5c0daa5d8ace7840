"""Deaths of jobs: listed by what they were about, replayed one, many or all, deleted."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request

from contracts.identity import derive_id
from contracts.jobs import JobPayload, payload_type
from contracts.states import JobState
from contracts.wire import decode
from pipeline.client import Enqueue, Origin, Producer
from pipeline.errors import (
    ConfigurationError,
    JobNotFound,
    NotAllowed,
    PartialEnqueue,
    StoreUnavailable,
    StreamlaneError,
)
from pipeline.http import answers
from pipeline.http.admin import BASE, MANAGE, Here, OfError, OfScope, PageSize, Reader, page_of
from pipeline.http.audit import recorded
from pipeline.http.auth import needs
from pipeline.http.call import Call
from pipeline.http.desk import Desk
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.http.steering import another_chance, known_reason, known_scope, run_again
from pipeline.inspector import PAGE
from pipeline.projection import task_info
from pipeline.store import dead_letters as rows
from pipeline.store.audit import Outcome
from pipeline.store.dead_letters import Letter, Narrowed

REPLAYED: Final = "system.dead_letter_replayed"
DELETED: Final = "system.dead_letter_deleted"
AGAIN: Final = "if its job dies again, that is a dead letter of its own"
AT_ONCE: Final = 1_000
"""Deaths of one action at most, so that it ends soon."""
LARGEST: Final = 2**63 - 1

LetterId = Annotated[int, Path(ge=1, le=LARGEST)]
Cursor = Annotated[int | None, Query(ge=1, le=LARGEST, description="from `next_cursor`")]
Replayer = Annotated[Principal, Depends(needs(MANAGE, deed=REPLAYED))]
Deleter = Annotated[Principal, Depends(needs(MANAGE, deed=DELETED))]

router = APIRouter(prefix=f"{BASE}/runtime", tags=["dead letters"], responses=documented(401, 403))


@router.get("/dead-letters", responses=documented(400), response_model_exclude_none=True)
async def dead_letters(  # each is a parameter of the query
    who: Reader,
    desk: Here,
    *,
    scope: OfScope = "",
    type: Annotated[str | None, Query(max_length=64)] = None,  # noqa: A002 - the name in the query
    reason: Annotated[str | None, Query(max_length=32)] = None,
    error: OfError = "",
    replayed: bool = False,
    cursor: Cursor = None,
    page_size: PageSize = PAGE,
) -> answers.Letters:
    """Deaths, the last first: those that were not replayed, or those that were."""
    narrowed, size = _narrowed(who, scope, type, reason, error, replayed=replayed), page_of(page_size)
    async with desk.database.read() as sql:
        found = await rows.listed(sql, narrowed, size + 1, cursor)
        groups = await rows.counted(sql, narrowed)
    more = len(found) > size
    return answers.Letters(
        dead_letters=[answers.LetterRow.model_validate(letter) for letter in found[:size]],
        groups=[
            answers.LetterGroup(reason=why, task_type=name, count=n) for (why, name), n in groups.items()
        ],
        page_size=size,
        has_more=more,
        next_cursor=str(found[size - 1].id) if more else None,
    )


@router.get("/dead-letters/{id}", responses=documented(404), response_model_exclude_none=True)
async def dead_letter(who: Reader, desk: Here, id: LetterId) -> answers.LetterDetail:  # noqa: A002
    """A death, and its job if that is still there."""
    (letter,) = await chosen(desk, who, [id])
    record = await desk.broker.job(letter.job_id)
    task = answers.Task(**task_info(record)) if record is not None and who.sees(record) else None
    return answers.LetterDetail(dead_letter=answers.LetterRow.model_validate(letter), task=task)


@router.post("/dead-letters/{id}/replay", responses=documented(404, 409))
async def replay_one(request: Request, who: Replayer, id: LetterId) -> answers.Success:  # noqa: A002
    """Give a job another chance: it runs once more, or, if it is no longer kept, a new one of its payload does; a document
    that failed with it is parsed again.
    """
    effects = await replay(Call.of(request, who), [id])
    if effects[id] == "not_found":
        raise _missing()
    if effects[id] == AGAIN:
        raise Problem(409, f"this death was replayed already; {AGAIN}", "already_replayed")
    if effects[id] != "replayed":
        raise Problem(409, f"this death cannot be replayed: {effects[id]}", "not_replayable")
    return answers.Success()


@router.post("/dead-letters/replay", responses=documented(400))
async def replay_many(
    request: Request, who: Replayer, desk: Here, selection: answers.LetterSelection
) -> answers.LetterEffects:
    """Replay the deaths named, or at most a thousand that match, the oldest last."""
    ids, more = await _selected(desk, who, selection)
    return _effects(await replay(Call.of(request, who), ids), more=more)


@router.delete("/dead-letters/{id}", responses=documented(404))
async def delete_one(request: Request, who: Deleter, id: LetterId) -> answers.Deleted:  # noqa: A002
    """Delete a death, and its job if that is still archived."""
    if not await delete(Call.of(request, who), [id]):
        raise _missing()
    return answers.Deleted(deleted=1)


@router.post("/dead-letters/delete", responses=documented(400))
async def delete_many(
    request: Request, who: Deleter, desk: Here, selection: answers.LetterSelection
) -> answers.Deleted:
    """Delete the deaths named, or at most a thousand that match, and their jobs that are still archived."""
    ids, _ = await _selected(desk, who, selection)
    return answers.Deleted(deleted=await delete(Call.of(request, who), ids))


async def replay(call: Call, ids: Sequence[int]) -> dict[int, str]:
    """Give the jobs of these deaths another chance; return of each what came of it: replayed, or why not."""
    desk = call.desk
    target = ("dead_letter", str(ids[0]) if len(ids) == 1 else "")
    async with recorded(call, REPLAYED, target, count=str(len(ids))) as entry:
        letters = {letter.id: letter for letter in await _theirs(desk, call.who, ids)}
        effects: dict[int, str] = {}
        try:
            for one in ids:
                effects[one] = await _replay(desk, letters[one]) if one in letters else "not_found"
        finally:  # also of some before the queue went away: who repeats this is not to run those twice
            done = [one for one, effect in effects.items() if effect == "replayed"]
            entry.details["replayed"] = str(len(done))
            async with desk.database.transaction() as sql:
                await rows.mark_replayed(sql, done)
        if len(done) < len(ids):
            entry.outcome = Outcome.PARTIAL if done else Outcome.DENIED
    return effects


async def delete(call: Call, ids: Sequence[int]) -> int:
    """Delete deaths, and their jobs that are still archived; return how many there were."""
    desk = call.desk
    target = ("dead_letter", str(ids[0]) if len(ids) == 1 else "")
    async with recorded(call, DELETED, target, count=str(len(ids))) as entry:
        letters = await _theirs(desk, call.who, ids)
        for letter in letters:
            record = await desk.broker.job(letter.job_id)
            if record is not None and record.state is JobState.ARCHIVED:
                with suppress(JobNotFound, NotAllowed):
                    await desk.inspector.delete(letter.job_id)
        async with desk.database.transaction() as sql:
            count = await rows.remove(sql, [letter.id for letter in letters])
        entry.details["deleted"] = str(count)
        if count < len(ids):
            entry.outcome = Outcome.PARTIAL if count else Outcome.DENIED
    return count


async def chosen(desk: Desk, who: Principal, ids: Sequence[int]) -> list[Letter]:
    """Return these deaths. Raises Problem 404 when one is not there, or another tenant's."""
    letters = await _theirs(desk, who, ids)
    if len(letters) < len(ids):
        raise _missing()
    return letters


def _missing() -> Problem:
    return Problem(404, "no such dead letter", "dead_letter_not_found")


async def _theirs(desk: Desk, who: Principal, ids: Sequence[int]) -> list[Letter]:
    async with desk.database.read() as sql:
        letters = await rows.by_id(sql, ids)
    return [letter for letter in letters if who.tenant_id in {None, letter.tenant_id}]


async def _selected(desk: Desk, who: Principal, selection: answers.LetterSelection) -> tuple[list[int], bool]:
    if not selection.says_which:
        raise Problem(
            400, 'say which dead letters: ids, a filter that they match, or "all": true', "nothing_selected"
        )
    if selection.ids is not None:
        return list(dict.fromkeys(selection.ids)), False
    narrowed = _narrowed(who, selection.scope, selection.type, selection.reason, selection.error)
    async with desk.database.read() as sql:
        found = await rows.listed(sql, narrowed, AT_ONCE + 1)
    return [letter.id for letter in found[:AT_ONCE]], len(found) > AT_ONCE


async def _replay(desk: Desk, letter: Letter) -> str:
    if letter.replayed_at:
        return AGAIN
    record = await desk.broker.job(letter.job_id)
    try:
        if record is None:
            return await _enqueue_again(desk, letter)
        if record.state is not JobState.ARCHIVED:
            return f"its job is {record.state}"
        return await run_again(desk, record) or "replayed"
    except (JobNotFound, NotAllowed) as error:  # somebody was faster
        return str(error)


async def _enqueue_again(desk: Desk, letter: Letter) -> str:
    """The id is derived, so that two who replay the same death make one job."""
    chance = await another_chance(desk, letter.job_id, letter.task_type, letter.payload)
    if chance.refusal or chance.afresh:
        return chance.refusal or "replayed"
    payload = payload_type(letter.task_type)
    if payload is None:
        return f"its job is no longer kept, and this process does not know the type {letter.task_type}"
    try:
        item = _again(payload.decode(letter.payload), letter)
        await Producer(desk.broker, desk.settings).enqueue_many([item])
    except (PartialEnqueue, StoreUnavailable):
        raise
    except (ValueError, StreamlaneError):
        return "its job is no longer kept, and its payload cannot be read"
    return "replayed"


def _again(payload: JobPayload, letter: Letter) -> Enqueue:
    """The job as it was asked for, with its parent, root and trace. A person asks for it now: no older cancel is meant."""
    job_id = derive_id("replay", letter.death_id)
    try:
        was = decode({"type": letter.task_type, "data": letter.payload, "opts": letter.options}, letter.queue)
        return Enqueue(
            payload,
            id=job_id,
            queue=letter.queue,
            max_retry=was.max_retry,
            timeout=was.timeout_ms / 1000 or None,
            retention=was.retention_ms / 1000,
            origin=Origin(was.parent_id, was.root_id or letter.job_id, 0, was.trace),
        )
    except (ValueError, ConfigurationError):  # of a poison the payload may be good, or its queue be gone
        return Enqueue(payload, id=job_id)


def _narrowed(
    who: Principal,
    scope: str,
    task_type: str | None,
    reason: str | None,
    error: str | None,
    *,
    replayed: bool = False,
) -> Narrowed:
    about = known_scope(scope)
    return Narrowed(
        tenant_id=who.tenant_id,
        task_type=task_type or None,
        scope=about.kind if about else None,
        scope_id=about.id if about else None,
        reason=known_reason(reason),
        error=error,
        replayed=replayed,
    )


def _effects(effects: dict[int, str], *, more: bool) -> answers.LetterEffects:
    return answers.LetterEffects(effects=effects, counts=dict(Counter(effects.values())), more=more)
