"""Renewing leases from a thread of its own: a blocked event loop, or a busy writer queue, loses none."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pipeline.backends.lite.connection import connect
from pipeline.backends.lite.errors import store_errors
from pipeline.backends.lite.statements import sql
from pipeline.broker import Delivery, LeaseState
from pipeline.clock import now_ms

BUSY_S: Final = 0.9


class LiteLeases:
    """A connection for the lease thread. A renewal that a power failure undoes harms nobody, so it does not wait for
    the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = connect(path, busy_s=BUSY_S, durable=False)

    def renew(self, deliveries: Sequence[Delivery]) -> list[LeaseState]:
        """Refresh the leases that are still ours. Raises StoreUnavailable within a second."""
        if not deliveries:
            return []
        with store_errors(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                now = now_ms()
                states = [self._renew(one, now) for one in deliveries]
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            return states

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _renew(self, one: Delivery, now: int) -> LeaseState:
        held = {"id": one.job_id, "entry": int(one.entry), "consumer": one.consumer, "now": now}
        row: sqlite3.Row | None = self._connection.execute(sql("renew_lease"), held).fetchone()
        if row is None:
            return LeaseState.LOST
        return LeaseState.CANCEL if row["cancel"] else LeaseState.HELD
