"""The port every backend implements. Its verbs are transitions of `contracts.states`.

Semantics that hold for every backend:

- All times inside are milliseconds on the store's clock.
- The fencing token of a claimed job is (entry, consumer). A redelivery has a new entry. `settle`, `release`,
  `renew` and `report` change nothing for a delivery that is not the current one, and say so.
- Every method is one atomic transition for each job of its batch, and harmless when repeated.
- A method that raises `StoreUnavailable` may or may not have happened.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from contracts.fences import Coverage
from contracts.jobs import Job, Scope
from contracts.states import WAITING, ArchiveReason, JobState
from pipeline.clock import DAY_MS
from pipeline.receipt import Receipt
from pipeline.records import (
    ANY,
    HourStat,
    JobRecord,
    Obstacles,
    Page,
    Progress,
    QueueStat,
    TaskFilter,
    WorkerBeat,
)

COUNTED_AHEAD: Final = 1_000
"""How many of those before a job are counted."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to enqueue. Due `delay_ms` after the store takes it, or at `run_at`. The store sets `enqueued_at`, and
    `root_id` and `root_at` unless inherited. The end of every job leaves a tombstone, so that an enqueue which
    raised can be repeated; `named` says that the id was given or derived: it names one job for ever, and its lasts.
    """

    job: Job
    delay_ms: int = 0
    run_at: int | None = None
    named: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """One claimed job. `record` is its envelope as stored: decoding it is the worker's part, so that poison is
    treated alike everywhere.
    """

    queue: str
    job_id: str
    entry: str
    consumer: str
    record: Mapping[str, str]
    claimed_at: int


@dataclass(frozen=True, slots=True)
class Settlement:
    """The one state change made from an outcome. `job` is the envelope as it goes on (attempts, error counted in);
    None where it cannot be read (poison, or a newer version that waits): its record stays as it is. `delay_ms` is for
    retry and scheduled.
    """

    delivery: Delivery
    state: JobState
    job: Job | None = None
    delay_ms: int = 0
    reason: ArchiveReason | None = None
    error: str = ""


class LeaseState(StrEnum):
    """What a worker learns of a job it runs when it renews the lease."""

    HELD = "held"
    LOST = "lost"
    CANCEL = "cancel"


class CancelOutcome(StrEnum):
    """What a cancel did to one job."""

    CANCELLED = "cancelled"
    SIGNALLED = "signalled"
    TOO_LATE = "too_late"
    NOT_FOUND = "not_found"

    @classmethod
    def of(cls, before: JobState | None) -> "CancelOutcome":
        """Return what a cancel does to a job in this state."""
        if before is None:
            return cls.NOT_FOUND
        if before is JobState.ACTIVE:
            return cls.SIGNALLED
        if before in WAITING or before is JobState.CANCELLED:
            return cls.CANCELLED
        return cls.TOO_LATE


@dataclass(frozen=True, slots=True)
class ScopeCancel:
    """What a cancel of a scope did: jobs cancelled while waiting, and active ones told to stop."""

    cut: int
    cancelled: tuple[str, ...]
    signalled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Promoted:
    """Jobs that became pending, and how long it is until the next one is due, ms (None: none waits)."""

    moved: int
    due_in_ms: int | None


@dataclass(frozen=True, slots=True)
class ReclaimPolicy:
    """When a delivery is given to somebody else. `crash_reset_ms`: crashes older than that are forgotten."""

    lease_ms: int = 8_000
    max_crashes: int = 3
    crash_reset_ms: int = DAY_MS
    limit: int = 500


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """One job taken from a lost worker, and where it went: pending, archived or cancelled."""

    job_id: str
    queue: str
    consumer: str
    state: JobState


@dataclass(frozen=True, slots=True)
class Retention:
    """How long ended things are kept, and how many. `tombstone_ms`: the memory of an id that was given or derived, or
    of a job that was deleted; `repeat_ms`: that of any other, for whoever repeats an enqueue that raised.
    """

    cancelled_ms: int = 3_600_000
    archived_ms: int = 90 * DAY_MS
    archived_max: int = 10_000
    tombstone_ms: int = DAY_MS
    repeat_ms: int = 60_000
    fence_ms: int = 7 * DAY_MS
    stats_days: int = 90


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One death of a job: `death_id` is job id + number of the death. `job` is None for poison, `record` is always the
    envelope as it was.
    """

    death_id: str
    queue: str
    job_id: str
    record: Mapping[str, str]
    reason: ArchiveReason
    error: str
    died_at: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a round of retention removed."""

    jobs: int = 0
    tombstones: int = 0
    fences: int = 0
    others: int = 0

    def __add__(self, other: "Pruned") -> "Pruned":
        """What two rounds removed."""
        return Pruned(
            self.jobs + other.jobs,
            self.tombstones + other.tombstones,
            self.fences + other.fences,
            self.others + other.others,
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """How a store is set. `facts` are for people; `danger` says under what setting it loses jobs, `advice` what would make
    it safer, each with what to do; empty where all is well.
    """

    facts: tuple[str, ...] = ()
    danger: str = ""
    advice: str = ""


class Leases(Protocol):
    """A connection of its own, used from one thread, so that a blocked event loop keeps its leases."""

    def renew(self, deliveries: Sequence[Delivery]) -> list[LeaseState]:
        """Refresh the leases that are still ours, or give up within a second. Raises StoreUnavailable."""

    def close(self) -> None:
        """Close the connection."""


class Broker(Protocol):
    """Where jobs are kept. One instance a process; safe for concurrent tasks of one event loop."""

    # Producing

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        """New → pending, scheduled (or cancelled by a fence, or a duplicate). Raises StoreUnavailable, StoreFull."""

    # Consuming

    async def claim(self, consumer: str, wants: Sequence[tuple[str, int]]) -> list[Delivery]:
        """Pending → active, n of each (queue, n), `again` entries and fresh ones alternating. What a queue cannot give,
        others of its home among those asked give instead. Paused queues give nothing; fenced jobs become cancelled, jobs
        past their deadline archived (expired).
        """

    async def held(self, consumer: str, queues: Sequence[str]) -> list[Delivery]:
        """Return the deliveries of these queues in this consumer's name, so that a claim whose reply was lost costs no crash."""

    async def wait_for_work(self, queues: Sequence[str], timeout: float) -> bool:
        """Return True when one of these queues may have jobs to claim (a paused one has none), False after `timeout`
        seconds.
        """

    def leases(self) -> Leases:
        """Open a connection for the lease thread."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[JobState | None]:
        """Active → what each settlement says; the state that resulted, None where the delivery was not current.
        A job that was told to cancel becomes cancelled whatever the settlement says, but for completed.
        """

    async def release(self, deliveries: Sequence[Delivery]) -> int:
        """Active → pending, nothing counted, ahead of fresh entries. Return how many were still ours."""

    async def report(self, delivery: Delivery, progress: Progress) -> bool:
        """Note the progress of a running job; False where the delivery was not current."""

    # Moving what is due

    async def promote(self, limit: int = 500) -> Promoted:
        """scheduled, retry → pending when due; archived (expired) where the due time is past the deadline."""

    async def reclaim(self, policy: ReclaimPolicy) -> list[Reclaimed]:
        """Active → pending (crashes + 1), archived (worker_lost) or cancelled, where the lease ended. After a time
        without any reclaim longer than lease/2 it takes nothing for one whole lease.
        """

    async def prune(self, retention: Retention) -> Pruned:
        """Remove what has been kept long enough."""

    # Steering

    async def cancel(self, job_ids: Sequence[str]) -> list[CancelOutcome]:
        """scheduled, pending, retry → cancelled; an active job is told to stop."""

    async def choose_cut(self) -> int:
        """Return the cut of a cancel that happens now: no root that there is lies after it."""

    async def cancel_scope(self, scope: Scope, coverage: Coverage, cut: int | None = None) -> ScopeCancel:
        """Write the fence and sweep what it covers. `cut` None: now, at most once chosen; it is merged by max."""

    async def run_now(self, job_id: str) -> None:
        """scheduled, retry, archived → pending; an archived job gets one more attempt, again final.
        Raises JobNotFound, NotAllowed (also when its unique key is taken).
        """

    async def delete(self, job_id: str) -> None:
        """archived, completed, cancelled → gone; a tombstone with its last state stays for a day.

        Raises JobNotFound, NotAllowed.
        """

    async def purge(self, queue: str) -> int:
        """Archived → gone, a whole queue. Return how many."""

    async def pause(self, queue: str) -> None:
        """From now on this queue starts nothing."""

    async def resume(self, queue: str) -> None:
        """Undo a pause."""

    # Seeing

    async def job(self, job_id: str) -> JobRecord | None:
        """Return one job, or None."""

    async def states(self, job_ids: Sequence[str]) -> list[JobState | None]:
        """Return where each job stands; a tombstone counts. None: never heard of, or forgotten."""

    async def tasks(
        self, queue: str, state: JobState, *, cursor: str | None, limit: int, match: TaskFilter = ANY
    ) -> Page:
        """List jobs: pending and active newest first, scheduled and retry by due time, the ended newest first.
        The cursor survives deletes and inserts. A page that was looked for long may be short, even empty, and go on.
        Raises CursorInvalid, CursorExpired.
        """

    async def count(self, queue: str, state: JobState, match: TaskFilter) -> tuple[int, bool]:
        """Return how many jobs of a queue in a state match, and whether there may be more: it does not look for long."""

    async def queue_stats(self) -> list[QueueStat]:
        """One row a queue in registry order, a zero row where nothing ever was."""

    async def has_queued(self, scope: Scope, types: frozenset[str] | None = None) -> bool:
        """Whether the scope has a job that is not ended."""

    async def queued_ids(self, kind: str, types: frozenset[str] | None = None) -> set[str]:
        """Return the ids of this kind of scope that have a job that is not ended."""

    async def history(self, hours: int) -> list[HourStat]:
        """Return what each queue did in each of the last hours (UTC), the present one last, in registry order."""

    async def obstacles(self, queue: str, job_id: str) -> Obstacles:
        """Return what stands before a job of this queue that waits, or that was given up and would run again."""

    async def children(self, parent_id: str, scope: Scope, limit: int) -> tuple[list[JobRecord], bool]:
        """Return at most `limit` jobs of a scope that have not ended and that `parent_id` enqueued, and whether there may
        be more: only some thousand jobs of the scope are looked at.
        """

    # Workers

    async def heartbeat(self, beat: WorkerBeat, ttl_ms: int) -> None:
        """Register a worker process, or say that it still lives."""

    async def forget(self, worker: str) -> None:
        """Unregister a worker process."""

    async def workers(self) -> list[WorkerBeat]:
        """Return the worker processes that live."""

    # Dead letters

    async def dead_letters(
        self, queues: Sequence[str], limit: int, *, tended: bool = False
    ) -> list[DeadLetter]:
        """Return the oldest deaths in these queues that nobody has taken care of yet, or those that only lack their row."""

    async def tend_dead_letters(self, death_ids: Sequence[str]) -> None:
        """Note of deaths that only their row in a ledger is missing. Of these, as many are kept as of archived jobs."""

    async def forget_dead_letters(self, death_ids: Sequence[str]) -> None:
        """Remove deaths that were recorded."""

    # Locks

    async def lock(self, name: str, owner: str, ttl_ms: int, width: int = 1) -> int | None:
        """Take one of `width` places; return a fencing number that only grows, None when all are taken.
        The owner of a place who asks again renews it and gets its number.
        """

    async def unlock(self, name: str, owner: str) -> bool:
        """Give a place back; False when it was not ours (any more)."""

    # Remembering

    async def remember(self, name: str, value: str, *, anew: bool = False) -> str:
        """Keep `value` under this name if nothing is there yet, or `anew`; return what is there now."""

    # Control

    def on_signal(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, in whatever thread, soon after anybody, anywhere, cancels, pauses or resumes. A hint: the
        truth is in the store. Return what ends it.
        """

    def on_due(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, in whatever thread, soon after a job became due earlier than the head that `promote` last
        named. A hint, too. Return what ends it.
        """

    @property
    def where(self) -> str:
        """Where the jobs lie, for people: without user and password."""

    async def ping(self) -> None:
        """Raise StoreUnavailable unless the store can be read and written."""

    async def condition(self) -> Condition:
        """Return how the store is set, as far as it lets us see. Raises StoreUnavailable."""

    async def close(self) -> None:
        """Close every connection. Idempotent."""
