"""Told to stop: by id, or by scope with a fence."""

import sqlite3
from collections.abc import Sequence

from contracts.fences import Coverage
from contracts.jobs import Scope
from contracts.states import WAITING, JobState
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.fences import encode
from pipeline.backends.lite.records import standing
from pipeline.backends.lite.transaction import Transaction, array
from pipeline.broker import CancelOutcome, ScopeCancel


def cancel(transaction: Transaction, job_ids: Sequence[str]) -> list[CancelOutcome]:
    """Cancel what waits, tell what runs; a repeat says the same again."""
    known = standing(transaction, job_ids)
    live = transaction.run("select_live", ids=array(job_ids)).fetchall()
    _stop(transaction, live, transaction.now)
    return [_outcome(known.get(job_id)) for job_id in job_ids]


def cancel_scope(transaction: Transaction, scope: Scope, coverage: Coverage, cut: int | None) -> ScopeCancel:
    """Write the fence and stop every job of the scope that it covers.

    A cut chosen here is not before the root of any job there is: the clock may have been set back since, and a root
    may lie a little ahead of it (see `Fences.admit`).
    """
    rows = transaction.run("select_live_in_scope", kind=scope.kind, id=scope.id).fetchall()
    if cut is None:
        cut = max([transaction.now, *(row["root_at"] for row in rows)])
    for covers in encode(coverage):
        transaction.run(
            "raise_fence", kind=scope.kind, id=scope.id, covers=covers, cut=cut, now=transaction.now
        )
    covered = [row for row in rows if row["root_at"] <= cut and coverage.covers(row["type"])]
    waiting, active = _stop(transaction, covered, cut)
    return ScopeCancel(cut, tuple(waiting), tuple(active))


def _stop(transaction: Transaction, rows: Sequence[sqlite3.Row], cut: int) -> tuple[list[str], list[str]]:
    """Cancel the waiting and tell the active, but leave re-runs asked for after the cut; return the ids of both."""
    waiting = [row for row in rows if row["state"] in WAITING]
    active = [row for row in rows if row["state"] == JobState.ACTIVE]
    end(transaction, [End(row, JobState.CANCELLED) for row in waiting])
    transaction.run_many("tell_to_cancel", [(cut, row["seq"]) for row in active])
    transaction.signal()
    return [row["id"] for row in waiting], [row["id"] for row in active]


def _outcome(before: JobState | None) -> CancelOutcome:
    if before is None:
        return CancelOutcome.NOT_FOUND
    if before is JobState.ACTIVE:
        return CancelOutcome.SIGNALLED
    if before in WAITING or before is JobState.CANCELLED:
        return CancelOutcome.CANCELLED
    return CancelOutcome.TOO_LATE
