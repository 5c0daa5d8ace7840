"""Bases copied, and documents moved to another base, over HTTP. Each is a task with a path of its own."""

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from consumers.http.callers import PREFIX, Reader, services_of, writer
from consumers.http.tasks import Started, TaskId, TaskState, delivery_of, state_of
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.tasks import Task
from consumers.knowledge.upkeep import transfers
from consumers.knowledge.upkeep.several import MOST, StrangeDocuments, distinct
from consumers.knowledge.upkeep.transfers import Conflict, NoKnowledgeBase
from consumers.services import Services
from contracts.payloads.maintenance import Initiator, KnowledgeBaseClone, KnowledgeMove
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(prefix=PREFIX, responses=documented(401, 403, 404))

CLONED = "kb.clone_started"
MOVED = "knowledge.move_started"
BaseId = Annotated[str, Field(min_length=1, max_length=64)]


class Copy(BaseModel):
    """Which base is to be made equal to which: `target_id` gets what it lacks and loses what it has too much."""

    model_config = ConfigDict(extra="forbid")

    source_id: BaseId
    target_id: BaseId


class CopyState(TaskState):
    """How far a copy is."""

    source_id: str
    target_id: str


class Move(BaseModel):
    """Which documents go where: with their vectors, or to be parsed again as the target wants it."""

    model_config = ConfigDict(extra="forbid")

    knowledge_ids: list[Annotated[str, Field(max_length=64)]] = Field(min_length=1, max_length=2 * MOST)
    source_kb_id: BaseId
    target_kb_id: BaseId
    mode: Literal["reuse_vectors", "reparse"] = "reuse_vectors"


class MoveState(TaskState):
    """How far a move is. What was not moved is in `detail.refused`, each with the reason."""

    source_kb_id: str
    target_kb_id: str


@router.post("/knowledge-bases/copy", tags=["knowledge bases"], responses=documented(409))
async def copy(request: Request, who: Annotated[Principal, writer(CLONED)], wanted: Copy) -> Started:
    """Make one base equal to another of the same tenant: nothing is parsed or embedded anew."""
    services = services_of(request)
    target = ("knowledge_base", wanted.target_id)
    async with recorded(Call.of(request, who), CLONED, target, source_id=wanted.source_id) as entry:
        tenant_id = await _tenant_of(services, who, wanted.target_id)
        try:
            async with services.outbox.transaction() as sql:
                task_id = await transfers.begin_clone(
                    sql, tenant_id, wanted.source_id, wanted.target_id, _initiator(who)
                )
        except (NoKnowledgeBase, Conflict) as problem:
            raise _problem(problem) from None
        entry.details["task_id"] = task_id
    return Started(task_id=task_id, delivery=delivery_of(sql))


@router.get("/knowledge-bases/copy/progress/{task_id}", tags=["knowledge bases"])
async def copy_progress(request: Request, who: Reader, task_id: TaskId) -> CopyState:
    """How far a copy is, until a week after its end."""
    found = await _task(services_of(request), who, task_id, KnowledgeBaseClone.spec.type)
    source = str(found.detail.get(tasks.SOURCE, ""))
    return CopyState(**state_of(found).model_dump(), source_id=source, target_id=found.knowledge_base_id)


@router.post("/knowledge/move", tags=["knowledge"], responses=documented(400, 409))
async def move(request: Request, who: Annotated[Principal, writer(MOVED)], wanted: Move) -> Started:
    """Move complete documents to another base of the same tenant, whose vectors are of the same model."""
    services, ids = services_of(request), distinct(wanted.knowledge_ids)
    target = ("knowledge_base", wanted.target_kb_id)
    about = {"source_kb_id": wanted.source_kb_id, "mode": wanted.mode}
    async with recorded(Call.of(request, who), MOVED, target, **about) as entry:
        if not 0 < len(ids) <= MOST:
            code = "too_many" if ids else "none_named"
            raise Problem(400, f"name 1 to {MOST} documents, not {len(ids)}", code)
        entry.details["knowledge_ids"] = " ".join(ids)
        tenant_id = await _tenant_of(services, who, wanted.target_kb_id)
        job = KnowledgeMove(
            tenant_id=tenant_id,
            task_id="",
            knowledge_ids=tuple(ids),
            source_kb_id=wanted.source_kb_id,
            target_kb_id=wanted.target_kb_id,
            mode=wanted.mode,
            initiator=_initiator(who),
        )
        try:
            async with services.outbox.transaction() as sql:
                task_id = await transfers.begin_move(sql, tenant_id, job)
        except (NoKnowledgeBase, StrangeDocuments, Conflict) as problem:
            raise _problem(problem) from None
        entry.details["task_id"] = task_id
    return Started(task_id=task_id, delivery=delivery_of(sql))


@router.get("/knowledge/move/progress/{task_id}", tags=["knowledge"])
async def move_progress(request: Request, who: Reader, task_id: TaskId) -> MoveState:
    """How far a move is, until a week after its end."""
    found = await _task(services_of(request), who, task_id, KnowledgeMove.spec.type)
    source = str(found.detail.get(tasks.SOURCE, ""))
    return MoveState(
        **state_of(found).model_dump(), source_kb_id=source, target_kb_id=found.knowledge_base_id
    )


async def _tenant_of(services: Services, who: Principal, kb_id: str) -> int:
    """Return the tenant on whose behalf somebody calls: their own, or that of the base."""
    if who.tenant_id is not None:
        return who.tenant_id
    async with services.database.read() as sql:
        kb = await sql.get(KnowledgeBase, kb_id)
    if kb is None:
        raise _problem(NoKnowledgeBase(kb_id))
    return kb.tenant_id


async def _task(services: Services, who: Principal, task_id: str, kind: str) -> Task:
    async with services.database.read() as sql:
        found = await tasks.find(sql, who.tenant_id, task_id)
    if found is None or found.kind != kind:
        raise Problem(404, f"no such task {task_id[:64]} (any more)", "task_not_found")
    return found


def _problem(problem: NoKnowledgeBase | StrangeDocuments | Conflict) -> Problem:
    if isinstance(problem, Conflict):
        return Problem(409, str(problem), "conflict")
    if isinstance(problem, StrangeDocuments):
        first = problem.ids[0][:64]
        return Problem(
            400, f"not all are documents of the source, such as {first}; nothing was done", "not_of_base"
        )
    return Problem(404, f"no knowledge base {problem.args[0][:64]} (any more)", "knowledge_base_not_found")


def _initiator(who: Principal) -> Initiator:
    return Initiator(user_id=who.id, role=who.role)
