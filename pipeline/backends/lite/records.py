"""Jobs as people and tools see them."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from contracts.jobs import Job
from contracts.states import ArchiveReason, JobState
from contracts.wire import PoisonError, UnknownVersionError, decode
from pipeline.backends.lite.transaction import Snapshot, array
from pipeline.records import JobRecord, Progress, explained, happenings


def stored(row: sqlite3.Row) -> dict[str, str]:
    """Return the envelope of a row as it is stored."""
    return {"id": row["id"], "type": row["type"], "data": row["data"], "opts": row["opts"]}


def standing(snapshot: Snapshot, ids: Sequence[str]) -> dict[str, JobState]:
    """Return where the jobs that were ever heard of stand; a tombstone counts."""
    return {row["id"]: JobState(row["state"]) for row in snapshot.run("select_states", ids=array(ids))}


def find(snapshot: Snapshot, job_id: str) -> JobRecord | None:
    """Return one job, or None."""
    row = snapshot.run("select_job", id=job_id).fetchone()
    return None if row is None else job_record(row)


def job_record(row: sqlite3.Row) -> JobRecord:
    """Return a row as a record."""
    return JobRecord(
        job=explained(envelope(row), row["error"]),
        state=JobState(row["state"]),
        due_at=row["due_at"] or 0,
        claimed_at=row["claimed_at"],
        ended_at=row["ended_at"] or 0,
        consumer=row["consumer"] or "",
        reason=ArchiveReason(row["reason"]) if row["reason"] else None,
        cancel_requested=bool(row["cancel"]),
        progress=_progress(row["progress"]),
        history=happenings(row["history"]),
    )


def envelope(row: sqlite3.Row) -> Job:
    """Return the envelope of a row; of one that cannot be read, what can be."""
    try:
        return decode(stored(row), row["queue"])
    except (PoisonError, UnknownVersionError):
        return Job(id=row["id"], type=row["type"], queue=row["queue"], data=row["data"])


def _progress(text: str | None) -> Progress | None:
    if text is None:
        return None
    fields: list[Any] = json.loads(text)
    return Progress(*fields)
