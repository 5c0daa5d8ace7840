"""scheduled, retry → pending when due."""

from pipeline.backends.lite.expiry import weed
from pipeline.backends.lite.transaction import Transaction


def promote(transaction: Transaction, limit: int) -> tuple[int, int | None]:
    """Move at most `limit` jobs that are due; return how many did, and when the next one is due."""
    rows = weed(transaction, transaction.run("select_due", now=transaction.now, limit=limit).fetchall())
    if rows:
        numbers = transaction.numbers(len(rows))
        transaction.run_many("promote_job", [(n, row["seq"]) for n, row in zip(numbers, rows, strict=True)])
        transaction.woken.update(row["queue"] for row in rows)
    (next_due,) = transaction.run("select_next_due").fetchone()
    return len(rows), next_due
