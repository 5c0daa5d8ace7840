"""From an outcome to the one state change it means."""

from dataclasses import replace
from typing import Any

import pytest
from contracts.jobs import Job
from contracts.outcomes import Cancel, Done, Outcome, Retry, Skip, Snooze
from contracts.states import TRANSITIONS, ArchiveReason, JobState
from hypothesis import given
from hypothesis import strategies as st
from pipeline.broker import Delivery, Settlement
from pipeline.errors import EnqueueFailed, StoreFull, StoreUnavailable
from pipeline.settle import OUTAGE_MS, poison, settle, unknown

NOW = 1_000_000
JOB = Job(id="j", type="t", queue="default", data="{}", max_retry=3, retried=1)
DELIVERY = Delivery("default", "j", "1", "me", {}, NOW)


def not_enqueued(cause: StoreUnavailable) -> EnqueueFailed:
    failed = EnqueueFailed("child", cause)
    failed.__cause__ = cause
    return failed


def settled(outcome: BaseException | None, job: Job = JOB, **options: Any) -> Settlement:
    return settle(DELIVERY, job, outcome, delay=lambda failures: 10.0 * failures, now=NOW, **options)


@pytest.mark.parametrize("outcome", [None, Done()])
def test_nothing_said_means_done(outcome: Outcome | None) -> None:
    assert settled(outcome) == Settlement(DELIVERY, JobState.COMPLETED, JOB)


@pytest.mark.parametrize("failure", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_is_raised_counts_as_a_failure_and_is_written_down(failure: BaseException) -> None:
    end = settled(failure)
    assert (end.state, end.delay_ms) == (JobState.RETRY, 20_000)
    assert end.job == replace(JOB, retried=2, last_error=end.error, last_failed_at=NOW)
    assert end.error.startswith(type(failure).__name__)


def test_the_last_failure_archives_and_counts_no_further_attempt() -> None:
    end = settled(ValueError("no"), replace(JOB, retried=3))
    assert (end.state, end.reason) == (JobState.ARCHIVED, ArchiveReason.EXHAUSTED)
    assert end.job is not None
    assert (end.job.retried, end.job.last_error) == (3, "ValueError: no")


def test_a_handler_may_choose_the_wait() -> None:
    assert settled(Retry(after=2.5)).delay_ms == 2500
    assert settled(Retry(after=0)).delay_ms == 0
    assert settled(Retry()).delay_ms == 20_000


def test_a_retry_asked_for_counts_as_a_failure() -> None:
    end = settled(Retry(after=1, reason="busy"))
    assert end.job is not None
    assert (end.job.retried, end.job.last_error) == (2, "busy")
    assert settled(Retry(after=1), replace(JOB, retried=3)).reason is ArchiveReason.EXHAUSTED


def test_a_snooze_counts_nothing() -> None:
    assert settled(Snooze(30)) == Settlement(DELIVERY, JobState.SCHEDULED, JOB, delay_ms=30_000)
    assert settled(Snooze(30), replace(JOB, retried=3)).state is JobState.SCHEDULED


AWAY = StoreUnavailable("the database does not let us in")


@pytest.mark.parametrize(
    "outage",
    [AWAY, StoreFull("no room"), not_enqueued(AWAY), BaseExceptionGroup("two", [AWAY, StoreFull("no room")])],
    ids=lambda outage: type(outage).__name__,
)
def test_that_a_store_is_away_uses_up_no_attempt(outage: BaseException) -> None:
    last = replace(JOB, retried=3)
    end = settled(outage, last)
    assert end.state is JobState.RETRY
    assert end.job == replace(last, last_error=end.error, last_failed_at=NOW, away_since=NOW)
    assert 500 <= end.delay_ms <= 1000


def test_a_store_that_stays_away_is_asked_less_and_less_often_and_counts_after_an_hour() -> None:
    minute = settled(AWAY, replace(JOB, away_since=NOW - 60_000))
    assert 15_000 <= minute.delay_ms <= 30_000
    almost = settled(AWAY, replace(JOB, retried=3, away_since=NOW - OUTAGE_MS + 1))
    assert (almost.state, almost.job and almost.job.retried) == (JobState.RETRY, 3)
    hour = settled(AWAY, replace(JOB, retried=2, away_since=NOW - OUTAGE_MS))
    assert hour.job is not None
    assert (hour.state, hour.job.retried, hour.job.away_since) == (JobState.RETRY, 3, NOW - OUTAGE_MS)
    assert settled(AWAY, hour.job).reason is ArchiveReason.EXHAUSTED


@pytest.mark.parametrize("outcome", [Retry(after=1), Snooze(1), ValueError("no")], ids=repr)
def test_a_handler_that_ended_otherwise_found_the_store_there(outcome: BaseException) -> None:
    end = settled(outcome, replace(JOB, away_since=NOW - OUTAGE_MS))
    assert end.job is not None
    assert end.job.away_since == 0


def test_what_failed_beside_an_outage_is_a_failure() -> None:
    end = settled(BaseExceptionGroup("two", [AWAY, ValueError("no")]))
    assert end.job is not None
    assert (end.job.retried, end.job.away_since) == (2, 0)


def test_cancel_and_skip_end_the_job_with_their_reason() -> None:
    assert settled(Cancel("not wanted")) == Settlement(DELIVERY, JobState.CANCELLED, JOB, error="not wanted")
    skipped = settled(Skip("pointless"))
    assert (skipped.state, skipped.reason, skipped.error) == (
        JobState.ARCHIVED,
        ArchiveReason.SKIP,
        "pointless",
    )


@pytest.mark.parametrize("outcome", [ValueError("no"), Retry(after=20), Snooze(20)])
def test_what_would_be_due_after_its_deadline_is_expired(outcome: BaseException) -> None:
    end = settled(outcome, replace(JOB, deadline=NOW + 19_999))
    assert (end.state, end.reason) == (JobState.ARCHIVED, ArchiveReason.EXPIRED)
    assert end.error
    assert settled(outcome, replace(JOB, deadline=NOW + 20_000)).state is not JobState.ARCHIVED


def test_poison_leaves_the_record_as_it_is() -> None:
    end = poison(DELIVERY, "not JSON")
    assert (end.state, end.reason, end.job) == (JobState.ARCHIVED, ArchiveReason.POISON, None)


def test_an_unknown_type_waits_for_a_newer_worker_and_is_poison_only_after_its_time() -> None:
    def at(now: int, job: Job) -> Settlement:
        return unknown(DELIVERY, job, snooze_ms=30_000, limit_ms=3_600_000, now=now)

    first = at(NOW, JOB)
    assert (first.state, first.delay_ms) == (JobState.SCHEDULED, 30_000)
    assert first.job == replace(JOB, unknown_since=NOW)
    later = at(NOW + 3_599_999, first.job)
    assert later.job == first.job
    assert at(NOW + 3_600_000, first.job).reason is ArchiveReason.POISON


@pytest.mark.parametrize("outcome", [Retry(after=1), Snooze(1), ValueError("no")], ids=repr)
def test_a_type_that_a_worker_has_run_is_unknown_no_longer(outcome: BaseException) -> None:
    end = settled(outcome, replace(JOB, unknown_since=NOW - 5))
    assert end.job is not None
    assert end.job.unknown_since == 0


def test_a_job_of_an_unknown_type_says_why_it_waits_but_not_over_what_failed_before() -> None:
    def why(job: Job) -> str:
        return unknown(DELIVERY, job, snooze_ms=30_000, limit_ms=3_600_000, now=NOW).error

    assert repr(JOB.type) in why(JOB)
    assert why(replace(JOB, last_error="ValueError: no")) == "ValueError: no"


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (SilentError(), "SilentError: <its message raised RuntimeError>"),
        (ValueError("a\x00b"), "ValueError: a\ufffdb"),
        (ValueError("\ud800"), "ValueError: ?"),
        (ExceptionGroup("many", [ValueError()] * 3), "ExceptionGroup: many (3 sub-exceptions)"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_every_failure_has_a_text(failure: BaseException, text: str) -> None:
    assert settled(failure).error == text


def test_a_ten_megabyte_text_is_cut() -> None:
    error = settled(ValueError("ё" * 5_000_000)).error
    assert len(error.encode()) <= 8192
    assert error.endswith("...(truncated)")


OUTCOMES = st.one_of(
    st.none(),
    st.just(Done()),
    st.builds(Retry, st.none() | st.floats(0, 1e6)),
    st.builds(Snooze, st.floats(0.1, 1e6)),
    st.builds(Cancel, st.text()),
    st.builds(Skip, st.text()),
    st.builds(ValueError, st.text()),
)


@given(OUTCOMES, st.integers(0, 5), st.integers(0, 5), st.none() | st.integers(NOW, NOW + 10**7))
def test_every_end_of_an_attempt_is_a_legal_move(
    outcome: BaseException | None, retried: int, max_retry: int, deadline: int | None
) -> None:
    job = replace(JOB, retried=retried, max_retry=max_retry, deadline=deadline)
    end = settled(outcome, job)
    legal = {move.target for move in TRANSITIONS if move.source is JobState.ACTIVE and move.by == "settle"}
    assert end.state in legal
    assert (end.reason is not None) == (end.state is JobState.ARCHIVED)
    assert end.job is not None
    assert 0 <= end.job.retried - retried <= 1
    assert end.job.retried <= max(max_retry, retried)
    assert (end.delay_ms > 0) <= (end.state in {JobState.RETRY, JobState.SCHEDULED})
