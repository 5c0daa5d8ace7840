"""Unique locks: who may be the one job of a type and key, and what becomes of a newcomer."""

import json
import sqlite3

from contracts.jobs import Job
from contracts.states import WAITING, JobState
from contracts.wire import encode_options
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.records import encode_scopes
from pipeline.backends.lite.transaction import Transaction
from pipeline.receipt import Receipt


def contend(transaction: Transaction, job: Job, due: int) -> Receipt | None:
    """Take the lock for `job` and return None, or return the receipt of the older job that goes on."""
    unique = job.unique
    if unique is None:
        return None
    older = holder(transaction, job.type, unique.key)
    if older is not None:
        if unique.on_conflict != "replace" or older["state"] not in WAITING:
            return _coalesce(transaction, older, job, due)
        end(transaction, [End(older, JobState.CANCELLED, error=f"replaced by {job.id}")])
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
    expires = transaction.now + round(job.unique.ttl * 1000) if job.unique.until == "ttl" else None
    transaction.run(
        "take_unique",
        type=job.type,
        key=job.unique.key,
        id=job.id,
        until=job.unique.until,
        expires_at=expires,
    )


def _coalesce(transaction: Transaction, older: sqlite3.Row, job: Job, due: int) -> Receipt:
    state = JobState(older["state"])
    conflict = job.unique.on_conflict if job.unique else "drop"
    if conflict == "debounce" and state in {JobState.SCHEDULED, JobState.RETRY}:
        transaction.run("move_due", seq=older["seq"], due=transaction.due_at(due))
    elif conflict != "drop" and state is JobState.ACTIVE:
        note = {
            "due": due,
            "root_at": job.root_at,
            "deadline": job.deadline,
            "data": job.data if conflict == "replace" else None,
            "opts": encode_options(job),
            "scopes": encode_scopes(job),
        }
        transaction.run("note_rerun", seq=older["seq"], rerun=json.dumps(note))
    return Receipt(older["id"], state, duplicate=True)
