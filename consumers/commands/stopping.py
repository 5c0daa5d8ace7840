"""How a command is told to stop. Loaded before anything else, so that no moment of its life is without an answer."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

INTERRUPTED: Final = 130
"""The exit code of a command that was told to stop before it was done."""
STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stop_at_once() -> None:
    """End this process where a signal finds it: while modules are loaded nothing is open yet."""
    for number in STOPS:
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))


class Stop:
    """From its making to the end of the process every stop cancels what runs here: running jobs are handed back.

    Python's own answer to a second Ctrl-C, or to any signal once an event loop is closed, would be to break off
    in the middle of closing.
    """

    def __init__(self) -> None:
        self._asked = False
        self._task: asyncio.Future[int] | None = None
        for number in STOPS:
            signal.signal(number, self._ask)

    async def run(self, command: Coroutine[Any, Any, int]) -> int:
        """Run a command to its exit code. Raises CancelledError when it was stopped."""
        self._task = asyncio.ensure_future(command)
        if self._asked:
            self._task.cancel()
        return await self._task

    def over(self) -> None:
        """Hear nothing any more: all is closed, and the interpreter would end on a signal, were it not ignored."""
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)

    def _ask(self, *_: object) -> None:
        self._asked = True
        if self._task is not None:
            with suppress(RuntimeError):  # the loop is closed: the end is near
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
