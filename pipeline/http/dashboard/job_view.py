"""What the page of one job shows, decided from its record. Pure: no words, no markup, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contracts.states import ArchiveReason, JobState
from pipeline.http.dashboard.charts import Bar, bar
from pipeline.projection import SHOWN, task_info
from pipeline.records import Happened, JobRecord

LEVELS: Final[Mapping[Happened, str]] = {
    Happened.FAILED: "bad",
    Happened.LOST: "bad",
    Happened.ARCHIVED: "bad",
    Happened.SNOOZED: "later",
    Happened.CANCELLED: "warn",
    Happened.RUN_NOW: "active",
    Happened.RERUN: "active",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One moment in the life of a job. `level` is how it is coloured; `coming` lies ahead."""

    at: int
    code: str
    level: str = ""
    error: str = ""
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Stretch:
    """How long a job stood in a state, as part of its whole life so far."""

    code: str
    ms: int
    bar: Bar


def events(record: JobRecord, now: int) -> tuple[Event, ...]:
    """Return what happened to a job and what is to come, the latest first. Its last error is not told twice."""
    job = record.job
    found = [Event(job.enqueued_at, "enqueued")] if job.enqueued_at else []
    found += [
        Event(
            h.at, h.what.value, LEVELS.get(h.what, ""), "" if h.error == job.last_error else h.error, h.worker
        )
        for h in record.history
    ]
    known = {h.what for h in record.history}
    if job.last_failed_at and not known & {Happened.FAILED, Happened.ARCHIVED}:
        found.append(Event(job.last_failed_at, "failed", "bad"))
    if record.claimed_at:
        found.append(Event(record.claimed_at, "started", "active", worker=record.consumer))
    match record.state:
        case JobState.COMPLETED:
            found.append(Event(record.ended_at, "completed", "good"))
        case JobState.ARCHIVED if Happened.ARCHIVED not in known:
            found.append(Event(record.ended_at, "archived", "bad"))
        case JobState.CANCELLED if Happened.CANCELLED not in known:
            found.append(Event(record.ended_at, "cancelled", "warn"))
        case JobState.SCHEDULED | JobState.RETRY if record.due_at > now:
            found.append(Event(record.due_at, "due", "coming"))
        case _:
            pass
    return tuple(sorted((e for e in found if e.at), key=lambda event: event.at, reverse=True))


def stretches(record: JobRecord, now: int) -> tuple[Stretch, ...]:
    """Return how long the job waited and how long its latest attempt took."""
    start, end = record.job.enqueued_at, record.ended_at or now
    if not start or end <= start:
        return ()
    begun = record.claimed_at or end
    parts = [("waited", start, begun)]
    if record.claimed_at and record.state is not JobState.PENDING:
        parts.append(("ran", begun, max(end, begun)))
    return tuple(Stretch(code, b - a, bar(a, b, start, end)) for code, a, b in parts)


def about(record: JobRecord) -> Mapping[str, Any]:
    """Return those parts of the payload that may be seen: names of what it is about, never its body."""
    info = task_info(record)
    return {name: info[name] for name in (*SHOWN, "knowledge_count") if name in info}


def attempts(record: JobRecord) -> int:
    """Return how many attempts a job has used, the present or last one included."""
    job, gone = record.job, {ArchiveReason.EXHAUSTED, ArchiveReason.SKIP}
    begun = record.state in {JobState.ACTIVE, JobState.COMPLETED} or record.reason in gone
    return min(job.retried + begun, job.max_retry + 1)
