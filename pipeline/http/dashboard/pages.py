"""The pages that only show."""

import asyncio
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from contracts.knowledge import ParseStatus
from contracts.states import TERMINAL, JobState
from contracts.topology import QUEUES
from contracts.topology import queue as known_queue
from pipeline.actions import Action, allowed
from pipeline.clock import now_ms
from pipeline.errors import CursorInvalid, JobNotFound
from pipeline.http.dashboard import document_acts, document_view, job_view, views
from pipeline.http.dashboard.filters import LARGEST, Filters, before_of, number
from pipeline.http.dashboard.frame import PageRoute, Visit, query_with
from pipeline.http.documents import DocumentPage, Wanted
from pipeline.projection import task_info
from pipeline.records import Page
from pipeline.store import audit, people

PAGE: Final = 50
NAMED: Final = 12
"""Things that a document is shown to name."""
Attempt = Annotated[int, Query(ge=0, le=LARGEST)]
LEVELS: Final = {
    "fenced": "warn",
    "paused": "warn",
    "no_worker": "bad",
    "unknown_type": "bad",
    "store_away": "warn",
    "delayed": "later",
}

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def overview(visit: Visit) -> Response:
    """Everything at a glance."""
    see = visit.desk.inspector
    stats, pools, hours = await asyncio.gather(see.queues(), see.pools(), see.history(views.HOURS))
    strange = await see.strange(stats, pools, visit.desk.handled)
    unsent = await see.unsent.waiting() if see.unsent else (0, 0)
    view = views.overview(stats, pools, hours, now_ms(), strange, unsent)
    return await visit.page("overview.html", "overview", view=view, old_ms=views.OLD_MS, models=())


@router.get("/queues/{name}")
async def queue(visit: Visit, name: str, state: str = "", cursor: str = "") -> Response:
    """One queue: its jobs by state, and what to do with them."""
    found, see = known_queue(name), visit.desk.inspector
    stat = next(one for one in await see.queues() if one.name == name)
    shown = JobState(state) if state in set(JobState) else views.first_state(stat)
    filters = Filters.read(visit.request.query_params)
    problem, page = f"filter.{filters.problem}" if filters.problem else "", Page((), None)
    if state and shown != state:
        problem = "filter.bad_state"
    matching = None
    if not problem:
        try:
            page = await see.tasks(name, shown, cursor or None, PAGE, match=filters.match)
            if page.next_cursor and filters.any:
                matching = await see.count(name, shown, filters.match)
        except CursorInvalid:
            problem = "problem.cursor"
    scope = None if filters.problem else filters.match.scope
    types = views.types(name, page.records, filters.type)
    verbs = views.verbs(shown, types)
    return await visit.page(
        "queue.html",
        stat=stat,
        about="" if visit.t.code != "en" else found.about,
        queues=list(QUEUES),
        counts=views.counts(stat),
        state=shown,
        filters=filters.shown,
        filtered=filters.any,
        types=types,
        rows=page.records,
        used=job_view.attempts,
        verbs=verbs,
        scope=scope,
        by_scope=shown not in TERMINAL and Action.CANCEL not in verbs,
        problem=visit.t(problem) if problem else "",
        cursor=cursor,
        next_cursor=page.next_cursor,
        matching=matching,
        query_with=lambda **changes: query_with(visit.request, **{"state": shown.value, **changes}),
    )


@router.get("/jobs/{job_id}")
async def job(visit: Visit, job_id: str) -> Response:
    """One job: where it stands and why, what happened to it, and what can be done."""
    see, now = visit.desk.inspector, now_ms()
    record = await see.job(job_id)
    why, actions, relatives, workers = await asyncio.gather(
        see.why(record), see.actions(record), see.relatives(record), see.workers()
    )
    info = task_info(record, why, living={beat.worker for beat in workers})
    return await visit.page(
        "job.html",
        topic=f"job:{job_id}",
        record=record,
        job=record.job,
        actions=actions,
        fenced=Action.RUN_NOW in allowed(record) and Action.RUN_NOW not in actions,
        why=why,
        waits_next=record.state is JobState.PENDING and not why,
        levels=LEVELS,
        orphaned=bool(info.get("is_orphaned")),
        about=job_view.about(record),
        used=job_view.attempts(record),
        events=job_view.events(record, now),
        stretches=job_view.stretches(record, now),
        relatives=relatives,
        documents=visit.desk.documents is not None,
    )


@router.get("/workers")
async def workers(visit: Visit) -> Response:
    """Who works, and on how much."""
    see = visit.desk.inspector
    beats, pools = await asyncio.gather(see.workers(), see.pools())
    beats.sort(key=lambda beat: (beat.host, beat.started_at))
    return await visit.page("workers.html", "workers", workers=beats, pools=pools)


@router.get("/documents")
async def document_list(
    visit: Visit, status: str = "", name: str = "", tenant: str = "", cursor: str = ""
) -> Response:
    """Documents, those that moved last first."""
    if visit.desk.documents is None:
        return RedirectResponse("/", 303)
    filters = Filters.read({"tenant": tenant})
    problem, page = f"filter.{filters.problem}" if filters.problem else "", DocumentPage(())
    if status and status not in set(ParseStatus):
        problem = "filter.bad_state"
    wanted = Wanted(status, name.strip()[:200], number(filters.tenant), cursor, counted=True)
    if not problem:
        try:
            page = await visit.desk.documents.page(wanted, PAGE)
        except CursorInvalid:
            problem = "problem.cursor"
    return await visit.page(
        "documents.html",
        "documents",
        rows=page.rows,
        counts=page.counts,
        filters={"status": status, "name": name, "tenant": tenant},
        filtered=bool(name or tenant),
        problem=visit.t(problem) if problem else "",
        cursor=cursor,
        next_cursor=page.next_cursor,
        query_with=lambda **changes: query_with(visit.request, **changes),
    )


@router.get("/documents/{document_id}")
async def document(visit: Visit, document_id: str, attempt: Attempt = 0) -> Response:
    """One document and the timeline of a parse of it."""
    keeper, now = visit.desk.documents, now_ms()
    story = await keeper.story(document_id, attempt or None) if keeper else None
    if story is None:
        t = visit.t
        return await visit.page(
            "problem.html", status=404, title=t("problem.document"), text=t("problem.document.about")
        )
    pages = await visit.desk.wikis.about(document_id) if visit.desk.wikis else ()
    base_id, named = await visit.desk.graphs.named_by(document_id, NAMED) if visit.desk.graphs else ("", ())
    return await visit.page(
        "document.html",
        "documents",
        pages=pages,
        base_id=base_id,
        named=named,
        story=story,
        d=story.document,
        bars=document_view.lines(story, now),
        total_ms=document_view.total_ms(story, now),
        queues=document_view.QUEUES,
        verbs=document_acts.offered(story.document.status),
    )


@router.get("/audit")
async def audit_log(visit: Visit, cursor: str = "") -> Response:
    """Who did what, the newest first."""
    before = before_of(cursor)
    async with visit.desk.database.read() as sql:
        rows = await audit.listed(sql, PAGE + 1, before)
        names = await people.names_by_id(sql)
    more = str(rows[PAGE - 1].id) if len(rows) > PAGE else ""
    return await visit.page(
        "audit.html", "audit", rows=rows[:PAGE], names=names, cursor=cursor, next_cursor=more
    )


@router.get("/find")
async def find(visit: Visit, request: Request) -> Response:
    """Lead to the job or document with this id."""
    ident = request.query_params.get("id", "").strip()
    if not ident:
        return RedirectResponse("/", 303)
    try:
        await visit.desk.inspector.job(ident)
    except JobNotFound:
        keeper = visit.desk.documents
        if keeper and await keeper.story(ident):
            return RedirectResponse(f"/documents/{quote(ident, safe='')}", 303)
        raise
    return RedirectResponse(f"/jobs/{quote(ident, safe='')}", 303)
