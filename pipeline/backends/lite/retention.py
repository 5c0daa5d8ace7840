"""What has been kept long enough, removed a few at a time, so that nobody waits long for the writer."""

from typing import Final

from contracts.states import JobState
from contracts.topology import QUEUES, by_home
from pipeline.backends.lite.ending import remove
from pipeline.backends.lite.transaction import Transaction, array
from pipeline.broker import Pruned, Retention
from pipeline.clock import HOUR_MS

AT_ONCE: Final = 500


def prune(transaction: Transaction, retention: Retention) -> Pruned:
    """Remove at most `AT_ONCE` of each kind."""
    now = transaction.now
    jobs = (
        _jobs(transaction, "select_outlived", JobState.COMPLETED, before=now)
        + _jobs(transaction, "select_kept", JobState.CANCELLED, before=now - retention.cancelled_ms)
        + _jobs(transaction, "select_kept", JobState.ARCHIVED, before=now - retention.archived_ms)
        + _surplus(transaction, retention.archived_max)
    )
    tombstones = sum(
        _rows(transaction, "delete_tombstones", before=now - kept_ms, lasting=lasting)
        for lasting, kept_ms in ((True, retention.tombstone_ms), (False, retention.repeat_ms))
    )
    fences = _rows(transaction, "delete_fences", before=now - retention.fence_ms)
    others = (
        _rows(transaction, "delete_stats", before=now // HOUR_MS - retention.stats_days * 24)
        + _rows(transaction, "delete_workers", before=now)
        + _rows(transaction, "delete_locks", before=now)
        + _rows(transaction, "delete_uniques", before=now)
        + _unrecorded(transaction, retention.archived_max)
    )
    return Pruned(jobs, tombstones, fences, others)


def _jobs(transaction: Transaction, statement: str, state: JobState, *, before: int) -> int:
    rows = transaction.run(statement, state=state, before=before, limit=AT_ONCE).fetchall()
    remove(transaction, rows, state, remembered=state is not JobState.COMPLETED)
    return len(rows)


def _surplus(transaction: Transaction, most: int) -> int:
    """Remove archived jobs beyond the newest `most` of each home."""
    removed = 0
    for queues in map(array, by_home(QUEUES, str).values()):
        (archived,) = transaction.run("count_archived", queues=queues).fetchone()
        if archived > most:
            limit = min(archived - most, AT_ONCE)
            rows = transaction.run("select_oldest_archived", queues=queues, limit=limit).fetchall()
            remove(transaction, rows, JobState.ARCHIVED, remembered=True)
            removed += len(rows)
    return removed


def _unrecorded(transaction: Transaction, most: int) -> int:
    """Remove deaths that nobody records beyond the newest `most` of each home."""
    return sum(
        transaction.run("delete_tended", queues=array(queues), most=most, limit=AT_ONCE).rowcount
        for queues in by_home(QUEUES, str).values()
    )


def _rows(transaction: Transaction, statement: str, *, before: int, **which: bool) -> int:
    return transaction.run(statement, before=before, limit=AT_ONCE, **which).rowcount
