"""Questions with ready answers over HTTP: imported, kept one by one, searched."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from consumers.http.callers import PREFIX, Ident, Reader, base_of, services_of, writer
from consumers.http.receiving import received
from consumers.http.tasks import delivery_of
from consumers.knowledge import faq, faq_asking, faq_importing, tasks
from consumers.knowledge.faq_importing import Plan, Source, Start
from consumers.knowledge.faq_reading import (
    LONGEST_ANSWER,
    LONGEST_QUESTION,
    MOST_ANSWERS,
    MOST_FORMS,
    Written,
    check,
)
from consumers.knowledge.files import FileMissing, FileStoreError, FileStoreFull
from consumers.knowledge.tables_faq import FAQEntry
from consumers.knowledge.tables_tasks import Task
from contracts.identity import new_id
from contracts.tasks import TaskStatus
from pipeline.http.admin import PageSize, page_of
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.audit import recorded
from pipeline.http.bodies import LONGEST_BODY, allow
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.inspector import PAGE

BASE: Final = "/knowledge-bases/{id}/faq"

router = APIRouter(prefix=PREFIX, tags=["faq"], responses=documented(401, 403, 404))

Question = Annotated[str, Field(max_length=LONGEST_QUESTION)]
Questions = Annotated[list[Question], Field(max_length=MOST_FORMS)]
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
EntryId = Annotated[str, Path(max_length=64)]
Writer = Annotated[Principal, writer("knowledge.faq_changed")]


class Entry(BaseModel):
    """A question, other forms of it, questions that seem near and are not meant, and its answers."""

    model_config = ConfigDict(extra="forbid")

    question: Question
    answers: Annotated[list[Annotated[str, Field(max_length=LONGEST_ANSWER)]], Field(max_length=MOST_ANSWERS)]
    similar_questions: Questions = []
    negative_questions: Questions = []
    enabled: bool = True


class StoredEntry(Entry):
    """An entry as it is kept. Times are milliseconds since the epoch."""

    id: str
    created_at: int
    updated_at: int


class Entries(BaseModel):
    """Some entries of a base, by id."""

    entries: Sequence[StoredEntry]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


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


class Asked(BaseModel):
    """What somebody wants to know."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=2_000)]
    limit: Annotated[int, Field(ge=1, le=50)] = 5


class Match(BaseModel):
    """An entry that fits, and how well, 0 to 1."""

    entry: StoredEntry
    score: float


class Matches(BaseModel):
    """The entries that fit, best first."""

    matches: Sequence[Match]


class Chosen(BaseModel):
    """Entries by id."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=200)]


class Deleted(BaseModel):
    """How many were there."""

    deleted: int


@router.post(f"{BASE}/import", status_code=202, responses=documented(400))
async def start_import(request: Request, who: Writer, id: Ident, wanted: Import) -> Imported:  # noqa: A002
    """Start an import of entries; one runs for a base at a time."""
    task_id = wanted.task_id or new_id()
    plan = Plan(task_id=task_id, mode=wanted.mode, dry_run=wanted.dry_run, user=who.id, role=who.role)
    files = services_of(request).files
    return await _start(request, who, id, plan, lambda: faq_importing.stored(files, task_id, wanted.entries))


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
    try:
        async with received(request) as uploads:
            if len(uploads) != 1:
                raise Problem(400, "send one file", "too_many_files")
            sent = uploads[0]
            return await _start(
                request,
                who,
                id,
                plan,
                lambda: faq_importing.stored_file(services.files, named, sent.path, sent.name),
            )
    except FileStoreFull as error:
        raise Problem(507, str(error), "file_store_full") from None
    except FileStoreError as error:
        raise Problem(503, str(error), "store_unavailable") from None


async def _start(
    request: Request, who: Principal, kb_id: str, plan: Plan, source: Callable[[], Awaitable[Source]]
) -> Imported:
    services = services_of(request)
    call, about = Call.of(request, who), {"kb_id": kb_id}
    async with recorded(call, "knowledge.faq_imported", ("task", plan.task_id), **about):
        kb = await base_of(services, who, kb_id)
        given = await source()
        async with services.outbox.transaction() as sql:
            started = await faq_importing.begin(sql, kb, plan, given)
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


@router.get(f"{BASE}/entries", response_model_exclude_none=True)
async def entries(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    contains: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str, Query(max_length=64)] = "",
    page_size: PageSize = PAGE,
) -> Entries:
    """Entries of a base by id, those whose question contains something."""
    services, size = services_of(request), page_of(page_size)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        found = await faq.entries_of(sql, kb.id, cursor, size + 1, contains)
    shown = [_shown(row) for row in found[:size]]
    more = len(found) > size
    return Entries(entries=shown, page_size=size, has_more=more, next_cursor=shown[-1].id if more else None)


@router.post(f"{BASE}/entries", status_code=201, responses=documented(400, 409))
async def add_entry(request: Request, who: Writer, id: Ident, said: Entry) -> StoredEntry:  # noqa: A002
    """Add a question that is not there yet."""
    return await _write(request, who, id, said, None)


@router.get(f"{BASE}/entries/{{entry_id}}")
async def one_entry(request: Request, who: Reader, id: Ident, entry_id: EntryId) -> StoredEntry:  # noqa: A002
    """One entry."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        found = await faq.entry(sql, kb.id, entry_id)
    if found is None:
        raise _unknown(entry_id)
    return _shown(found)


@router.put(f"{BASE}/entries/{{entry_id}}", responses=documented(400, 409))
async def change_entry(
    request: Request,
    who: Writer,
    id: Ident,  # noqa: A002 - the name in the path
    entry_id: EntryId,
    said: Entry,
) -> StoredEntry:
    """Write an entry anew. Where the question itself changes, the entry gets another id."""
    return await _write(request, who, id, said, entry_id)


@router.post(f"{BASE}/entries/delete")
async def delete_entries(request: Request, who: Writer, id: Ident, chosen: Chosen) -> Deleted:  # noqa: A002
    """Delete entries; those that are not there are not counted."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with recorded(Call.of(request, who), "knowledge.faq_deleted", ("knowledge_base", id)) as noted:
        async with services.outbox.transaction() as sql:
            gone = await faq.delete_entries(sql, services.search, kb.id, chosen.ids)
        noted.details["deleted"] = str(gone)
    return Deleted(deleted=gone)


@router.post(f"{BASE}/search")
async def search(request: Request, who: Reader, id: Ident, asked: Asked) -> Matches:  # noqa: A002
    """The entries that fit a question best."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    found = await faq_asking.fitting(services, kb, asked.query, asked.limit)
    return Matches(matches=[Match(entry=_shown(row), score=round(score, 4)) for row, score in found])


async def _write(
    request: Request, who: Principal, kb_id: str, said: Entry, entry_id: str | None
) -> StoredEntry:
    services = services_of(request)
    kb = await base_of(services, who, kb_id)
    written = check(said.model_dump())
    if not isinstance(written, Written):
        raise Problem(400, f"this entry cannot be taken: {written}", "invalid_entry")
    ident = faq.entry_id(kb.id, written.question)
    async with recorded(Call.of(request, who), "knowledge.faq_changed", ("faq_entry", entry_id or ident)):
        async with services.database.read() as sql:
            known = await faq.known_entries(sql, [one for one in (ident, entry_id) if one])
        if entry_id is not None and (entry_id not in known or known[entry_id].knowledge_base_id != kb.id):
            raise _unknown(entry_id)
        if ident in known and ident != entry_id:
            raise Problem(409, f"this question is there already, as {ident}", "faq_entry_exists")
        await faq_asking.write_one(services, kb, written, replaces=entry_id)
        async with services.database.read() as sql:
            row = await faq.entry(sql, kb.id, ident)
    if row is None:
        raise _unknown(ident)
    return _shown(row)


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


def _shown(row: FAQEntry) -> StoredEntry:
    return StoredEntry(
        id=row.id,
        question=row.question,
        answers=row.answers,
        similar_questions=row.similar_questions,
        negative_questions=row.negative_questions,
        enabled=row.enabled,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _unknown(entry_id: str) -> Problem:
    return Problem(404, f"no entry {entry_id[:64]} (any more)", "faq_entry_not_found")
