"""What is seen of jobs, queues and workers, by people and tools."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from contracts.jobs import Job, Scope
from contracts.states import ArchiveReason, JobState


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job says it is."""

    done: int
    total: int
    stage: str = ""
    at: int = 0


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job and where it stands, for people and tools."""

    job: Job
    state: JobState
    due_at: int = 0
    claimed_at: int = 0
    ended_at: int = 0
    consumer: str = ""
    reason: ArchiveReason | None = None
    cancel_requested: bool = False
    progress: Progress | None = None


def explained(job: Job, error: str) -> Job:
    """Return a job as it is seen: why it ended may be written beside an envelope that nobody could read."""
    return job if job.last_error or not error else replace(job, last_error=error)


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Narrows a listing; empty means any."""

    type: str = ""
    scope: Scope | None = None
    error: str = ""


ANY: Final = TaskFilter()


@dataclass(frozen=True, slots=True)
class Page:
    """One page of jobs; `next_cursor` is opaque, None at the end."""

    records: tuple[JobRecord, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class QueueStat:
    """One queue at a glance (facts 3.4). `latency_ms` is the age of the oldest pending job; processed, failed and
    cancelled count today (UTC).
    """

    name: str
    pool: str
    weight: int
    pending: int = 0
    active: int = 0
    scheduled: int = 0
    retry: int = 0
    archived: int = 0
    completed: int = 0
    cancelled: int = 0
    processed: int = 0
    failed: int = 0
    cancelled_today: int = 0
    paused: bool = False
    latency_ms: int = 0
    memory_usage_bytes: int = 0

    @property
    def size(self) -> int:
        """All that is not ended."""
        return self.pending + self.active + self.scheduled + self.retry


@dataclass(frozen=True, slots=True)
class PoolBeat:
    """A pool inside one worker process."""

    name: str
    slots: int
    active: int
    weights: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WorkerBeat:
    """A worker process says that it lives. `state` is running or stopping."""

    worker: str
    host: str
    pid: int
    started_at: int
    state: str
    pools: tuple[PoolBeat, ...]
    seen_at: int = 0

    @classmethod
    def read(cls, text: str) -> "WorkerBeat":
        """Return what a worker said as JSON. A newer one may say more than we know."""
        said = _known(cls, json.loads(text))
        pools = tuple(PoolBeat(**_known(PoolBeat, pool)) for pool in said["pools"])
        return cls(**said | {"pools": pools})


def _known(kind: type[PoolBeat | WorkerBeat], said: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: said[field.name] for field in fields(kind) if field.name in said}
