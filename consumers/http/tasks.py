"""Long work that people started: how far it is, and to stop it."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel

from consumers.http.callers import PREFIX, Reader, services_of, writer
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.tasks import Task
from contracts.knowledge import DocumentEffect as Effect
from contracts.tasks import TaskStatus
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.store import Outbox

router = APIRouter(prefix=f"{PREFIX}/tasks", tags=["tasks"], responses=documented(401, 403, 404))

TaskId = Annotated[str, Path(max_length=128)]


class TaskState(BaseModel):
    """How far a task is: `progress` is in percent, `failed` counts among the `processed`. Times are milliseconds since the
    epoch.
    """

    task_id: str
    kind: str
    knowledge_base_id: str
    status: TaskStatus
    progress: int
    total: int
    processed: int
    failed: int
    message: str
    error: str
    detail: dict[str, Any]
    created_at: int
    updated_at: int


class Started(BaseModel):
    """What was started, and whether its job is with the queue already."""

    task_id: str
    delivery: Delivery


class Stopped(BaseModel):
    """What became of a task that was to be stopped."""

    task_id: str
    effect: Effect
    delivery: Delivery


@router.get("/{task_id}")
async def task(request: Request, who: Reader, task_id: TaskId) -> TaskState:
    """One task, until a week after its end."""
    async with services_of(request).database.read() as sql:
        found = await tasks.find(sql, who.tenant_id, task_id)
    if found is None:
        raise _unknown(task_id)
    return state_of(found)


@router.post("/{task_id}/cancel", responses=documented(409))
async def cancel(
    request: Request, who: Annotated[Principal, writer("knowledge.task_canceled")], task_id: TaskId
) -> Stopped:
    """Stop a task; what it did until now stays."""
    outbox = services_of(request).outbox
    async with recorded(Call.of(request, who), "knowledge.task_canceled", ("task", task_id)):
        cut = await outbox.choose_cut()
        async with outbox.transaction() as sql:
            effect = await tasks.cancel(sql, who.tenant_id, task_id, cut)
        if effect is Effect.NOT_FOUND:
            raise _unknown(task_id)
        if effect is Effect.REFUSED:
            raise Problem(
                409, f"task {task_id} has ended, or is one that goes to its end", "action_not_allowed"
            )
    return Stopped(task_id=task_id, effect=effect, delivery=delivery_of(sql))


def state_of(row: Task) -> TaskState:
    """Return what is shown of a task."""
    done = row.status is TaskStatus.COMPLETED
    return TaskState(
        task_id=row.id,
        kind=row.kind,
        knowledge_base_id=row.knowledge_base_id,
        status=row.status,
        progress=100 if done else min(99, 100 * row.processed // row.total) if row.total else 0,
        total=row.total,
        processed=row.processed,
        failed=row.failed,
        message=row.message,
        error=row.error,
        detail=row.detail,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def delivery_of(session: Any) -> Delivery:
    """Say whether the jobs that a transaction asked for are with the queue."""
    return "done" if Outbox.delivered(session) else "pending"


def _unknown(task_id: str) -> Problem:
    return Problem(404, f"no task {task_id[:64]} (any more)", "task_not_found")
