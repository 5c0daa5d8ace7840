"""Why a job waits, decided from facts."""

import pytest
from contracts.jobs import Job, Scope
from contracts.states import JobState
from pipeline.reasons import Why, reasons
from pipeline.records import JobRecord, Obstacles, PoolBeat, WorkerBeat


def waiting(state: JobState = JobState.PENDING, *, unknown_since: int = 0, away_since: int = 0) -> JobRecord:
    job = Job(
        id="1", type="a:b", queue="summary", data="{}", unknown_since=unknown_since, away_since=away_since
    )
    return JobRecord(job, state, due_at=70)


def worker(active: int, *, weights: dict[str, int] | None = None, state: str = "running") -> WorkerBeat:
    read = {"summary": 2} if weights is None else weights
    return WorkerBeat("w", "host", 1, 0, state, (PoolBeat("enrichment", 2, active, read),))


def codes(record: JobRecord, found: Obstacles, *workers: WorkerBeat) -> list[Why]:
    return [reason.code for reason in reasons(record, found, workers)]


def test_what_weighs_most_comes_first() -> None:
    found = Obstacles(paused=True, fence=Scope("tenant", "7"), ahead=3)
    told = reasons(waiting(unknown_since=5, away_since=6), found, [])
    assert [(one.code, dict(one.params)) for one in told] == [
        (Why.FENCED, {"scope": "tenant:7"}),
        (Why.PAUSED, {"queue": "summary"}),
        (Why.NO_WORKER, {"pool": "enrichment"}),
        (Why.UNKNOWN_TYPE, {"type": "a:b", "since": 5}),
        (Why.STORE_AWAY, {"since": 6}),
        (Why.BEHIND, {"n": 3, "more": False}),
    ]


@pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.RETRY])
def test_what_waits_for_its_time_is_behind_nobody(state: JobState) -> None:
    (told,) = reasons(waiting(state), Obstacles(ahead=3), [worker(2)])
    assert (told.code, dict(told.params)) == (Why.DELAYED, {"until": 70})


def test_all_are_busy_only_when_no_slot_that_reads_the_queue_is_free() -> None:
    assert codes(waiting(), Obstacles(), worker(2)) == [Why.ALL_BUSY]
    assert codes(waiting(), Obstacles(), worker(2), worker(3)) == [Why.ALL_BUSY]
    assert codes(waiting(), Obstacles(), worker(2), worker(1)) == []
    assert codes(waiting(), Obstacles(), worker(2), worker(0, state="stopping")) == [Why.ALL_BUSY]


@pytest.mark.parametrize("weights", [{}, {"graph": 1}, {"summary": 0}], ids=repr)
def test_a_worker_that_does_not_read_the_queue_is_none(weights: dict[str, int]) -> None:
    assert codes(waiting(), Obstacles(), worker(0, weights=weights)) == [Why.NO_WORKER]
