"""Imports of questions with ready answers over HTTP (facts 1.15)."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from consumers.http.callers import PREFIX, Ident, Reader, base_of, services_of, writer
from consumers.http.receiving import received
from consumers.http.tasks import delivery_of
from consumers.knowledge.faq import importing
from consumers.knowledge.faq.importing import Plan, Source, Start
from consumers.knowledge.files.store import FileMissing
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.tasks import Task
from contracts.identity import new_id
from contracts.tasks import TaskStatus
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.audit import recorded
from pipeline.http.bodies import LONGEST_BODY, allow
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

BASE: Final = "/knowledge-bases/{id}/faq"
TASK_ID: Final = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$"
TaskId = Annotated[str, Field(pattern=TASK_ID)]
FORM: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}
Writer = Annotated[Principal, writer("knowledge.faq_imported")]

router = APIRouter(prefix=PREFIX, tags=["faq"], responses=documented(401, 403, 404))


class Import(BaseModel):
    """What to import: `append` adds, and merges with what is there; `replace` also removes what is not in it. A `dry_run`
    only says what it would do. A `task_id` of one's own makes asking again harmless.
    """

    model_config = ConfigDict(extra="forbid")

    entries: list[dict[str, Any]]
    mode: Literal["append", "replace"] = "append"
    dry_run: bool = False
    task_id: TaskId | None = None


class Imported(BaseModel):
    """The task that imports, and whether it was there already."""

    task_id: str
    duplicate: bool
    delivery: Delivery


class Progress(BaseModel):
    """How far an import is (facts 1.15). Times are milliseconds since the epoch."""

    task_id: str
    kb_id: str
    status: TaskStatus
    progress: int
    total: int
    processed: int
    success_count: int
    failed_count: int
    added_count: int
    merged_count: int
    removed_count: int
    failed_entries: list[dict[str, Any]]
    failed_entries_url: str | None
    dry_run: bool
    import_mode: str
    message: str
    error: str
    created_at: int
    updated_at: int


@router.post(f"{BASE}/import", status_code=202, responses=documented(400, 507))
async def start_import(request: Request, who: Writer, id: Ident, wanted: Import) -> Imported:  # noqa: A002
    """Start an import of entries; one runs for a base at a time."""
    task_id = wanted.task_id or new_id()
    plan = Plan(task_id=task_id, mode=wanted.mode, dry_run=wanted.dry_run, user=who.id, role=who.role)
    files = services_of(request).files
    return await _start(request, who, id, plan, lambda: importing.stored(files, task_id, wanted.entries))


@router.post(f"{BASE}/import/file", status_code=202, responses=documented(400, 415, 507), openapi_extra=FORM)
async def start_import_of_file(
    request: Request,
    who: Writer,
    id: Ident,  # noqa: A002 - the name in the path
    mode: Literal["append", "replace"] = "append",
    dry_run: bool = False,
    task_id: Annotated[str | None, Query(pattern=TASK_ID)] = None,
) -> Imported:
    """Start an import of a file of CSV, XLSX or JSON."""
    services, named = services_of(request), task_id or new_id()
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Problem(415, "send a form with one file (multipart/form-data)", "unsupported_content_type")
    allow(request, (services.settings.max_file_mb << 20) + LONGEST_BODY)
    plan = Plan(task_id=named, mode=mode, dry_run=dry_run, user=who.id, role=who.role)
    async with received(request) as uploads:
        if len(uploads) != 1:
            raise Problem(400, "send one file", "too_many_files")
        sent = uploads[0]
        return await _start(
            request,
            who,
            id,
            plan,
            lambda: importing.stored_file(services.files, named, sent.path, sent.name),
        )


async def _start(
    request: Request, who: Principal, kb_id: str, plan: Plan, source: Callable[[], Awaitable[Source]]
) -> Imported:
    services = services_of(request)
    call, about = Call.of(request, who), {"kb_id": kb_id}
    async with recorded(call, "knowledge.faq_imported", ("task", plan.task_id), **about):
        kb = await base_of(services, who, kb_id)
        started, sql = await importing.begin(services.outbox, services.files, kb, plan, await source())
        if started is Start.BUSY:
            raise Problem(400, "another import of this base is running: wait, or cancel it", "import_running")
        if started is Start.FOREIGN:
            said = f"the task id {plan.task_id} is taken by other work: choose another"
            raise Problem(400, said, "task_id_taken")
    return Imported(task_id=plan.task_id, duplicate=started is Start.THERE, delivery=delivery_of(sql))


@router.get("/faq/import/progress/{task_id}")
async def progress(request: Request, who: Reader, task_id: Annotated[str, Path(max_length=128)]) -> Progress:
    """How far an import is."""
    return _progress(await _import(request, who, task_id))


@router.get(
    "/faq/import/progress/{task_id}/failed.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}}},
)
async def failed_rows(
    request: Request, who: Reader, task_id: Annotated[str, Path(max_length=128)]
) -> Response:
    """The rows that could not be taken, each with its number and why, for a spreadsheet."""
    task = await _import(request, who, task_id)
    try:
        data = await services_of(request).files.read(str(task.detail["failed_entries_url"]))
    except (KeyError, ValueError, FileMissing):
        raise Problem(404, "no row failed (as far as it is known)", "nothing_failed") from None
    headers = {"Content-Disposition": 'attachment; filename="failed.csv"'}
    return Response(data, media_type="text/csv; charset=utf-8", headers=headers)


async def _import(request: Request, who: Principal, task_id: str) -> Task:
    async with services_of(request).database.read() as sql:
        found = await tasks.find(sql, who.tenant_id, task_id)
    if found is None or found.kind != "faq:import":
        raise Problem(404, f"no import {task_id[:64]} (any more)", "task_not_found")
    return found


def _progress(task: Task) -> Progress:
    told = task.detail
    written = int(told.get("written", 0))
    done = task.status is TaskStatus.COMPLETED
    return Progress(
        task_id=task.id,
        kb_id=task.knowledge_base_id,
        status=task.status,
        progress=100 if done else min(99, 100 * task.processed // task.total) if task.total else 0,
        total=task.total,
        processed=task.processed,
        success_count=written,
        failed_count=task.failed,
        added_count=int(told.get("added", 0)),
        merged_count=int(told.get("merged", 0)),
        removed_count=int(told.get("removed", 0)),
        failed_entries=told.get("failed_entries", []),
        failed_entries_url=f"{PREFIX}/faq/import/progress/{task.id}/failed.csv"
        if told.get("failed_entries_url")
        else None,
        dry_run=bool(told.get("dry_run")),
        import_mode=str(told.get("mode", "")),
        message=task.message,
        error=task.error,
        created_at=task.created_at,
        updated_at=task.updated_at,
    )
