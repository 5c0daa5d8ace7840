"""Unique locks: who may be the one job of a type and key, and what becomes of a newcomer."""

import sqlite3

from contracts.jobs import Job
from contracts.states import WAITING, JobState
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.newcomer import Newcomer, lock_end
from pipeline.backends.lite.transaction import Transaction
from pipeline.receipt import Receipt


def contend(transaction: Transaction, newcomer: Newcomer) -> Receipt | None:
    """Take the lock for a newcomer and return None, or return the receipt of the older job that goes on."""
    job = newcomer.job
    if job.unique is None:
        return None
    older = holder(transaction, job.type, job.unique.key)
    if older is not None:
        if job.unique.on_conflict != "replace" or older["state"] not in WAITING:
            return _coalesce(transaction, older, newcomer, job.unique.on_conflict)
        end(transaction, [End(older, JobState.CANCELLED, error=f"replaced by {job.id}", final=True)])
    take(transaction, job)
    return None


def holder(transaction: Transaction, job_type: str, key: str) -> sqlite3.Row | None:
    """Return the job that has the lock, if any."""
    row: sqlite3.Row | None = transaction.run(
        "select_unique", type=job_type, key=key, now=transaction.now
    ).fetchone()
    return row


def take(transaction: Transaction, job: Job) -> None:
    """Take the lock; whoever had it has lost it."""
    if job.unique is None:
        return
    transaction.run(
        "take_unique",
        type=job.type,
        key=job.unique.key,
        id=job.id,
        until=job.unique.until,
        expires_at=lock_end(job.unique, transaction.now),
    )


def _coalesce(transaction: Transaction, older: sqlite3.Row, newcomer: Newcomer, on_conflict: str) -> Receipt:
    state = JobState(older["state"])
    if on_conflict == "debounce" and state in {JobState.SCHEDULED, JobState.RETRY}:
        transaction.run("move_due", seq=older["seq"], due=transaction.due_at(newcomer.due))
    elif on_conflict != "drop" and state is JobState.ACTIVE:
        note = newcomer.note(transaction.now, with_data=on_conflict == "replace")
        transaction.run("note_rerun", seq=older["seq"], rerun=note)
    return Receipt(older["id"], state, duplicate=True)
