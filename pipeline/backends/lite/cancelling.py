"""Told to stop: by id, or by scope with a fence."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Final

from contracts.fences import Coverage
from contracts.jobs import Scope
from contracts.states import WAITING, JobState
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.fences import encode
from pipeline.backends.lite.records import standing
from pipeline.backends.lite.transaction import ENDLESS, Snapshot, Transaction, array
from pipeline.broker import CancelOutcome, ScopeCancel

AT_ONCE: Final = 1_000
"""Jobs stopped in one transaction, so that nobody waits long for the writer."""


def cancel(transaction: Transaction, job_ids: Sequence[str]) -> list[CancelOutcome]:
    """Cancel what waits, tell what runs; a repeat says the same again."""
    known = standing(transaction, job_ids)
    _stop(transaction, transaction.run("select_live", ids=array(job_ids)).fetchall(), ENDLESS)
    return [CancelOutcome.of(known.get(job_id)) for job_id in job_ids]


def choose_cut(snapshot: Snapshot) -> int:
    """Return the cut of a cancel that happens now. It is not before any root there ever was: the clock may have been set
    back since, and a root may lie a little ahead of it (see `Fences.root`).
    """
    return int(max(snapshot.now, *snapshot.run("select_newest_root").fetchone()))


def cancel_scope(
    transaction: Transaction, scope: Scope, coverage: Coverage, cut: int | None, after: int
) -> tuple[ScopeCancel, int | None]:
    """Write the fence and stop some jobs of the scope that it covers; return where to go on, None at the end.

    The fence holds from the first part on.
    """
    if cut is None:
        cut = choose_cut(transaction)
    for covers in encode(coverage):
        transaction.run(
            "raise_fence", kind=scope.kind, id=scope.id, covers=covers, cut=cut, now=transaction.now
        )
    rows = transaction.run(
        "select_live_in_scope", kind=scope.kind, id=scope.id, after=after, limit=AT_ONCE
    ).fetchall()
    covered = [row for row in rows if row["root_at"] <= cut and coverage.covers(row["type"])]
    _stop(transaction, covered, cut)
    waiting = tuple(row["id"] for row in covered if row["state"] in WAITING)
    active = tuple(row["id"] for row in covered if row["state"] == JobState.ACTIVE)
    return ScopeCancel(cut, waiting, active), rows[-1]["seq"] if len(rows) == AT_ONCE else None


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
