"""Deliveries: who holds which, and handing them back."""

import json
import sqlite3
from collections.abc import Sequence

from contracts.states import JobState
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.records import stored
from pipeline.backends.lite.transaction import Snapshot, Transaction, array
from pipeline.broker import Delivery
from pipeline.records import Progress


def delivery(row: sqlite3.Row, consumer: str, claimed_at: int) -> Delivery:
    """Return an active job as its worker sees it."""
    return Delivery(row["queue"], row["id"], str(row["entry"]), consumer, stored(row), claimed_at)


def held(snapshot: Snapshot, consumer: str, queues: Sequence[str]) -> list[Delivery]:
    """Return what is active of these queues in this consumer's name."""
    rows = snapshot.run("select_held", consumer=consumer, queues=array(queues))
    return [delivery(row, consumer, row["claimed_at"]) for row in rows]


def current(transaction: Transaction, deliveries: Sequence[Delivery]) -> list[sqlite3.Row | None]:
    """Return the job of each delivery that is still its consumer's; the second of two alike is not."""
    ids = array(one.job_id for one in deliveries)
    rows = {row["id"]: row for row in transaction.run("select_active", ids=ids)}
    found: list[sqlite3.Row | None] = []
    for one in deliveries:
        row = rows.get(one.job_id)
        ours = row is not None and str(row["entry"]) == one.entry and row["consumer"] == one.consumer
        found.append(rows.pop(one.job_id) if ours else None)
    return found


def release(transaction: Transaction, deliveries: Sequence[Delivery]) -> int:
    """Active → pending, nothing counted; one that was told to stop is cancelled."""
    rows = [row for row in current(transaction, deliveries) if row is not None]
    told = [End(row, JobState.CANCELLED, worker=row["consumer"]) for row in rows if row["cancel"]]
    end(transaction, told)
    queue_again(transaction, [(row, None) for row in rows if not row["cancel"]])
    return len(rows)


def queue_again(transaction: Transaction, jobs: Sequence[tuple[sqlite3.Row, str | None]]) -> None:
    """Make jobs pending ahead of fresh ones, each with new options unless None."""
    if jobs:
        moves = [
            (number, transaction.now, opts, row["seq"])
            for number, (row, opts) in zip(transaction.numbers(len(jobs)), jobs, strict=True)
        ]
        transaction.run_many("requeue_job", moves)
        transaction.woken.update(row["queue"] for row, _ in jobs)


def report(transaction: Transaction, one: Delivery, progress: Progress) -> bool:
    """Note the progress of a running job."""
    text = json.dumps([progress.done, progress.total, progress.stage, progress.at or transaction.now])
    held = {"id": one.job_id, "entry": int(one.entry), "consumer": one.consumer}
    return transaction.run("report_progress", progress=text, **held).rowcount > 0
