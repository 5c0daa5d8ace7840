"""The pure decisions, over everything that can be said of a job: what an outcome means, and when a failure tries again."""

from collections.abc import Callable
from dataclasses import replace

from contracts.jobs import Job
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import TRANSITIONS, ArchiveReason, JobState
from contracts.wire import MAX_ERROR_BYTES
from hypothesis import given
from hypothesis import strategies as st
from pipeline.broker import Delivery, Settlement
from pipeline.errors import StoreUnavailable
from pipeline.retry import RETRY_DELAYS, exponential, linear
from pipeline.settle import settle, unknown

from tests.support.strategies import jobs

seconds = st.floats(0, 10**7)
outcomes = st.one_of(
    st.none(),
    st.builds(Done),
    st.builds(Retry, st.none() | seconds, st.text()),
    st.builds(Snooze, st.floats(0.1, 10**7), st.text()),
    st.builds(Cancel, st.text()),
    st.builds(Skip, st.text()),
    st.builds(ValueError, st.text()),
    st.builds(BaseException),
    st.builds(StoreUnavailable, st.text()),
)
times = st.integers(1, 2**45)


def delivery(job: Job) -> Delivery:
    return Delivery(job.queue, job.id, "1", "c", {}, 0)


def decided(job: Job, outcome: BaseException | None, now: int, delay_s: float = 7) -> Settlement:
    return settle(delivery(job), job, outcome, delay=lambda _: delay_s, now=now)


@given(jobs, outcomes, times)
def test_every_outcome_is_a_move_that_the_table_allows(
    job: Job, outcome: BaseException | None, now: int
) -> None:
    targets = {t.target for t in TRANSITIONS if t.source is JobState.ACTIVE and t.by == "settle"}
    assert decided(job, outcome, now).state in targets


@given(jobs, outcomes, times)
def test_a_settlement_keeps_what_the_job_is(job: Job, outcome: BaseException | None, now: int) -> None:
    """Only what an attempt may change is changed."""
    after = decided(job, outcome, now).job
    assert after is not None
    changed = {name for name in vars(job) if getattr(after, name) != getattr(job, name)}
    assert changed <= {"retried", "last_error", "last_failed_at", "unknown_since", "away_since"}


@given(jobs, outcomes, times)
def test_a_settlement_is_archived_exactly_with_a_reason(
    job: Job, outcome: BaseException | None, now: int
) -> None:
    one = decided(job, outcome, now)
    assert (one.reason is not None) == (one.state is JobState.ARCHIVED)


anything = st.text(st.characters(exclude_categories=[]), max_size=50) | st.sampled_from(
    ["\ud800", "a\x00b", "x" * 100_000]
)


@given(jobs, st.sampled_from([Skip, Cancel, lambda text: Retry(reason=text), ValueError]), anything, times)
def test_whatever_text_a_handler_gives_a_store_can_keep_it(
    job: Job, say: Callable[[str], BaseException], text: str, now: int
) -> None:
    one = decided(replace(job, last_error=""), say(text), now)
    assert one.job is not None
    for kept in (one.error, one.job.last_error):
        assert len(kept.encode()) <= MAX_ERROR_BYTES  # and it is UTF-8
        assert "\x00" not in kept


@given(jobs, st.builds(ValueError, st.text()) | st.builds(Retry, st.none() | seconds), times)
def test_a_failure_counts_once_and_never_beyond_the_limit(job: Job, failure: BaseException, now: int) -> None:
    one = decided(job, failure, now)
    assert one.job is not None
    assert one.job.retried == job.retried + (not job.final)
    assert one.job.retried <= max(job.max_retry, job.retried)
    if job.final:
        assert one.reason is ArchiveReason.EXHAUSTED


@given(jobs, st.floats(0.1, 10**7), times)
def test_a_snooze_counts_nothing(job: Job, delay: float, now: int) -> None:
    one = decided(job, Snooze(delay), now)
    assert one.job is not None
    assert (one.job.retried, one.job.crashes) == (job.retried, job.crashes)


@given(jobs, outcomes, times, seconds)
def test_nothing_waits_beyond_its_deadline(
    job: Job, outcome: BaseException | None, now: int, delay: float
) -> None:
    one = decided(job, outcome, now, delay)
    if one.state in {JobState.RETRY, JobState.SCHEDULED}:
        assert job.deadline is None or now + one.delay_ms <= job.deadline
        assert one.delay_ms >= 0
    if one.reason is ArchiveReason.EXPIRED:
        assert job.deadline is not None


@given(jobs, times, st.integers(100, 10**6), st.integers(0, 10**8))
def test_an_unknown_type_waits_until_its_limit_and_not_beyond(
    job: Job, now: int, snooze_ms: int, limit_ms: int
) -> None:
    one = unknown(delivery(job), job, snooze_ms=snooze_ms, limit_ms=limit_ms, now=now)
    waited = now - (job.unknown_since or now)
    if waited >= limit_ms:
        assert one.reason is ArchiveReason.POISON
    elif one.state is JobState.SCHEDULED:
        assert one.job is not None
        assert one.job.unknown_since == (job.unknown_since or now)
        assert one.delay_ms == snooze_ms
    else:
        assert one.reason is ArchiveReason.EXPIRED


@given(st.integers(1, 100))
def test_the_exponential_wait_is_that_of_the_platform(failures: int) -> None:
    """n⁴ + 15 + up to 29 × (n + 1) seconds for n failures before this one."""
    n = failures - 1
    assert n**4 + 15 <= exponential(failures) <= n**4 + 15 + 29 * (n + 1)


@given(st.integers(1, 100))
def test_the_linear_wait_grows_by_five_seconds_up_to_thirty(failures: int) -> None:
    assert linear(failures) == min(5 * failures, 30)


@given(st.sampled_from(sorted(RETRY_DELAYS)), st.integers(-5, 200))
def test_no_policy_waits_less_than_nothing(name: str, failures: int) -> None:
    assert RETRY_DELAYS[name](failures) > 0


@given(st.lists(st.just(5), min_size=200, max_size=200))
def test_many_that_failed_together_do_not_come_back_together(failures: list[int]) -> None:
    waits = [exponential(n) for n in failures]
    assert max(waits.count(wait) for wait in waits) < 20
