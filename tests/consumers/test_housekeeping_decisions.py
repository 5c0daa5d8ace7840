"""What is to become of a document on which nothing moves: decided from what is known of it, and nothing else."""

from typing import Any

import pytest
from consumers.knowledge.documents.verdicts import (
    Standing,
    Verdict,
    Why,
    decide,
    duration,
    left_out,
    stranded,
    stuck,
)
from contracts.knowledge import OPEN, ParseStatus, SlotKind, Stage
from hypothesis import given
from hypothesis import strategies as st

CUTOFF = 1_000_000
DAY_MS = 86_400_000


def standing(**known: Any) -> Standing:
    """A document on which nothing moves and nobody works; what a test cares about is given."""
    usual: dict[str, Any] = {"status": ParseStatus.PROCESSING, "updated_at": CUTOFF - 1, "queued": False}
    return Standing(**usual | known)


@pytest.mark.parametrize("status", sorted(OPEN))
@pytest.mark.parametrize(
    ("known", "verdict", "why"),
    [
        ({"updated_at": CUTOFF}, Verdict.DEFER, Why.MOVED),
        ({"span_at": CUTOFF}, Verdict.DEFER, Why.MOVED),
        ({"held": True}, Verdict.REARM, Why.HELD),
        ({"held": True, "queued": None}, Verdict.REARM, Why.HELD),
        ({"queued": True}, Verdict.DEFER, Why.QUEUED),
        ({"queued": None}, Verdict.DEFER, Why.UNKNOWN),
        ({"parsed": True, "slots": 1}, Verdict.GO_ON, Why.LOST),
        ({"parsed": True, "slots": 1, "queued": None}, Verdict.DEFER, Why.UNKNOWN),
        ({"parsed": True, "slots": 1, "queued": True}, Verdict.DEFER, Why.QUEUED),
        ({"parsed": True, "next_lost": True}, Verdict.GO_ON, Why.LOST),
        ({"slots": 1}, Verdict.FAIL, Why.STUCK),
        ({}, Verdict.FAIL, Why.STUCK),
        ({"updated_at": CUTOFF - 400 * DAY_MS, "held": True}, Verdict.REARM, Why.HELD),
        ({"updated_at": CUTOFF - 400 * DAY_MS, "queued": True}, Verdict.DEFER, Why.QUEUED),
    ],
)
def test_each_gate_protects_a_document(
    status: ParseStatus, known: dict[str, Any], verdict: Verdict, why: Why
) -> None:
    assert decide(standing(status=status, **known), CUTOFF) == (verdict, why)


@pytest.mark.parametrize(
    ("known", "verdict", "why"),
    [
        ({"updated_at": CUTOFF}, Verdict.DEFER, Why.MOVED),
        ({"queued": True}, Verdict.DEFER, Why.QUEUED),
        ({"queued": None}, Verdict.DEFER, Why.UNKNOWN),
        ({"held": True, "queued": None}, Verdict.DEFER, Why.UNKNOWN),
        ({"parsed": True, "slots": 3}, Verdict.DELETE_AGAIN, Why.STRANDED),
        ({"deletes": 2}, Verdict.DELETE_AGAIN, Why.STRANDED),
        ({"deletes": 3}, Verdict.FAIL, Why.STRANDED),
    ],
)
def test_a_removal_that_was_lost_is_asked_for_again_before_it_counts_as_failed(
    known: dict[str, Any], verdict: Verdict, why: Why
) -> None:
    assert decide(standing(status=ParseStatus.DELETING, **known), CUTOFF) == (verdict, why)


def test_a_finalizing_document_that_waits_for_nothing_goes_on() -> None:
    done = standing(status=ParseStatus.FINALIZING, parsed=True)
    assert decide(done, CUTOFF) == (Verdict.GO_ON, Why.LOST)


@given(
    status=st.sampled_from([*OPEN, ParseStatus.DELETING]),
    updated_at=st.integers(0, 2 * CUTOFF),
    span_at=st.integers(0, 2 * CUTOFF),
    held=st.booleans(),
    parsed=st.booleans(),
    slots=st.integers(0, 3),
    next_lost=st.booleans(),
    deletes=st.integers(0, 9),
)
def test_what_cannot_be_told_never_changes_a_document(**known: Any) -> None:
    verdict, _ = decide(Standing(queued=None, **known), CUTOFF)
    assert verdict in {Verdict.DEFER, Verdict.REARM}


@pytest.mark.parametrize(
    ("stages", "tasks", "said"),
    [
        ([], [], "processing: no"),
        ([Stage.EMBEDDING], [], "processing at embedding stage: no"),
        ([Stage.EMBEDDING, Stage.MULTIMODAL], ["a"], "processing at embedding/multimodal stage (a): no"),
        ([], ["a", "b", "c"], "processing (a, b, c): no"),
        ([], ["a", "b", "c", "d"], "processing (a, b, c, ...): no"),
    ],
)
def test_a_stuck_document_says_where_and_since_when(stages: list[Stage], tasks: list[str], said: str) -> None:
    document = standing(updated_at=1_764_477_381_999, span_at=1_764_477_382_000)
    assert stuck(document, stages, tasks, 7800) == (
        f"task stuck in {said} progress since 2025-11-30T04:36:22Z (> 2h10m0s), recovered by housekeeping"
    )


def test_a_removal_that_was_lost_too_often_says_so() -> None:
    assert stranded(7800) == (
        "delete task stranded (no queued/active delete task) > 2h10m0s, recovered by housekeeping"
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(7800, "2h10m0s"), (3600, "1h0m0s"), (90, "1m30s"), (5, "5s"), (0.25, "250ms"), (0, "0s")],
)
def test_a_duration_is_said_in_hours_minutes_and_seconds(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_what_was_lost_is_counted_by_what_it_is() -> None:
    assert left_out([SlotKind.SUMMARY]) == "left out: the summary; the job for it was lost"
    assert left_out([SlotKind.GRAPH, SlotKind.SUMMARY, SlotKind.GRAPH]) == (
        "left out: 2 parts of the graph, the summary; the jobs for them were lost"
    )
    assert left_out([]) == ""
