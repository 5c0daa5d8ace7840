"""The admin API: what waits, runs and failed, and acting on it. Paths, bodies and codes are the platform's."""

from collections import Counter
from itertools import islice
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Depends, Path, Query, Request

from contracts.jobs import Scope
from pipeline.actions import Action, Effect
from pipeline.clock import now_ms
from pipeline.errors import StoreUnavailable
from pipeline.http import answers, steering
from pipeline.http.auth import needs
from pipeline.http.call import Call
from pipeline.http.desk import Desk, desk_of
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.inspector import LONGEST_PAGE, PAGE
from pipeline.projection import task_info
from pipeline.records import JobRecord, TaskFilter
from pipeline.store import dead_letters
from pipeline.store.keys import Capability

READ: Final = (Capability.SYSTEM_RUNTIME_READ, Capability.SYSTEM_RUNTIME_MANAGE)
MANAGE: Final = Capability.SYSTEM_RUNTIME_MANAGE
BASE: Final = "/api/v1/system/admin"

Reader = Annotated[Principal, Depends(needs(*READ))]
Overseer = Annotated[Principal, Depends(needs(*READ, platform=True))]
Here = Annotated[Desk, Depends(desk_of)]
Cursor = Annotated[str | None, Query(max_length=16_384, description="from `next_cursor`")]
ShortCursor = Annotated[str | None, Query(max_length=128, description="from `next_cursor`")]
"""Where a longer one could not have been given: 16,384 letters of any alphabet are more than a server reads of a line."""
PageSize = Annotated[int, Query(description=f"at most {LONGEST_PAGE}; less than 1 is {PAGE}")]
Named = Annotated[str, Path(json_schema_extra={"enum": list(Action)})]
"""An action; one that is not is refused as the platform does, not as a request that cannot be read."""
OfType = Annotated[str, Query(max_length=64)]
OfScope = Annotated[str, Query(max_length=170, description="kind:id")]
OfError = Annotated[str, Query(max_length=500, description="part of the last error")]

log = structlog.get_logger(component="http")
router = APIRouter(prefix=BASE, tags=["runtime"], responses=documented(401, 403))


def page_of(size: int) -> int:
    """Return how many rows a page gets that asks for so many."""
    return PAGE if size < 1 else min(size, LONGEST_PAGE)


@router.get("/runtime/queues")
async def queues(_who: Overseer, desk: Here) -> answers.Queues:
    """The queues and pools at a glance. What the store does not tell is left out: `available` is false then."""
    try:
        stats, pools = await desk.inspector.queues(), await desk.inspector.pools()
        available = True
    except StoreUnavailable as error:
        log.warning("the queue does not answer", error=str(error))
        stats, pools, available = [], [], False
    upstream = desk.settings.slots("core")
    return answers.Queues(
        available=available,
        upstream_concurrency=upstream,
        parse_concurrency=upstream,
        wiki_concurrency=desk.settings.slots("wiki"),
        pools=[answers.Pool.model_validate(pool) for pool in pools],
        queues=[answers.QueueRow.model_validate(stat) for stat in stats],
        model_limiter_available=False,
        models=[],
        timestamp=now_ms() // 1000,
    )


@router.get("/runtime/workers")
async def workers(_who: Overseer, desk: Here) -> answers.Workers:
    """The worker processes that live."""
    found = await desk.inspector.workers()
    return answers.Workers(workers=[answers.Worker.model_validate(worker) for worker in found])


@router.get("/runtime/history")
async def history(
    _who: Overseer, desk: Here, hours: Annotated[int, Query(ge=1, le=2160)] = 24
) -> answers.History:
    """What each queue did, hour by hour (UTC), the present hour last."""
    found = await desk.inspector.history(hours)
    return answers.History(hours=[answers.Hour.model_validate(hour) for hour in found])


@router.get("/runtime/queues/{queue}/tasks", responses=documented(400, 409), response_model_exclude_none=True)
async def tasks(  # each is a parameter of the query
    who: Reader,
    desk: Here,
    queue: str,
    *,
    state: str = "pending",
    cursor: Cursor = None,
    page_size: PageSize = PAGE,
    type: OfType = "",  # noqa: A002 - the name in the query
    scope: OfScope = "",
    error: OfError = "",
) -> answers.Tasks:
    """The jobs of a queue in a state. A cursor survives what comes and goes meanwhile."""
    steering.known_queue(queue)
    wanted = steering.known_scope(scope) or who.scope
    size = page_of(page_size)
    page = await desk.inspector.tasks(
        queue,
        steering.known_state(state),
        cursor or None,
        size,
        match=TaskFilter(type=type, scope=wanted, error=error),
    )
    living = {beat.worker for beat in await desk.inspector.workers()} if state == "active" else None
    theirs = [record for record in page.records if who.sees(record)]
    foreign = bool(page.records) and not theirs  # how many another tenant has is none of their business
    cursor = None if foreign else page.next_cursor
    return answers.Tasks(
        tasks=[answers.Task(**task_info(record, living=living)) for record in theirs],
        page_size=size,
        has_more=cursor is not None,
        next_cursor=cursor,
    )


@router.get("/runtime/tasks/{task_id}", responses=documented(404), response_model_exclude_none=True)
async def task(who: Reader, desk: Here, task_id: str) -> answers.TaskDetail:
    """A job: why it waits, what happened to it, how it was enqueued, what it descends from."""
    record = await desk.inspector.job(task_id)
    if not who.sees(record):
        raise Problem(404, f"no job {task_id} (any more)", "task_not_found")
    see = desk.inspector
    why, family, actions = await see.why(record), await see.relatives(record), await see.actions(record)
    async with desk.database.read() as sql:
        deaths = await dead_letters.of_job(sql, task_id)
    job = record.job
    return answers.TaskDetail(
        task=_task(record).model_copy(update={"allowed_actions": list(actions)}),
        why=[answers.WhyRow(code=reason.code, params=dict(reason.params)) for reason in why],
        history=[answers.HappeningRow.model_validate(happening) for happening in record.history],
        progress=answers.ProgressRow.model_validate(record.progress) if record.progress else None,
        cancel_requested=record.cancel_requested,
        crashes=job.crashes,
        options=answers.Options(
            timeout=job.timeout_ms / 1000 if job.timeout_ms else None,
            retention=job.retention_ms / 1000,
            deadline=job.deadline,
            unique_key=job.unique.key if job.unique else None,
            scopes=[str(scope) for scope in job.scopes],
        ),
        parent=_seen(who, family.parent),
        root=_seen(who, family.root),
        children=[_task(child) for child in family.children if who.sees(child)],
        more_children=family.more,
        dead_letters=[death.id for death in deaths],
    )


def _task(record: JobRecord) -> answers.Task:
    return answers.Task(**task_info(record))


def _seen(who: Principal, record: JobRecord | None) -> answers.Task | None:
    return _task(record) if record is not None and who.sees(record) else None


@router.post("/runtime/queues/{queue}/tasks/{task_id}/actions/{action}", responses=documented(400, 409))
async def act_on_task(
    request: Request,
    who: Annotated[Principal, Depends(needs(MANAGE, deed=steering.TASK_DEEDS))],
    queue: str,
    task_id: str,
    action: Named,
) -> answers.Success:
    """Cancel a job with the document it works on, run it now, or delete it."""
    await steering.act_on_task(Call.of(request, who), queue, task_id, action)
    return answers.Success()


@router.post(
    "/runtime/queues/{queue}/actions/{action}",
    responses=documented(400, 409),
    response_model_exclude_none=True,
)
async def act_on_queue(
    request: Request,
    who: Annotated[Principal, Depends(needs(MANAGE, deed=steering.BULK_DEEDS))],
    queue: str,
    action: Action,
    selection: answers.Selection,
) -> answers.Effects:
    """Do one thing to many jobs: those named, or some in a state that match, a thousand or for a second."""
    desk, cursor = desk_of(request), None
    steering.known_queue(queue)
    if selection.task_ids is not None:
        records = steering.named(desk, who, queue, selection.task_ids)
        done = await steering.act_on_records(Call.of(request, who), queue, action, records)
    elif selection.state is None:
        raise Problem(400, "name task_ids, or a state", "unknown_task_state")
    else:
        scope = steering.known_scope(selection.scope) or who.scope
        match = TaskFilter(type=selection.type, scope=scope, error=selection.error)
        found = steering.Matching(desk, who, queue, selection.state, match, selection.cursor)
        done = await steering.act_on_records(Call.of(request, who), queue, action, found.records())
        cursor = found.cursor
    effects = {job_id: one.effect for job_id, one in done.items()}
    return answers.Effects(
        effects=effects,
        counts=Counter(effects.values()),
        refusals={job_id: one.why for job_id, one in done.items() if one.why},
        next_cursor=cursor,
    )


@router.delete("/runtime/queues/{queue}/archived", responses=documented(400, 409))
async def purge(
    request: Request,
    who: Annotated[Principal, Depends(needs(MANAGE, deed=steering.PURGED, platform=True))],
    queue: str,
) -> answers.Deleted:
    """Delete the archived jobs of a queue."""
    return answers.Deleted(deleted=await steering.purge(Call.of(request, who), queue))


@router.post("/runtime/queues/{queue}/pause", responses=documented(400))
async def pause(
    request: Request,
    who: Annotated[Principal, Depends(needs(MANAGE, deed=steering.PAUSED, platform=True))],
    queue: str,
) -> answers.Success:
    """Let a queue start nothing."""
    await steering.set_paused(Call.of(request, who), queue, paused=True)
    return answers.Success()


@router.post("/runtime/queues/{queue}/resume", responses=documented(400))
async def resume(
    request: Request,
    who: Annotated[Principal, Depends(needs(MANAGE, deed=steering.RESUMED, platform=True))],
    queue: str,
) -> answers.Success:
    """Undo a pause."""
    await steering.set_paused(Call.of(request, who), queue, paused=False)
    return answers.Success()


@router.get("/runtime/scopes/{kind}", responses=documented(400))
async def scopes(_who: Overseer, desk: Here, kind: str) -> answers.QueuedIds:
    """Scopes of a kind that have a job that is not ended."""
    steering.known_scope(f"{kind}:any")
    return answers.QueuedIds(ids=sorted(await desk.inspector.queued_ids(kind)))


@router.get("/runtime/scopes/{kind}/{id}", responses=documented(400))
async def scope(
    _who: Overseer,
    desk: Here,
    kind: str,
    id: str,  # noqa: A002 - the name in the path
) -> answers.Queued:
    """Whether a scope has a job that is not ended."""
    found = _scope(kind, id)
    return answers.Queued(has_queued=await desk.inspector.has_queued(found.kind, found.id))


@router.post("/runtime/scopes/{kind}/{id}/cancel", responses=documented(400))
async def cancel_scope(
    request: Request,
    who: Annotated[Principal, Depends(needs(MANAGE, deed=steering.SCOPE_CANCELLED, platform=True))],
    kind: str,
    id: str,  # noqa: A002 - the name in the path
) -> answers.ScopeCancelled:
    """Cancel what a scope has, and what its jobs would still enqueue. What deletes a knowledge base still runs."""
    effects = await steering.cancel_scope(Call.of(request, who), _scope(kind, id))
    counts = Counter(effects.values())
    return answers.ScopeCancelled(
        cancelled=counts[Effect.CANCELLED],
        signalled=counts[Effect.SIGNALLED],
        too_late=counts[Effect.TOO_LATE],
        effects=dict(islice(effects.items(), answers.SHOWN_EFFECTS)),
        more=len(effects) > answers.SHOWN_EFFECTS,
    )


def _scope(kind: str, ident: str) -> Scope:
    try:
        return Scope(kind, ident)
    except ValueError as error:
        raise Problem(400, str(error), "invalid_scope") from None
