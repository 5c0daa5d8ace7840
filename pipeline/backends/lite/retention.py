"""What has been kept long enough, removed a few at a time, so that nobody waits long for the writer."""

from collections.abc import Iterable
from typing import Final

from contracts.states import JobState
from contracts.topology import QUEUES
from pipeline.backends.lite.ending import remove
from pipeline.backends.lite.transaction import Transaction, array
from pipeline.broker import Pruned, Retention

AT_ONCE: Final = 500
DAY_MS: Final = 86_400_000


def prune(transaction: Transaction, retention: Retention) -> Pruned:
    """Remove at most `AT_ONCE` of each kind."""
    now = transaction.now
    jobs = {
        JobState.COMPLETED: _jobs(transaction, "select_outlived", JobState.COMPLETED, before=now),
        JobState.CANCELLED: _jobs(
            transaction, "select_kept", JobState.CANCELLED, before=now - retention.cancelled_ms
        ),
        JobState.ARCHIVED: _jobs(
            transaction, "select_kept", JobState.ARCHIVED, before=now - retention.archived_ms
        )
        + _surplus(transaction, retention.archived_max),
    }
    tombstones = _rows(transaction, "delete_tombstones", before=now - retention.tombstone_ms)
    fences = _rows(transaction, "delete_fences", before=now - retention.fence_ms)
    others = {
        "stats": _rows(transaction, "delete_stats", before=now // DAY_MS - retention.stats_days),
        "workers": _rows(transaction, "delete_workers", before=now),
        "locks": _rows(transaction, "delete_locks", before=now),
        "uniques": _rows(transaction, "delete_uniques", before=now),
    }
    details = {str(state): number for state, number in jobs.items()} | others
    return Pruned(sum(jobs.values()), tombstones, fences, sum(others.values()), details)


def removed(one: Pruned) -> bool:
    """Whether a round removed anything, so that there may be more."""
    return bool(one.jobs or one.tombstones or one.fences or one.others)


def total(rounds: Iterable[Pruned]) -> Pruned:
    """Return the sum of several rounds."""
    result = Pruned()
    for one in rounds:
        details = {name: result.details.get(name, 0) + number for name, number in one.details.items()}
        result = Pruned(
            result.jobs + one.jobs,
            result.tombstones + one.tombstones,
            result.fences + one.fences,
            result.others + one.others,
            details,
        )
    return result


def _jobs(transaction: Transaction, statement: str, state: JobState, *, before: int) -> int:
    rows = transaction.run(statement, state=state, before=before, limit=AT_ONCE).fetchall()
    remove(transaction, rows, state, remembered=state is not JobState.COMPLETED)
    return len(rows)


def _surplus(transaction: Transaction, most: int) -> int:
    """Remove archived jobs beyond the newest `most` of each pool."""
    pools: dict[str, list[str]] = {}
    for queue in QUEUES.values():
        pools.setdefault(queue.pool, []).append(queue.name)
    removed = 0
    for queues in map(array, pools.values()):
        (archived,) = transaction.run("count_archived", queues=queues).fetchone()
        if archived > most:
            limit = min(archived - most, AT_ONCE)
            rows = transaction.run("select_oldest_archived", queues=queues, limit=limit).fetchall()
            remove(transaction, rows, JobState.ARCHIVED, remembered=True)
            removed += len(rows)
    return removed


def _rows(transaction: Transaction, statement: str, *, before: int) -> int:
    return transaction.run(statement, before=before, limit=AT_ONCE).rowcount
