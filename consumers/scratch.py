"""Folders for what is needed for a moment. One whose process was killed is removed by the next process that looks: a backup or
an upload can be as big as the disk.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "streamlane-scratch-"
YOUNG_S: Final = 60
"""A folder is held a moment after it was made."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder of one's own, which is gone afterwards. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        held = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)  # let go of by the system, however we end
            yield Path(folder)
        finally:
            os.close(held)


def sweep_scratch(young_s: float = YOUNG_S) -> int:
    """Remove the folders of processes that are gone, where there is room to look. Says how many."""
    swept = 0
    with suppress(OSError):
        made_before = _now_s() - young_s
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with suppress(OSError):  # somebody else's, or just removed
                if folder.stat().st_mtime <= made_before and _abandoned(folder):
                    shutil.rmtree(folder)
                    swept += 1
    return swept


def _now_s() -> float:
    """The clock that counts is the one with which the file system stamps files."""
    with tempfile.TemporaryFile() as stamped:
        return os.fstat(stamped.fileno()).st_mtime


def _abandoned(folder: Path) -> bool:
    looked = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(looked, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(looked)
    return True
