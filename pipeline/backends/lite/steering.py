"""What a person does to a job or a queue: run now, delete, purge, pause, resume."""

import sqlite3
from typing import Final

from contracts.jobs import Job
from contracts.states import JobState, allowed
from contracts.wire import PoisonError, UnknownVersionError, decode, encode_options
from pipeline.backends.lite.deliveries import queue_again
from pipeline.backends.lite.ending import pairs, remove
from pipeline.backends.lite.fences import Fences
from pipeline.backends.lite.history import happened
from pipeline.backends.lite.records import stored
from pipeline.backends.lite.transaction import Transaction
from pipeline.backends.lite.uniques import holder, take
from pipeline.errors import JobNotFound, NotAllowed
from pipeline.records import Happened
from pipeline.settle import last_chance

AT_ONCE: Final = 500
"""Jobs purged in one transaction, so that nobody waits long for the writer."""


def run_now(transaction: Transaction, job_id: str) -> None:
    """Make a job pending; see `Broker.run_now`."""
    row = _find(transaction, job_id, "run_now")
    opts = _last_chance(transaction, row) if row["state"] == JobState.ARCHIVED else None
    transaction.run("revive_job", seq=row["seq"])
    queue_again(transaction, [(row, opts)])
    happened(transaction, Happened.RUN_NOW, [(row["seq"], "", "")])


def delete(transaction: Transaction, job_id: str) -> None:
    """Remove an ended job; its last state is remembered for a while."""
    row = _find(transaction, job_id, "delete")
    remove(transaction, [row], JobState(row["state"]), remembered=True)


def purge(transaction: Transaction, queue: str) -> int:
    """Remove some archived jobs of a queue, and return how many; 0 when there are no more."""
    rows = transaction.run("select_archived", queue=queue, limit=AT_ONCE).fetchall()
    remove(transaction, rows, JobState.ARCHIVED, remembered=True)
    return len(rows)


def pause(transaction: Transaction, queue: str) -> None:
    """Let a queue start nothing."""
    transaction.run("pause_queue", queue=queue)
    transaction.signal()


def resume(transaction: Transaction, queue: str) -> None:
    """Undo a pause."""
    transaction.run("resume_queue", queue=queue)
    transaction.woken.add(queue)
    transaction.signal()


def _find(transaction: Transaction, job_id: str, verb: str) -> sqlite3.Row:
    row: sqlite3.Row | None = transaction.run("select_steered", id=job_id).fetchone()
    if row is None:
        raise JobNotFound(f"no job has the id {job_id!r} (any more)")
    if not allowed(JobState(row["state"]), verb):
        raise NotAllowed(f"job {job_id} is {row['state']}: {verb.replace('_', ' ')} does nothing to it")
    return row


def _last_chance(transaction: Transaction, row: sqlite3.Row) -> str | None:
    """Return the options of an archived job with one attempt left, or None where its envelope cannot be read."""
    try:
        job = decode(stored(row), row["queue"])
    except (PoisonError, UnknownVersionError):
        return None
    if Fences(transaction).cover(job.type, row["root_at"], pairs(row["scopes"])):
        raise NotAllowed(f"job {job.id} was cancelled with what it belongs to; enqueue it anew")
    _retake_lock(transaction, job)
    return encode_options(last_chance(job))


def _retake_lock(transaction: Transaction, job: Job) -> None:
    if job.unique is None or job.unique.until != "done":
        return
    other = holder(transaction, job.type, job.unique.key)
    if other is not None:
        raise NotAllowed(
            f"job {other['id']} has the unique key {job.unique.key!r} now; job {job.id} must wait for it"
        )
    take(transaction, job, job.unique)
