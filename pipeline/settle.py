"""From an outcome to a settlement: one pure function, used wherever an attempt ends."""

from dataclasses import replace

from contracts.jobs import Job
from contracts.options import check_seconds
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import ArchiveReason, JobState
from contracts.wire import cut
from pipeline.broker import Delivery, Settlement
from pipeline.failure import describe
from pipeline.retry import RetryDelay


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
            return _later(delivery, JobState.SCHEDULED, job, _ms(seconds), now)
        case Retry(after=after, reason=reason):
            return _failed(delivery, job, cut(reason), after, delay, now)
        case _:
            return _failed(delivery, job, describe(outcome), None, delay, now)


def poison(delivery: Delivery, problem: str) -> Settlement:
    """Return the settlement of an envelope or payload that can never be understood."""
    return Settlement(delivery, JobState.ARCHIVED, reason=ArchiveReason.POISON, error=cut(problem))


def unknown(delivery: Delivery, job: Job, *, snooze_ms: int, limit_ms: int, now: int) -> Settlement:
    """Return the settlement of a type that this worker does not know: a newer one may, so it waits, then is poison."""
    since = job.unknown_since or now
    if now - since >= limit_ms:
        return poison(delivery, f"no worker knew job type {job.type!r} for {limit_ms // 1000} s")
    return _later(delivery, JobState.SCHEDULED, replace(job, unknown_since=since), snooze_ms, now)


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
