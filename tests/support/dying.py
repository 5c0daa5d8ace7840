"""A command that kills itself at a given step of its event loop: between two steps is every await of every task.

Run as `python -m tests.support.dying STEP COMMAND…`; step 0 only counts, and writes down how many there were.
"""

import asyncio
import atexit
import os
import signal
import sys
from pathlib import Path
from typing import Any

COUNTED = "STREAMLANE_TEST_STEPS"
"""The environment names the file into which the number of steps is written."""


_step = 0


def steps() -> int:
    """Return how many steps the loop of this process has made since `die_at`."""
    return _step


def die_at(last: int, *, alone: bool = False) -> None:
    """Kill this process, and its children unless `alone`, when its loop has made so many steps."""
    handle: Any = asyncio.Handle
    run = handle._run

    def counted(one: Any) -> None:
        global _step  # noqa: PLW0603 - one loop a process
        _step += 1
        if _step == last:
            (os.kill if alone else os.killpg)(os.getpid() if alone else 0, signal.SIGKILL)
        run(one)

    handle._run = counted
    if path := os.environ.get(COUNTED):
        atexit.register(lambda: Path(path).write_text(str(_step)))


if __name__ == "__main__":
    die_at(int(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    from consumers.cli import main

    main()
