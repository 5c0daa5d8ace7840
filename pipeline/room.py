"""Whether an error of SQLite means that its disk is full."""

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

LEAST: Final = 64 * 1024
"""Bytes that opening a file takes beside it, for the memory its connections share."""
_PERHAPS: Final = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


def is_full(error: BaseException | None, path: Path) -> bool:
    """Whether `error` says so; where SQLite fails to make room for a file beside that of `path` it does not, so the
    disk itself is asked.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == errno.ENOSPC:
        return True
    return code in _PERHAPS and not _has_room(path.parent)


def _has_room(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return True
    return disk.f_bavail * disk.f_frsize >= LEAST and (disk.f_favail > 0 or not disk.f_files)
