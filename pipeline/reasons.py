"""Why a job waits: a decision from facts. The texts are made by whoever shows it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from contracts.states import JobState
from contracts.topology import QUEUES
from pipeline.records import JobRecord, Obstacles, WorkerBeat


class Why(StrEnum):
    """What keeps a job from running."""

    FENCED = "fenced"
    """What it belongs to was cancelled: it will not run. `scope`: kind:id."""
    PAUSED = "paused"
    """`queue` starts nothing."""
    NO_WORKER = "no_worker"
    """No live worker reads its queue. `pool`: whose workers would."""
    UNKNOWN_TYPE = "unknown_type"
    """No worker knew its `type` yet, and it is tried again. `since`: ms."""
    STORE_AWAY = "store_away"
    """Its last attempts found a store away, and it is tried again. `since`: ms."""
    DELAYED = "delayed"
    """Its time has not come. `until`: ms."""
    ALL_BUSY = "all_busy"
    """Every slot that reads its queue is taken. `pool`: whose slots, first of all."""
    BEHIND = "behind"
    """`n` others of its queue come before it; `more`: at least so many."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, and what its text has to name."""

    code: Why
    params: Mapping[str, Any] = field(default_factory=dict)


def reasons(record: JobRecord, found: Obstacles, workers: Collection[WorkerBeat]) -> list[Reason]:
    """Return why a waiting job waits, what weighs most first."""
    job, pool = record.job, QUEUES[record.job.queue].pool
    readers = [
        beat
        for worker in workers
        if worker.state == "running"
        for beat in worker.pools
        if beat.weights.get(job.queue)
    ]
    told: list[Reason] = []
    if found.fence is not None:
        told.append(Reason(Why.FENCED, {"scope": str(found.fence)}))
    if found.paused:
        told.append(Reason(Why.PAUSED, {"queue": job.queue}))
    if not readers:
        told.append(Reason(Why.NO_WORKER, {"pool": pool}))
    if job.unknown_since:
        told.append(Reason(Why.UNKNOWN_TYPE, {"type": job.type, "since": job.unknown_since}))
    if job.away_since:
        told.append(Reason(Why.STORE_AWAY, {"since": job.away_since}))
    if record.state is not JobState.PENDING:
        return [*told, Reason(Why.DELAYED, {"until": record.due_at})]
    if readers and all(beat.active >= beat.slots for beat in readers):
        told.append(Reason(Why.ALL_BUSY, {"pool": pool}))
    if found.ahead:
        told.append(Reason(Why.BEHIND, {"n": found.ahead, "more": found.more}))
    return told
