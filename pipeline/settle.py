"""From an outcome to a settlement: one pure function, used wherever an attempt ends."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from contracts.jobs import Job
from contracts.options import check_seconds
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import ArchiveReason, JobState
from contracts.wire import PoisonError, UnknownVersionError, cut, decode
from pipeline.broker import Delivery, ReclaimPolicy, Settlement
from pipeline.errors import is_outage
from pipeline.failure import describe
from pipeline.retry import RetryDelay, put_off

OUTAGE_MS: Final = 3_600_000
"""For so long attempts that end because a store is away count as nothing. After that it is the job that cannot be done."""


def settle(
    delivery: Delivery, job: Job, outcome: BaseException | None, *, delay: RetryDelay, now: int
) -> Settlement:
    """Return the one state change that `outcome` means. None and `Done` mean done; what is not an outcome, failed.

    Raises TypeError, ValueError, AttributeError for an outcome that cannot be used, such as one that was changed.
    """
    match outcome:
        case None | Done():
            return Settlement(delivery, JobState.COMPLETED, job)
        case Cancel(reason=reason):
            return Settlement(delivery, JobState.CANCELLED, job, error=cut(reason))
        case Skip(reason=reason):
            error = cut(reason)
            failed = replace(job, last_error=error, last_failed_at=now)
            return Settlement(delivery, JobState.ARCHIVED, failed, reason=ArchiveReason.SKIP, error=error)
        case Snooze(delay=seconds):
            return _later(delivery, JobState.SCHEDULED, _ran(job), _ms(seconds), now)
        case Retry(after=after, reason=reason):
            return _failed(delivery, _ran(job), cut(reason), after, delay, now)
        case _ if is_outage(outcome):
            return _put_off(delivery, job, describe(outcome), delay, now)
        case _:
            return _failed(delivery, _ran(job), describe(outcome), None, delay, now)


def poison(delivery: Delivery, problem: str) -> Settlement:
    """Return the settlement of an envelope or payload that can never be understood."""
    return Settlement(delivery, JobState.ARCHIVED, reason=ArchiveReason.POISON, error=cut(problem))


def unknown(delivery: Delivery, job: Job, *, snooze_ms: int, limit_ms: int, now: int) -> Settlement:
    """Return the settlement of a type that this worker does not know: a newer one may, so it waits, then is poison."""
    since = job.unknown_since or now
    if now - since >= limit_ms:
        return poison(delivery, f"no worker knew job type {job.type!r} for {limit_ms // 1000} s")
    waits = _later(delivery, JobState.SCHEDULED, replace(job, unknown_since=since), snooze_ms, now)
    error = f"a worker took it that knows no job type {job.type!r} of version {job.payload_version}"
    return waits if waits.error else replace(waits, error=error)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a job whose worker was lost. `job` None: its envelope stays as it is."""

    state: JobState
    job: Job | None = None
    reason: ArchiveReason | None = None
    error: str = ""


def lost(record: Mapping[str, str], queue: str, *, policy: ReclaimPolicy, now: int) -> Fate:
    """Return what becomes of a job that lost its worker: one more crash, and after `max_crashes` it is given up."""
    try:
        job = decode({**record, "data": ""}, queue)
    except UnknownVersionError:
        return Fate(JobState.PENDING)
    except PoisonError as problem:
        return Fate(JobState.ARCHIVED, None, ArchiveReason.POISON, str(problem))
    before = job.crashes if now - job.crashed_at <= policy.crash_reset_ms else 0
    job = replace(job, crashes=before + 1, crashed_at=now)
    if job.crashes <= policy.max_crashes:
        return Fate(JobState.PENDING, job)
    error = f"lost its worker {job.crashes} times"
    return Fate(
        JobState.ARCHIVED,
        replace(job, last_error=error, last_failed_at=now),
        ArchiveReason.WORKER_LOST,
        error,
    )


def last_chance(job: Job) -> Job:
    """Return an archived job with one attempt left, again final."""
    return replace(
        job, retried=max(job.retried, job.max_retry), crashes=0, unknown_since=0, away_since=0, deadline=None
    )


def _ran(job: Job) -> Job:
    """Return a job whose handler ran, and found all that it needs."""
    return replace(job, unknown_since=0, away_since=0) if job.unknown_since or job.away_since else job


def _put_off(delivery: Delivery, job: Job, error: str, delay: RetryDelay, now: int) -> Settlement:
    since = job.away_since or now
    job = replace(job, last_error=error, last_failed_at=now, unknown_since=0, away_since=since)
    if now - since >= OUTAGE_MS:
        return _failed(delivery, job, error, None, delay, now)
    return _later(delivery, JobState.RETRY, job, _ms(put_off((now - since) / 1000)), now)


def _failed(
    delivery: Delivery, job: Job, error: str, after: float | None, delay: RetryDelay, now: int
) -> Settlement:
    failed = replace(job, last_error=error, last_failed_at=now)
    if job.final:
        return Settlement(delivery, JobState.ARCHIVED, failed, reason=ArchiveReason.EXHAUSTED, error=error)
    counted = replace(failed, retried=job.retried + 1)
    seconds = delay(counted.retried) if after is None else after
    return _later(delivery, JobState.RETRY, counted, _ms(seconds), now)


def _later(delivery: Delivery, state: JobState, job: Job, delay_ms: int, now: int) -> Settlement:
    if job.deadline is not None and now + delay_ms > job.deadline:
        error = job.last_error or "its deadline passes before it could run again"
        return Settlement(delivery, JobState.ARCHIVED, job, reason=ArchiveReason.EXPIRED, error=error)
    return Settlement(delivery, state, job, delay_ms=delay_ms, error=job.last_error)


def _ms(seconds: float) -> int:
    return round(check_seconds(seconds, "the wait") * 1000)
