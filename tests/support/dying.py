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


def die_at(last: int) -> None:
    """Kill this process and its children when its loop has made so many steps."""
    handle: Any = asyncio.Handle
    step, run = 0, handle._run

    def counted(one: Any) -> None:
        nonlocal step
        step += 1
        if step == last:
            os.killpg(0, signal.SIGKILL)
        run(one)

    handle._run = counted
    if path := os.environ.get(COUNTED):
        atexit.register(lambda: Path(path).write_text(str(step)))


if __name__ == "__main__":
    die_at(int(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    from consumers.cli import main

    main()
