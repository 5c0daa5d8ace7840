"""Noticing what other processes wrote: a poll of the file's version, which costs next to nothing."""

import sqlite3
import threading
from collections.abc import Callable
from typing import Final

from pipeline.backends.lite.transaction import Snapshot

POLL_S: Final = 0.035


class Watcher:
    """Calls `changed` with its own connection, in its own thread, soon after any commit to the file."""

    def __init__(self, connection: sqlite3.Connection, changed: Callable[[Snapshot], None]) -> None:
        self._connection = connection
        self._changed = changed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lite-watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and close the connection; waits for at most one poll."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        seen = -1
        while not self._stop.wait(POLL_S):
            try:
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
                if version != seen:
                    self._changed(Snapshot(self._connection))
                    seen = version
            except sqlite3.Error:
                continue  # whoever works with the file is told; here the next poll tries again
        self._connection.close()
