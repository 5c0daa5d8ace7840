"""What the end of an attempt means to the store: pure."""

import asyncio

from contracts.jobs import Job
from contracts.outcomes import Cancel, Outcome, Retry
from contracts.states import JobState
from pipeline.broker import Delivery, Settlement
from pipeline.retry import RetryDelay
from pipeline.settle import settle
from pipeline.worker.attempt import Attempt, Told

End = Settlement | Delivery | None
"""A settlement; a delivery to hand back with nothing counted; or nothing, for what is no longer ours."""


def decide(attempt: Attempt, job: Job, said: object, *, delay: RetryDelay, now: int) -> End:
    """Return what counts. An outcome that a handler names itself always does; but silence, or an error, after it was
    told to stop means what it was told: a handler that obeys ends early, without being done.
    """
    if said is None and attempt.told is None:
        return Settlement(attempt.delivery, JobState.COMPLETED, job)
    match attempt.told:
        case Told.LOST:
            return None
        case Told.SHUTDOWN if not isinstance(said, Outcome):
            return attempt.delivery
    return settle(attempt.delivery, job, _meant(attempt, said), delay=delay, now=now)


def failure(attempt: Attempt, said: object) -> BaseException | None:
    """Return what failed without the handler's own word for it; nothing when it was told that it is not wanted."""
    if isinstance(said, Outcome) or attempt.told in {Told.CANCEL, Told.LOST, Told.SHUTDOWN}:
        return None
    return _meant(attempt, said)


def _meant(attempt: Attempt, said: object) -> BaseException | None:
    if isinstance(said, Outcome):
        return said
    match attempt.told:
        case Told.CANCEL:
            return Cancel("cancelled while running")
        case Told.TIMEOUT:
            return Retry(reason=f"timed out after {attempt.limit_s or 0:g} s")
        case Told.LOCK_LOST:
            return Retry(reason=attempt.why)
    if isinstance(said, asyncio.CancelledError):
        return Retry(reason="the handler was cancelled, by itself or with what it waited for")
    if said is None or isinstance(said, BaseException):
        return said
    return TypeError(f"the handler returned {type(said).__name__}; return nothing or an outcome")
