"""What the end of an attempt means to the store."""

from typing import Any

import pytest
from contracts.jobs import Job
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import JobState
from pipeline.broker import Delivery, Settlement
from pipeline.worker.attempt import Attempt, Told
from pipeline.worker.verdict import End, decide

JOB = Job(id="j", type="t", queue="default", data="{}", max_retry=3)
DELIVERY = Delivery("default", "j", "1", "me", {}, 0)


async def end(said: object, told: Told | None = None, **known: Any) -> End:
    attempt = Attempt(DELIVERY, lambda _: None, 1)
    attempt.told = told
    for name, value in known.items():
        setattr(attempt, name, value)
    return decide(attempt, JOB, said, delay=lambda _: 1.0, now=0)


def state(found: End) -> tuple[JobState, str]:
    assert isinstance(found, Settlement)
    return found.state, found.error


async def test_what_a_handler_says_is_what_counts() -> None:
    assert state(await end(None)) == (JobState.COMPLETED, "")
    assert state(await end(ValueError("no"))) == (JobState.RETRY, "ValueError: no")
    assert state(await end(Skip("pointless"))) == (JobState.ARCHIVED, "pointless")


@pytest.mark.parametrize("odd", [0, "done", Done, ["x"]])
async def test_what_is_neither_nothing_nor_an_outcome_is_a_failure_that_says_so(odd: object) -> None:
    assert state(await end(odd)) == (
        JobState.RETRY,
        f"TypeError: the handler returned {type(odd).__name__}; return nothing or an outcome",
    )


@pytest.mark.parametrize("said", [None, ValueError("interrupted")])
async def test_silence_after_being_told_to_stop_means_what_it_was_told(said: object) -> None:
    assert await end(said, Told.SHUTDOWN) is DELIVERY
    assert state(await end(said, Told.CANCEL))[0] is JobState.CANCELLED
    assert state(await end(said, Told.TIMEOUT, limit_s=2.5)) == (JobState.RETRY, "timed out after 2.5 s")
    assert state(await end(said, Told.LOCK_LOST, why="lost lock 'x'")) == (JobState.RETRY, "lost lock 'x'")


@pytest.mark.parametrize("told", [Told.SHUTDOWN, Told.CANCEL, Told.TIMEOUT, Told.LOCK_LOST])
async def test_an_outcome_counts_even_after_being_told_to_stop(told: Told) -> None:
    assert state(await end(Done(), told))[0] is JobState.COMPLETED
    assert state(await end(Snooze(5), told))[0] is JobState.SCHEDULED
    assert state(await end(Retry(after=1), told))[0] is JobState.RETRY
    assert state(await end(Cancel("no"), told)) == (JobState.CANCELLED, "no")


@pytest.mark.parametrize("said", [None, Done(), Snooze(5), ValueError()])
async def test_nothing_is_said_of_a_job_that_is_no_longer_ours(said: object) -> None:
    assert await end(said, Told.LOST) is None
