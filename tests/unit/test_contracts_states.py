import pytest
from contracts.states import TERMINAL, TRANSITIONS, WAITING, ArchiveReason, JobState, allowed


def reachable(start: JobState | None) -> set[JobState | None]:
    """The states after `start`; a job that is gone stays gone."""
    after = {source: {t.target for t in TRANSITIONS if t.source is source} for source in JobState}
    found = {start} | {t.target for t in TRANSITIONS if t.source is start}
    while more := set().union(*(after[state] for state in found if state)) - found:
        found |= more
    return found


def test_a_new_job_can_come_into_every_state() -> None:
    assert set(JobState) <= reachable(None)


@pytest.mark.parametrize("state", JobState)
def test_from_every_state_a_job_can_end_well_or_be_gone(state: JobState) -> None:
    assert reachable(state) & {JobState.COMPLETED, None}


def test_every_state_is_waiting_or_terminal_or_active() -> None:
    assert WAITING | TERMINAL | {JobState.ACTIVE} == set(JobState)
    assert not WAITING & TERMINAL


def test_only_a_person_or_retention_moves_what_has_ended() -> None:
    assert {t.by for t in TRANSITIONS if t.source in TERMINAL} == {"delete", "run_now"}


def test_what_was_cancelled_or_completed_never_runs_again() -> None:
    assert reachable(JobState.CANCELLED) == {JobState.CANCELLED, None}
    assert reachable(JobState.COMPLETED) == {JobState.COMPLETED, None}


def test_only_a_claim_starts_a_job() -> None:
    starts = [t for t in TRANSITIONS if t.target is JobState.ACTIVE]
    assert [(t.source, t.by) for t in starts] == [(JobState.PENDING, "claim")]


def test_no_move_is_written_twice() -> None:
    moves = [(t.source, t.target, t.by) for t in TRANSITIONS]
    assert len(moves) == len(set(moves))


def test_every_move_says_why() -> None:
    assert all(t.note and t.by for t in TRANSITIONS)


@pytest.mark.parametrize(
    ("source", "verb", "answer"),
    [
        (JobState.PENDING, "claim", True),
        (JobState.ACTIVE, "settle", True),
        (JobState.ARCHIVED, "run_now", True),
        (JobState.ACTIVE, "cancel", False),  # it is told to stop, and settles as cancelled
        (JobState.ACTIVE, "delete", False),
        (JobState.COMPLETED, "run_now", False),
        (JobState.CANCELLED, "run_now", False),
        (JobState.PENDING, "delete", False),
    ],
)
def test_a_verb_is_allowed_where_the_table_has_it(source: JobState, verb: str, answer: bool) -> None:
    assert allowed(source, verb) is answer


def test_the_reasons_of_an_archived_job_are_closed() -> None:
    assert set(ArchiveReason) == {"exhausted", "skip", "worker_lost", "poison", "expired"}
