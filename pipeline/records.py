"""What is seen of jobs, queues and workers, by people and tools."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

from contracts.jobs import Job, Scope
from contracts.states import ArchiveReason, JobState

KEPT: Final = 20
"""Happenings that a job's record keeps: the last ones."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job says it is."""

    done: int
    total: int
    stage: str = ""
    at: int = 0


class Happened(StrEnum):
    """What a job's record remembers of it; a job that simply completes has none of it."""

    FAILED = "failed"
    """An attempt failed, and there are more."""
    SNOOZED = "snoozed"
    """It asked to be run later."""
    LOST = "lost"
    """Its worker was lost, and it goes again."""
    ARCHIVED = "archived"
    """It was given up."""
    CANCELLED = "cancelled"
    """It was told to stop."""
    RUN_NOW = "run_now"
    """A person ran it by hand."""
    RERUN = "rerun"
    """It ended, and an enqueue that waited for this had its turn."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a job, at a time in ms. `error` is cut short; `worker` is who had it, if anybody."""

    at: int
    what: Happened
    error: str = ""
    worker: str = ""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job and where it stands, for people and tools. `history` is what happened to it, oldest first."""

    job: Job
    state: JobState
    due_at: int = 0
    claimed_at: int = 0
    ended_at: int = 0
    consumer: str = ""
    reason: ArchiveReason | None = None
    cancel_requested: bool = False
    progress: Progress | None = None
    history: tuple[Happening, ...] = ()


def happenings(text: str | None) -> tuple[Happening, ...]:
    """Read a history as the stores keep it: JSON lists of when, what, error and worker. A newer version may know more;
    of one that cannot be read, nothing is told.
    """
    try:
        said = json.loads(text or "[]")
        return tuple(
            Happening(int(at), Happened(what), error, worker)
            for at, what, error, worker in said
            if what in _HAPPENED
        )
    except (ValueError, TypeError):
        return ()


_HAPPENED: Final = frozenset(Happened)


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
class Count:
    """How many jobs match; `more`: at least so many, for they were not looked at all."""

    number: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class QueueStat:
    """One queue at a glance (facts 3.4). `latency_ms` is the age of the oldest pending job. processed counts the attempts
    that ended today (UTC), failed those of them that failed; cancelled_today are none of them.
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

    @property
    def done(self) -> int:
        """Attempts of today that ended well."""
        return self.processed - self.failed


@dataclass(frozen=True, slots=True)
class HourStat:
    """What a queue did in the hour that began at `at` (ms): attempts that ended, and those of them that failed."""

    queue: str
    at: int
    processed: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class PoolStat:
    """One pool at a glance (facts 3.7): `concurrency` slots in each of `instances` worker processes that run, all of
    them `cluster_capacity`, of which `active` are taken: `utilization`, 0 to 1.
    """

    name: str
    concurrency: int
    queue_count: int
    instances: int = 0
    cluster_capacity: int = 0
    active: int = 0
    utilization: float = 0.0


@dataclass(frozen=True, slots=True)
class Relatives:
    """Whom a job descends from, and its children that have not ended. `more`: there may be others than these."""

    parent: JobRecord | None = None
    root: JobRecord | None = None
    children: tuple[JobRecord, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Obstacles:
    """What the store says of a job that waits: whether its queue is paused, which fence will stop it, and how many of
    its queue come before it (`more`: at least so many).
    """

    paused: bool = False
    fence: Scope | None = None
    ahead: int = 0
    more: bool = False


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
