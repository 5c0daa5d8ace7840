"""The life of a job: its states and every legal move between them, written once.

Backends, inspector, HTTP API, dashboard and the diagram in the documentation read `TRANSITIONS`.
"""

from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """Where a job is in its life."""

    SCHEDULED = "scheduled"
    """Waits for its due time: delayed at enqueue, or snoozed."""
    PENDING = "pending"
    """May be claimed by any worker of its pool."""
    ACTIVE = "active"
    """Claimed: one worker holds the delivery and renews its lease."""
    RETRY = "retry"
    """Failed with attempts left; waits for its next try."""
    COMPLETED = "completed"
    """Done; kept only for its retention."""
    ARCHIVED = "archived"
    """Given up with a reason; a person may run it again."""
    CANCELLED = "cancelled"
    """Told to stop; never runs again."""


TERMINAL = frozenset({JobState.COMPLETED, JobState.ARCHIVED, JobState.CANCELLED})
WAITING = frozenset({JobState.SCHEDULED, JobState.PENDING, JobState.RETRY})


class ArchiveReason(StrEnum):
    """Why a job was given up."""

    EXHAUSTED = "exhausted"
    """Its last attempt failed."""
    SKIP = "skip"
    """Its handler said that trying again is pointless."""
    WORKER_LOST = "worker_lost"
    """It lost its worker more often than `max_crashes`."""
    POISON = "poison"
    """It cannot be understood: not JSON, no type, a payload that does not validate, a type nobody learned in time."""
    EXPIRED = "expired"
    """Its deadline passed before it could finish."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One legal move. `source` None means a new job, `target` None means that the job is gone."""

    source: JobState | None
    target: JobState | None
    by: str
    note: str


TRANSITIONS: tuple[Transition, ...] = (
    Transition(None, JobState.PENDING, "enqueue", "due at once"),
    Transition(None, JobState.SCHEDULED, "enqueue", "due later"),
    Transition(JobState.SCHEDULED, JobState.PENDING, "promote", "its time has come"),
    Transition(JobState.RETRY, JobState.PENDING, "promote", "its time has come"),
    Transition(JobState.SCHEDULED, JobState.PENDING, "run_now", "a person does not want to wait"),
    Transition(JobState.RETRY, JobState.PENDING, "run_now", "a person does not want to wait"),
    Transition(JobState.PENDING, JobState.ACTIVE, "claim", "a worker has a free slot"),
    Transition(JobState.ACTIVE, JobState.COMPLETED, "settle", "done"),
    Transition(JobState.ACTIVE, JobState.RETRY, "settle", "failed with attempts left"),
    Transition(JobState.ACTIVE, JobState.SCHEDULED, "settle", "snoozed; the attempt is refunded"),
    Transition(JobState.ACTIVE, JobState.ARCHIVED, "settle", "attempts used up, skipped, poison or expired"),
    Transition(JobState.ACTIVE, JobState.CANCELLED, "settle", "cancelled while running"),
    Transition(JobState.ACTIVE, JobState.PENDING, "release", "handed back on shutdown; nothing is counted"),
    Transition(JobState.ACTIVE, JobState.PENDING, "reclaim", "its lease was lost; one more crash"),
    Transition(JobState.ACTIVE, JobState.ARCHIVED, "reclaim", "too many crashes: worker_lost"),
    Transition(JobState.ACTIVE, JobState.CANCELLED, "reclaim", "cancelled, then its worker was lost"),
    Transition(JobState.ACTIVE, JobState.CANCELLED, "release", "told to stop, then handed back"),
    Transition(JobState.PENDING, JobState.CANCELLED, "claim", "a fence covers it"),
    Transition(JobState.SCHEDULED, JobState.CANCELLED, "cancel", "told to stop before it started"),
    Transition(JobState.PENDING, JobState.CANCELLED, "cancel", "told to stop before it started"),
    Transition(JobState.RETRY, JobState.CANCELLED, "cancel", "told to stop between two tries"),
    Transition(JobState.PENDING, JobState.ARCHIVED, "claim", "its deadline passed while it waited: expired"),
    Transition(
        JobState.SCHEDULED, JobState.ARCHIVED, "promote", "its deadline passed while it waited: expired"
    ),
    Transition(JobState.RETRY, JobState.ARCHIVED, "promote", "its deadline passed while it waited: expired"),
    Transition(JobState.ARCHIVED, JobState.PENDING, "run_now", "one more attempt, again final"),
    Transition(JobState.ARCHIVED, None, "delete", "removed by a person, a purge or retention"),
    Transition(JobState.COMPLETED, None, "delete", "removed by a person, a purge or retention"),
    Transition(JobState.CANCELLED, None, "delete", "removed by a person, a purge or retention"),
)


def allowed(source: JobState, verb: str) -> bool:
    """Whether `verb` may be applied to a job in `source`."""
    return any(t.source is source and t.by == verb for t in TRANSITIONS)
