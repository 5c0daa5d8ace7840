"""The connection of this process that only reads, in a thread of its own, so that a long listing holds up no one."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from pipeline.backends.lite.errors import closed, store_errors
from pipeline.backends.lite.transaction import Snapshot

T = TypeVar("T")
Query = Callable[[Snapshot], T]

ROOM: Final = 1_000
"""Queries that may wait; more callers wait for room."""


class Reader:
    """Runs queries one after the other, each on one snapshot."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        connection.execute("PRAGMA query_only = ON")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lite-reader")
        self._room = asyncio.Semaphore(ROOM)
        self._closed = False

    async def run(self, query: Query[T]) -> T:
        """Return what `query` returns. Raises StoreUnavailable."""
        async with self._room:
            if self._closed:
                raise closed(self._path)
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._query, query)

    async def close(self) -> None:
        """Close the connection and end the thread. Idempotent."""
        if not self._closed:
            self._closed = True
            self._connection.interrupt()
            await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
            self._thread.shutdown()

    def _query(self, query: Query[T]) -> T:
        with store_errors(self._path):
            self._connection.execute("BEGIN")
            try:
                return query(Snapshot(self._connection))
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
