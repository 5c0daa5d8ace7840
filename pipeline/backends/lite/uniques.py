"""Unique locks: who may be the one job of a type and key, and what becomes of a newcomer."""

import sqlite3

from contracts.jobs import Job, Unique
from contracts.states import WAITING, JobState
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.newcomer import Newcomer, lock_end
from pipeline.backends.lite.transaction import Transaction
from pipeline.receipt import Receipt


def contend(transaction: Transaction, newcomer: Newcomer, unique: Unique) -> Receipt | None:
    """Take the lock for a newcomer and return None, or return the receipt of the older job that goes on."""
    job = newcomer.job
    older = holder(transaction, job.type, unique.key)
    if older is not None:
        if unique.on_conflict != "replace" or older["state"] not in WAITING:
            return _coalesce(transaction, older, newcomer, unique)
        end(transaction, [End(older, JobState.CANCELLED, error=f"replaced by {job.id}", final=True)])
    take(transaction, job, unique)
    return None


def holder(transaction: Transaction, job_type: str, key: str) -> sqlite3.Row | None:
    """Return the job that has the lock, if any."""
    row: sqlite3.Row | None = transaction.run(
        "select_unique", type=job_type, key=key, now=transaction.now
    ).fetchone()
    return row


def take(transaction: Transaction, job: Job, unique: Unique) -> None:
    """Take the lock; whoever had it has lost it."""
    transaction.run(
        "take_unique",
        type=job.type,
        key=unique.key,
        id=job.id,
        until=unique.until,
        expires_at=lock_end(unique, transaction.now),
    )


def _coalesce(transaction: Transaction, older: sqlite3.Row, newcomer: Newcomer, unique: Unique) -> Receipt:
    state = JobState(older["state"])
    if unique.on_conflict == "debounce" and state in {JobState.SCHEDULED, JobState.RETRY}:
        transaction.run("move_due", seq=older["seq"], due=transaction.due_at(newcomer.due))
    elif unique.on_conflict != "drop" and state is JobState.ACTIVE:
        note = newcomer.note(unique, transaction.now)
        transaction.run("note_rerun", seq=older["seq"], rerun=note)
    return Receipt(older["id"], state, duplicate=True)
