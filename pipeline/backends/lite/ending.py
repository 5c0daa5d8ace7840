"""How a job ends, whoever ends it: its record, unique lock, tombstone, dead letter and count, all in one place."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contracts.states import ArchiveReason, JobState
from pipeline.backends.lite.history import happened
from pipeline.backends.lite.transaction import Transaction, array
from pipeline.clock import HOUR_MS
from pipeline.records import Happened


@dataclass(slots=True)
class End:
    """One job that ends. `row` has seq, id, type, queue, named, unique_key, rerun and scopes; `opts` None leaves the
    envelope as it is; `kept_ms` is for completed, `worker` had it. `final`: an enqueue that waits for the end is dropped with the job.
    """

    row: sqlite3.Row
    state: JobState
    opts: str | None = None
    reason: ArchiveReason | None = None
    error: str = ""
    kept_ms: int = 0
    worker: str = ""
    final: bool = False

    @property
    def again(self) -> bool:
        """Whether an enqueue waits for this end, and has its turn now."""
        return not self.final and self.row["rerun"] is not None


def end(transaction: Transaction, ends: Sequence[End]) -> list[JobState]:
    """End these jobs and return the states that resulted: `scheduled` where an enqueue waited for the end."""
    if not ends:
        return []
    gone: list[sqlite3.Row] = []
    kept: list[End] = []
    for one in ends:
        if one.again:
            _run_again(transaction, one.row)
        elif one.state is JobState.COMPLETED and one.kept_ms <= 0:
            gone.append(one.row)
        else:
            kept.append(one)
    remove(transaction, gone, JobState.COMPLETED, remembered=False)
    transaction.run_many("end_job", [_record(one, transaction.now) for one in kept])
    transaction.run_many("bury_job", [(one.row["seq"],) for one in kept if one.state is JobState.ARCHIVED])
    unique = [one.row for one in ends if one.row["unique_key"] is not None and not one.again]
    transaction.run_many("unlock_unique", [(row["type"], row["unique_key"], row["id"]) for row in unique])
    for state in (JobState.ARCHIVED, JobState.CANCELLED):
        ended = [(one.row["seq"], one.error, one.worker) for one in kept if one.state is state]
        happened(transaction, Happened(state), ended)
    happened(transaction, Happened.RERUN, [(one.row["seq"], "", "") for one in ends if one.again])
    count(transaction, [(one.row["queue"], one.state) for one in ends])
    return [JobState.SCHEDULED if one.again else one.state for one in ends]


def remove(
    transaction: Transaction, rows: Sequence[sqlite3.Row], state: JobState, *, remembered: bool
) -> None:
    """Delete the records of ended jobs; a tombstone stays, for long of those with a given id, or all if `remembered`."""
    graves = [(row["id"], state, transaction.now, remembered or row["named"]) for row in rows]
    transaction.run_many("dig_tombstone", graves)
    if rows:
        seqs = array(row["seq"] for row in rows)
        transaction.run_many(
            "delete_scope", [own for row in rows for own in scopes_of(row["scopes"], row["seq"])]
        )
        transaction.run("delete_jobs", seqs=seqs)


def count(transaction: Transaction, ends: Sequence[tuple[str, JobState]]) -> None:
    """Count jobs that came to this state, by queue and hour."""
    hour = transaction.now // HOUR_MS
    for (queue, state), number in Counter(ends).items():
        failed = number if state in {JobState.RETRY, JobState.ARCHIVED} else 0
        processed = number if state is JobState.COMPLETED else failed
        cancelled = number if state is JobState.CANCELLED else 0
        transaction.run(
            "count_ends", queue=queue, hour=hour, processed=processed, failed=failed, cancelled=cancelled
        )


def pairs(column: str | None) -> list[tuple[str, str]]:
    """Return kind and id of each scope of a job, from its column ``scopes``."""
    names = column.split(" ") if column else ()
    return list(zip(names[::2], names[1::2], strict=True))


def scopes_of(column: str | None, seq: int) -> list[tuple[str, str, int]]:
    """Return the rows of the table ``scopes`` that are a job's own."""
    return [(kind, ident, seq) for kind, ident in pairs(column)]


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


def _run_again(transaction: Transaction, row: sqlite3.Row) -> None:
    note = json.loads(row["rerun"])
    note["due"] = transaction.due_at(max(note["due"], transaction.now))
    transaction.run_many("delete_scope", scopes_of(row["scopes"], row["seq"]))
    transaction.run("rerun_job", seq=row["seq"], **note)
    transaction.run("keep_unique", type=row["type"], key=row["unique_key"], id=row["id"], **note)
    transaction.run_many("insert_scope", scopes_of(note["scopes"], row["seq"]))
