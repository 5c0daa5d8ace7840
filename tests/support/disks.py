"""A disk so small that a test can fill it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SIZE_KB = 2048


class TinyDisk:
    """A file system of its own, of two megabytes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self, *, spare_kb: int = 0) -> None:
        """Leave no more room than this."""
        with self._filler.open("ab", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(4096)):
                pass
        with self._filler.open("r+b") as filler:
            filler.truncate(max(0, self._filler.stat().st_size - (spare_kb << 10)))

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink()


@contextmanager
def tiny_disk(root: Path) -> Iterator[TinyDisk]:
    """Mount a tiny disk; skips the test where that is not allowed."""
    root.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_KB}k", "none", str(root)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield TinyDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)
