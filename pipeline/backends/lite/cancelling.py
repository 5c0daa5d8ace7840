"""Told to stop: by id, or by scope with a fence."""

import json
import sqlite3
from collections.abc import Sequence

from contracts.fences import Coverage
from contracts.jobs import Scope
from contracts.states import WAITING, JobState
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.fences import encode
from pipeline.backends.lite.records import standing
from pipeline.backends.lite.transaction import ENDLESS, Transaction, array
from pipeline.broker import CancelOutcome, ScopeCancel


def cancel(transaction: Transaction, job_ids: Sequence[str]) -> list[CancelOutcome]:
    """Cancel what waits, tell what runs; a repeat says the same again."""
    known = standing(transaction, job_ids)
    _stop(transaction, transaction.run("select_live", ids=array(job_ids)).fetchall(), ENDLESS)
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
    _stop(transaction, covered, cut)
    waiting = tuple(row["id"] for row in covered if row["state"] in WAITING)
    active = tuple(row["id"] for row in covered if row["state"] == JobState.ACTIVE)
    return ScopeCancel(cut, waiting, active)


def _stop(transaction: Transaction, rows: Sequence[sqlite3.Row], cut: int) -> None:
    """Cancel the waiting and tell the active; an enqueue that waits for their end and came after the cut is kept."""
    told = [(cut, row["seq"]) for row in rows if row["state"] == JobState.ACTIVE]
    ends = [
        End(row, JobState.CANCELLED, final=_rooted(row) <= cut) for row in rows if row["state"] in WAITING
    ]
    transaction.run_many("tell_to_cancel", told)
    end(transaction, ends)
    transaction.signal()


def _rooted(row: sqlite3.Row) -> int:
    return int(json.loads(row["rerun"])["root_at"]) if row["rerun"] is not None else 0


def _outcome(before: JobState | None) -> CancelOutcome:
    if before is None:
        return CancelOutcome.NOT_FOUND
    if before is JobState.ACTIVE:
        return CancelOutcome.SIGNALLED
    if before in WAITING or before is JobState.CANCELLED:
        return CancelOutcome.CANCELLED
    return CancelOutcome.TOO_LATE
