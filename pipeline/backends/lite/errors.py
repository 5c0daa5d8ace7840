"""What SQLite's errors mean to the product, each with a sentence that says what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pipeline.errors import StoreFull, StoreUnavailable
from pipeline.room import is_full

_ADVICE: Final = {
    sqlite3.SQLITE_BUSY: "another process holds it for too long: end that process, or repeat",
    sqlite3.SQLITE_LOCKED: "another connection holds it for too long: repeat",
    sqlite3.SQLITE_READONLY: "it cannot be written: give this user write permission on the file and its folder",
    sqlite3.SQLITE_PERM: "it may not be used: give this user write permission on the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: check that its folder exists and may be written by this user",
    sqlite3.SQLITE_CORRUPT: "it is damaged: stop all workers, move it away, and start again or restore a copy",
    sqlite3.SQLITE_NOTADB: "it is not a queue file: choose another data folder, or move the file away",
    sqlite3.SQLITE_IOERR: "its disk failed to read or write: check the disk, then repeat",
    sqlite3.SQLITE_PROTOCOL: "its locks do not work here: keep it on a local disk",
    sqlite3.SQLITE_NOMEM: "there is no memory left: free some, then repeat",
    sqlite3.SQLITE_INTERRUPT: "the operation was interrupted: repeat",
}


def of_the_world(error: sqlite3.Error) -> bool:
    """Whether `error` is about the state of the store, not about one statement."""
    return _primary(error) in _ADVICE or _primary(error) == sqlite3.SQLITE_FULL


def store_error(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """Return what a caller is told of `error`."""
    if is_full(error, path):
        return StoreFull(f"no room for {path}: free space on its disk, then repeat")
    advice = _ADVICE.get(_primary(error), "repeat")
    return StoreUnavailable(f"queue file {path}: {advice} ({error})")


def closed(path: Path) -> StoreUnavailable:
    """Return what a caller is told who comes after the end."""
    return StoreUnavailable(f"queue file {path} was closed by this process")


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Turn errors about the state of the store into StoreUnavailable or StoreFull; bugs pass."""
    try:
        yield
    except sqlite3.Error as error:
        if not of_the_world(error):
            raise
        raise store_error(error, path) from error


def _primary(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
