"""Renewing leases from a thread of its own: a blocked event loop, or a busy writer, loses none."""

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.backends.lite.connection import connect
from pipeline.backends.lite.errors import closed, store_errors
from pipeline.backends.lite.transaction import Transaction
from pipeline.broker import Delivery, LeaseState

BUSY_S: Final = 0.9


class LiteLeases:
    """A connection for the lease thread. A renewal that a power failure undoes harms nobody, so it does not wait for
    the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = connect(path, busy_s=BUSY_S, durable=False)
        self._in_use = threading.Lock()

    def renew(self, deliveries: Sequence[Delivery]) -> list[LeaseState]:
        """Refresh the leases that are still ours. Raises StoreUnavailable within a second."""
        if not deliveries:
            return []
        with self._in_use, store_errors(self._path):
            connection = self._connection
            if connection is None:
                raise closed(self._path)
            connection.execute("BEGIN IMMEDIATE")
            try:
                transaction = Transaction(connection)
                states = [_renew(transaction, one) for one in deliveries]
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            return states

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._connection is None

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._in_use:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _renew(transaction: Transaction, one: Delivery) -> LeaseState:
    row = transaction.run(
        "renew_lease", id=one.job_id, entry=int(one.entry), consumer=one.consumer, now=transaction.now
    ).fetchone()
    if row is None:
        return LeaseState.LOST
    return LeaseState.CANCEL if row["cancel"] else LeaseState.HELD
