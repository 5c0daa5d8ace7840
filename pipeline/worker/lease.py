"""Keeps the leases of running jobs from a thread, so that a handler that blocks the event loop loses nothing.

The same thread watches the loop: a job whose limit passed while the loop was blocked is renewed no more, and a loop
blocked for `stall_s` is given up. What it learns of a job (lost, cancelled) it tells in the loop.
"""

import asyncio
import contextlib
import faulthandler
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

import structlog

from pipeline.broker import Broker, Leases, LeaseState
from pipeline.outage import Outage
from pipeline.worker.attempt import Attempt, Attempts, Told

LONGEST_INTERVAL_S: Final = 2.0
JOIN_S: Final = 3.0

log = structlog.get_logger(component="lease")


class LeaseKeeper:
    """The lease thread of a process."""

    def __init__(
        self,
        broker: Broker,
        attempts: Attempts,
        *,
        lease_s: float,
        stall_s: float,
        on_stall: Callable[[], object],
    ) -> None:
        self._broker, self._attempts = broker, attempts
        self._interval_s = min(lease_s / 4, LONGEST_INTERVAL_S)
        self._lease_s, self._stall_s, self._on_stall = lease_s, stall_s, on_stall
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._wake = threading.Event()
        self._stopping = False
        self._watch = LoopWatch(2 * self._interval_s)
        self._outage = Outage("renewing leases", component="lease", longest_s=self._interval_s)
        self._thread = threading.Thread(target=self._run, name="streamlane leases", daemon=True)

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def nudge(self) -> None:
        """Look now; from whatever thread."""
        self._wake.set()

    async def stop(self) -> None:
        """End the thread. A store that does not answer is left to the thread alone."""
        self._stopping = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join, JOIN_S)

    def _run(self) -> None:
        leases: Leases | None = None
        while not self._stopping:
            pause = self._interval_s
            try:
                leases = leases or self._broker.leases()
                self._renew(leases)
                self._outage.over()
            except RuntimeError as error:
                if self._loop.is_closed():
                    break
                pause = self._outage.failed(error)
            except Exception as error:  # noqa: BLE001 - the thread outlives whatever the store says
                pause = self._outage.failed(error)
            self._wake.wait(pause)
            self._wake.clear()
        if leases is not None:
            with contextlib.suppress(Exception):
                leases.close()

    def _renew(self, leases: Leases) -> None:
        blocked_s = self._ask_loop()
        if blocked_s >= self._stall_s:
            return
        mine = [a for a in self._attempts.all() if a.limit_s is None or blocked_s <= a.limit_s]
        if not mine:
            return
        states = leases.renew([attempt.delivery for attempt in mine])
        news = [pair for pair in zip(mine, states, strict=True) if pair[1] is not LeaseState.HELD]
        if news:
            self._loop.call_soon_threadsafe(_tell, news)

    def _ask_loop(self) -> float:
        """Return for how long the loop has not answered, and ask it again if it has."""
        watch = self._watch
        if watch.ask(time.monotonic()):
            self._loop.call_soon_threadsafe(watch.answer)
        elif watch.blocked_s >= self._stall_s:
            if not watch.said_stalled:
                watch.said_stalled = True
                log.critical(
                    "the event loop is stalled: its leases are given up", seconds=round(watch.blocked_s)
                )
                faulthandler.dump_traceback(file=sys.__stderr__ or 2, all_threads=True)
                self._on_stall()
        elif watch.blocked_s >= self._lease_s / 2 and not watch.said_blocked:
            watch.said_blocked = True
            frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the only way to see it
            stack = "".join(traceback.format_stack(frame)[-10:]) if frame else ""
            log.warning(
                "the event loop is blocked; its leases are kept",
                seconds=round(watch.blocked_s, 1),
                stack=stack,
            )
        return watch.blocked_s


class LoopWatch:
    """For how long a question to the loop has been open. A process that was frozen as a whole has not been blocked:
    no look counts for more than `longest_s`.
    """

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._asked = False
        self._looked_at = 0.0
        self.blocked_s = 0.0
        self.said_blocked = self.said_stalled = False

    def ask(self, now: float) -> bool:
        """Note a look at `now`; return whether the last question was answered, so that it may be asked again."""
        elapsed, self._looked_at = now - self._looked_at, now
        if not self._asked:
            self._asked, self.blocked_s = True, 0.0
            self.said_blocked = self.said_stalled = False
            return True
        self.blocked_s += min(elapsed, self._longest_s)
        return False

    def answer(self) -> None:
        """The loop runs."""
        self._asked = False


def _tell(news: list[tuple[Attempt, LeaseState]]) -> None:
    for attempt, state in news:
        attempt.tell(Told.LOST if state is LeaseState.LOST else Told.CANCEL)
