"""A job as others may see it: never its payload, never a secret (facts 3.6)."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from contracts.states import JobState
from pipeline.actions import allowed, payload
from pipeline.reasons import Reason
from pipeline.records import JobRecord

SHOWN: Final = (
    "tenant_id", "knowledge_base_id", "knowledge_id", "task_id", "source_id", "target_id", "source_kb_id",
    "target_kb_id", "data_source_id", "sync_log_id",
)  # fmt: skip
"""Fields of a payload that name what a job is about."""
LONGEST: Final = 128
"""Characters of such a name; what is longer is no name."""
NEXT: Final = frozenset({JobState.SCHEDULED, JobState.RETRY})


def task_info(
    record: JobRecord, why: Sequence[Reason] = (), *, living: Collection[str] | None = None
) -> dict[str, Any]:
    """Return what may be seen of a job; what is not set is left out. Times are milliseconds since the epoch. `living`
    names the workers that live: a job of another one is orphaned.
    """
    job = record.job
    about = {
        "id": job.id,
        "queue": job.queue,
        "type": job.type,
        "state": str(record.state),
        "allowed_actions": [str(action) for action in allowed(record)],
        "retried": job.retried,
        "max_retry": job.max_retry,
    }
    active = record.state is JobState.ACTIVE
    maybe = {
        "last_error": job.last_error,
        "last_failed_at": job.last_failed_at,
        "next_process_at": record.due_at if record.state in NEXT else 0,
        "started_at": record.claimed_at,
        "completed_at": record.ended_at if record.state is JobState.COMPLETED else 0,
        "deadline": job.deadline,
        "enqueued_at": job.enqueued_at,
        "is_orphaned": active and living is not None and _worker(record) not in living,
        "worker": _worker(record).rsplit(":", 1)[0],
        "reason": str(record.reason or ""),
        "why": [str(reason.code) for reason in why],
        **_names(record),
    }
    return about | {name: value for name, value in maybe.items() if value}


def _worker(record: JobRecord) -> str:
    """Return the worker process whose pool has the job: host:pid:start."""
    return record.consumer.rpartition("/")[0] or record.consumer


def _names(record: JobRecord) -> dict[str, Any]:
    said = payload(record)
    said["knowledge_base_id"] = said.get("knowledge_base_id") or said.get("kb_id")
    many = said.get("knowledge_ids")
    named = {name: said[name] for name in SHOWN if _is_name(said.get(name))}
    return named | {"knowledge_count": len(many) if isinstance(many, list) else 0}


def _is_name(value: object) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and len(value) <= LONGEST
    )
