"""`streamlane queues` and `streamlane jobs`: what waits, what runs, what failed, and acting on it."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

from consumers.commands.terminal import FAILED, OK, emit, moment, out, shown, table, width
from consumers.extras import KNOWLEDGE
from contracts.fences import coverage
from contracts.jobs import Scope
from contracts.states import TERMINAL, JobState
from contracts.topology import QUEUES
from contracts.topology import queue as known_queue
from pipeline import JobRecord, Pipeline
from pipeline.errors import ConfigurationError, JobNotFound

PAGE: Final = 100
SHOWN: Final = frozenset({"queue", "pool", "pending", "active"})
"""What a terminal shows even when it is nothing everywhere; the rest would only make it too narrow."""


async def queues(as_json: bool, every: float | None = None) -> int:
    """Print one row a queue; with `every`, again and again after so many seconds."""
    async with Pipeline.open() as pipeline:
        while True:
            stats = await pipeline.inspector.queues()
            if every and out.is_terminal:
                out.clear()
            _print(stats, as_json)
            if not every:
                return OK
            await asyncio.sleep(every)


def _print(stats: Sequence[Any], as_json: bool) -> None:
    if as_json:
        emit({"queues": [asdict(stat) | {"size": stat.size} for stat in stats]})
        return
    mark = "*" if out.is_terminal else " (paused)"
    rows = [
        {
            "queue": stat.name + (mark if stat.paused else ""),
            "pool": stat.pool,
            "weight": stat.weight,
            "pending": stat.pending,
            "active": stat.active,
            "scheduled": stat.scheduled,
            "retry": stat.retry,
            "archived": stat.archived,
            "done": stat.processed,
            "failed": stat.failed,
            "oldest": _age(stat.latency_ms),
        }
        for stat in stats
    ]
    columns = list(rows[0])
    if out.is_terminal:
        columns = [
            name for name in columns if name in SHOWN or (name != "weight" and any(r[name] for r in rows))
        ]
        if width(columns, [[row[name] for name in columns] for row in rows]) + len(columns) > out.width:
            columns.remove("pool")
    table(columns, [[row[name] for name in columns] for row in rows])
    if out.is_terminal and any(stat.paused for stat in stats):
        out.print("* paused")


async def steer(action: str, queue: str, as_json: bool) -> int:
    """Pause a queue, or let it go on."""
    async with Pipeline.open() as pipeline:
        await getattr(pipeline.inspector, action)(queue)
    if as_json:
        emit({"queue": queue, "action": action, "success": True})
    else:
        out.print("done")
    return OK


async def list_jobs(queue: str | None, state: JobState | None, limit: int, as_json: bool) -> int:
    """Print jobs, a line each."""
    names = [known_queue(queue).name] if queue else list(QUEUES)
    ended = {JobState.COMPLETED, JobState.CANCELLED}
    states = [state] if state else [s for s in JobState if s not in ended]
    found: list[JobRecord] = []
    async with Pipeline.open() as pipeline:
        for name in names:
            for wanted in states:
                cursor: str | None = None
                while len(found) < limit:
                    page = await pipeline.inspector.tasks(name, wanted, cursor, min(PAGE, limit - len(found)))
                    found += page.records
                    cursor = page.next_cursor
                    if cursor is None:
                        break
        documents = await _documents(pipeline, found)
    if as_json:
        emit({"jobs": [described(record, documents) for record in found]})
        return OK
    table(
        ("id", "type", "queue", "state", "retried", "due", "document", "last error"),
        [
            (r.job.id, r.job.type, r.job.queue, r.state, f"{r.job.retried}/{r.job.max_retry}", moment(r.due_at),
             documents.get(r.job.id), shown(r.job.last_error, 80))
            for r in found
        ],
    )  # fmt: skip
    if len(found) == limit:
        out.print(f"the first {limit}; --limit shows more")
    return OK


async def show(job_id: str, as_json: bool) -> int:
    """Print what may be shown of a job."""
    async with Pipeline.open() as pipeline:
        record = await pipeline.inspector.job(job_id)
        facts = described(record, await _documents(pipeline, [record]))
    if as_json:
        emit(facts)
    else:
        table(("field", "value"), list(facts.items()))
    return OK


async def cancel(job_id: str, as_json: bool) -> int:
    """Cancel a job and say what that came to."""
    async with Pipeline.open() as pipeline:
        outcome = await cancel_job(pipeline, job_id)
    said = {
        "cancelled": "cancelled",
        "signalled": "told to stop; it runs until its handler notices",
        "too_late": "too late: it has ended",
        "not_found": "no job has this id (any more)",
    }[outcome]
    if as_json:
        emit({"id": job_id, "outcome": outcome})
    else:
        out.print(said)
    return OK if outcome in {"cancelled", "signalled"} else FAILED


async def cancel_job(pipeline: Pipeline, job_id: str) -> str:
    """Cancel a job and return what that came to. One that a document waits for takes the document with it: it would stay open for ever."""
    with suppress(JobNotFound):
        record = await pipeline.inspector.job(job_id)
        if record.state not in TERMINAL and coverage("knowledge").covers(record.job.type):
            for scope in record.job.scopes:
                if scope.kind == "knowledge" and (outcome := await _with_document(pipeline, scope, job_id)):
                    return outcome
    return (await pipeline.inspector.cancel(job_id)).value


async def _with_document(pipeline: Pipeline, scope: Scope, job_id: str) -> str | None:
    if KNOWLEDGE.absent:
        raise ConfigurationError(
            f"a document waits for this job and has to be cancelled too: {KNOWLEDGE.how}"
        )
    from consumers.knowledge.documents import cancel as cancel_document
    from consumers.services import open_services

    async with open_services(pipeline) as services, services.outbox.transaction() as sql:
        await cancel_document(sql, scope.id)
    done = await pipeline.inspector.cancel_scope(scope.kind, scope.id)
    return "cancelled" if job_id in done.cancelled else "signalled" if job_id in done.signalled else None


async def act(action: str, job_id: str, as_json: bool) -> int:
    """Do with a job what the inspector calls `action`."""
    async with Pipeline.open() as pipeline:
        await getattr(pipeline.inspector, action)(job_id)
    if as_json:
        emit({"id": job_id, "action": action, "success": True})
    else:
        out.print("done")
    return OK


async def _documents(pipeline: Pipeline, records: Sequence[JobRecord]) -> Mapping[str, str]:
    """Return by the ids of jobs the paths of the documents they work on, as far as they can be looked up here."""
    about = {r.job.id: scope.id for r in records for scope in r.job.scopes if scope.kind == "knowledge"}
    if not about or KNOWLEDGE.absent:
        return {}
    from consumers.database import open_database  # whichever it is: another knows none of them
    from consumers.knowledge.fates import sources_of

    async with open_database(pipeline.settings) as database, database.read() as sql:
        paths = await sources_of(sql, list(set(about.values())))
    return {job_id: paths[ident] for job_id, ident in about.items() if ident in paths}


def described(record: JobRecord, documents: Mapping[str, str] = {}) -> dict[str, Any]:
    """Return what may be shown of a job: never its payload. `documents` are their paths by the ids of jobs."""
    job = record.job
    facts: dict[str, Any] = {
        "id": job.id,
        "type": job.type,
        "queue": job.queue,
        "state": record.state.value,
        "document": documents.get(job.id),
        "reason": record.reason.value if record.reason else None,
        "retried": job.retried,
        "max_retry": job.max_retry,
        "crashes": job.crashes,
        "scopes": [str(scope) for scope in job.scopes],
        "worker": record.consumer or None,
        "enqueued_at": moment(job.enqueued_at),
        "due_at": moment(record.due_at),
        "started_at": moment(record.claimed_at),
        "ended_at": moment(record.ended_at),
        "last_failed_at": moment(job.last_failed_at),
        "last_error": job.last_error or None,
        "parent": job.parent_id or None,
        "cancel_requested": record.cancel_requested,
    }
    if record.progress:
        facts["progress"] = asdict(record.progress)
    return facts


def _age(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    if not seconds:
        return ""
    return (
        f"{seconds} s"
        if seconds < 120
        else f"{seconds // 60} min"
        if seconds < 7200
        else f"{seconds // 3600} h"
    )
