"""The store as the operations of this backend see it: a snapshot to read, or a transaction to write."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pipeline.backends.lite.statements import sql
from pipeline.clock import now_ms

ENDLESS: Final = 2**62
"""Later than any time, after any number."""


class Snapshot:
    """What a query reads: one state of the store. `now` is the store's time of this operation."""

    __slots__ = ("connection", "now")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.now = now_ms()

    def run(self, statement: str, /, **parameters: Any) -> sqlite3.Cursor:
        """Run a named statement."""
        return self.connection.execute(sql(statement), parameters)


class Transaction(Snapshot):
    """What one operation works with.

    An operation notes what others wait for: queues with new pending jobs (`woken`), the earliest due time it set
    (`due`), and whether it steered running jobs (`signalled`).
    """

    __slots__ = ("due", "signalled", "woken")

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.woken: set[str] = set()
        self.due: int | None = None
        self.signalled = False

    def run_many(self, statement: str, rows: Iterable[Mapping[str, Any] | tuple[Any, ...]]) -> None:
        """Run a named statement for each of `rows`."""
        self.connection.executemany(sql(statement), rows)

    def numbers(self, count: int) -> range:
        """Return `count` numbers that are given once only, ascending."""
        (last,) = self.run("take_numbers", count=count).fetchone()
        return range(last - count + 1, last + 1)

    def due_at(self, when: int) -> int:
        """Note that something is due at `when`, and return it."""
        self.due = when if self.due is None else min(self.due, when)
        return when

    def signal(self) -> None:
        """Tell every process that running jobs or queues were steered."""
        if not self.signalled:
            self.signalled = True
            self.run("count_signal")


def array(values: Iterable[Any]) -> str:
    """Return `values` as one parameter for ``json_each``."""
    return json.dumps(list(values))
