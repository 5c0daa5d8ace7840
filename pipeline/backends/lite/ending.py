"""How a job ends, whoever ends it: its record, unique lock, tombstone, dead letter and count, all in one place."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contracts.states import ArchiveReason, JobState
from pipeline.backends.lite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class End:
    """One job that ends. `row` has seq, id, type, queue, named, unique_key and rerun; `opts` None leaves the envelope
    as it is; `kept_ms` is for completed.
    """

    row: sqlite3.Row
    state: JobState
    opts: str | None = None
    reason: ArchiveReason | None = None
    error: str = ""
    kept_ms: int = 0


def end(transaction: Transaction, ends: Sequence[End]) -> list[JobState]:
    """End these jobs and return the states that resulted: an enqueue that waited for the end makes it `scheduled`."""
    now = transaction.now
    count(transaction, [(one.row["queue"], one.state) for one in ends])
    over = [one for one in ends if one.row["rerun"] is None]
    gone = [one for one in over if one.state is JobState.COMPLETED and one.kept_ms <= 0]
    kept = [one for one in over if one.state is not JobState.COMPLETED or one.kept_ms > 0]
    remove(transaction, [one.row for one in gone], JobState.COMPLETED, remembered=False)
    transaction.run_many("end_job", [_record(one, now) for one in kept])
    transaction.run_many("bury_job", [(one.row["seq"],) for one in kept if one.state is JobState.ARCHIVED])
    transaction.run_many("unlock_unique", [_lock(one.row) for one in over if one.row["unique_key"]])
    for one in ends:
        if one.row["rerun"] is not None:
            _run_again(transaction, one.row)
    return [one.state if one.row["rerun"] is None else JobState.SCHEDULED for one in ends]


def remove(
    transaction: Transaction, rows: Sequence[sqlite3.Row], state: JobState, *, remembered: bool
) -> None:
    """Delete the records of ended jobs; of those with a given id, or all if `remembered`, a tombstone stays."""
    graves = [(row["id"], state, transaction.now) for row in rows if remembered or row["named"]]
    transaction.run_many("dig_tombstone", graves)
    transaction.run_many("delete_scopes", [(row["seq"],) for row in rows])
    transaction.run_many("delete_job", [(row["seq"],) for row in rows])


def count(transaction: Transaction, ends: Sequence[tuple[str, JobState]]) -> None:
    """Count jobs that came to this state, by queue, for today's statistics."""
    day = transaction.now // 86_400_000
    for (queue, state), number in Counter(ends).items():
        failed = number if state in {JobState.RETRY, JobState.ARCHIVED} else 0
        processed = number if state is JobState.COMPLETED else failed
        cancelled = number if state is JobState.CANCELLED else 0
        transaction.run(
            "count_ends", queue=queue, day=day, processed=processed, failed=failed, cancelled=cancelled
        )


def _record(one: End, now: int) -> dict[str, Any]:
    return {
        "seq": one.row["seq"],
        "state": one.state,
        "opts": one.opts,
        "reason": one.reason,
        "error": one.error,
        "now": now,
        "expires_at": now + one.kept_ms if one.state is JobState.COMPLETED else None,
    }


def _lock(row: sqlite3.Row) -> tuple[str, str, str]:
    return row["type"], row["unique_key"], row["id"]


def _run_again(transaction: Transaction, row: sqlite3.Row) -> None:
    note = json.loads(row["rerun"])
    note["due"] = transaction.due_at(max(note["due"], transaction.now))
    scopes = [(kind, ident, row["seq"]) for kind, ident in note.pop("scopes")]
    transaction.run("rerun_job", seq=row["seq"], **note)
    transaction.run_many("delete_scopes", [(row["seq"],)])
    transaction.run_many("insert_scope", scopes)
