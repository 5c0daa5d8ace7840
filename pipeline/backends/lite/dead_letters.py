"""Deaths that nobody has recorded yet."""

from collections.abc import Sequence

from contracts.states import ArchiveReason
from pipeline.backends.lite.records import stored
from pipeline.backends.lite.transaction import Snapshot, Transaction, array
from pipeline.broker import DeadLetter


def oldest(
    snapshot: Snapshot, queues: Sequence[str], limit: int, *, tended: bool = False
) -> list[DeadLetter]:
    """Return the oldest deaths in these queues."""
    statement = "select_tended" if tended else "select_dead"
    return [
        DeadLetter(
            death_id=row["death_id"],
            queue=row["queue"],
            job_id=row["id"],
            record=stored(row),
            reason=ArchiveReason(row["reason"]),
            error=row["error"],
            died_at=row["died_at"],
        )
        for row in snapshot.run(statement, queues=array(queues), limit=limit)
    ]


def tend(transaction: Transaction, death_ids: Sequence[str]) -> None:
    """Note that only their rows are missing."""
    transaction.run("tend_dead", ids=array(death_ids))


def forget(transaction: Transaction, death_ids: Sequence[str]) -> None:
    """Remove deaths that were recorded."""
    transaction.run("delete_dead", ids=array(death_ids))
