"""What this process has in its hands: one attempt a delivery, from claim to confirmed settlement."""

import asyncio
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from functools import partial

from contracts.jobs import Job
from pipeline.broker import Delivery


class Told(StrEnum):
    """Why a handler was told to stop."""

    TIMEOUT = "timeout"
    """Its time is up."""
    CANCEL = "cancel"
    """Somebody cancelled the job."""
    LOST = "lost"
    """Its lease went to another worker."""
    LOCK_LOST = "lock_lost"
    """A lock that it held could not be renewed."""
    SHUTDOWN = "shutdown"
    """The worker stops."""


class Attempt:
    """One delivery that we hold. Telling it to stop cancels the task that is inside `with attempt`; only the first
    reason counts.
    """

    def __init__(self, delivery: Delivery, still_there: Callable[["Attempt"], None], grace_s: float) -> None:
        self.delivery = delivery
        self._taken_at = time.monotonic()
        self.job: Job | None = None
        self.key = _key(delivery)
        self.limit_s: float | None = None
        self.ends_at: float | None = None
        self.stop = asyncio.Event()
        self.told: Told | None = None
        self.why = ""
        self.decided = False
        self._still_there, self._grace_s = still_there, grace_s
        self._alarm: asyncio.TimerHandle | None = None
        self._handler: asyncio.Task[object] | None = None
        self._cancels = 0
        self._endings: list[Callable[[], object]] = []

    def now(self) -> int:
        """Return the time on the store's clock, ms since the epoch, as far as the claim and our own clock since tell."""
        return self.delivery.claimed_at + round((time.monotonic() - self._taken_at) * 1000)

    def tell(self, reason: Told, why: str = "") -> None:
        """Tell the handler to stop, again if need be. One that has not started will not start."""
        if self.decided:
            return
        if self.told is None:
            self.told, self.why = reason, why
            self.stop.set()
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self._grace_s, self._still_there, self)
        elif self.told is reason:
            return
        if self._handler is not None:
            self._cancels += 1
            self._handler.cancel()

    def __enter__(self) -> None:
        """Begin the part in which to stop means that this task is cancelled."""
        self._handler = asyncio.current_task()

    def __exit__(self, *_: object) -> None:
        """End it; afterwards no cancellation of ours is left."""
        task, self._handler = self._handler, None
        while self._cancels and task is not None:
            self._cancels -= 1
            task.uncancel()

    def at_end(self, ending: Callable[[], object]) -> Callable[[], None]:
        """Call `ending` when the attempt is over; return what takes that back."""
        self._endings.append(ending)
        return partial(self._endings.remove, ending)

    def close(self) -> None:
        """The attempt is over, whatever it was told."""
        if self._alarm is not None:
            self._alarm.cancel()
        for ending in self._endings:
            ending()


class Attempts:
    """All attempts of a process. Its loop changes them; the lease thread looks."""

    def __init__(self, *, grace_s: float, on_stuck: Callable[[Attempt], None]) -> None:
        self._grace_s, self._on_stuck = grace_s, on_stuck
        self._held: dict[str, Attempt] = {}
        self._lock = threading.Lock()
        self._empty = asyncio.Event()
        self._empty.set()
        self._alarm: asyncio.TimerHandle | None = None

    def __contains__(self, delivery: Delivery) -> bool:
        return _key(delivery) in self._held

    def __len__(self) -> int:
        return len(self._held)

    def take(self, delivery: Delivery) -> Attempt:
        """Note that a delivery is in our hands."""
        attempt = Attempt(delivery, self._on_stuck, self._grace_s)
        with self._lock:
            self._held[attempt.key] = attempt
        self._empty.clear()
        return attempt

    def drop(self, attempt: Attempt) -> None:
        """Note that a delivery is out of our hands."""
        attempt.close()
        with self._lock:
            self._held.pop(attempt.key, None)
        if not self._held:
            self._empty.set()

    def start_clock(self, attempt: Attempt) -> None:
        """Tell the handler of `attempt` to stop after `limit_s` seconds from now. One timer serves all: most attempts
        end long before their limit.
        """
        if attempt.limit_s is not None:
            now = asyncio.get_running_loop().time()
            attempt.ends_at = now + attempt.limit_s
            if self._alarm is None or attempt.ends_at < self._alarm.when():
                self._set_alarm(attempt.ends_at)

    def stop_clock(self, attempt: Attempt) -> None:
        """The handler has ended."""
        attempt.ends_at = None

    def _set_alarm(self, when: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if when is None else asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        limited = [one for one in self.all() if one.ends_at is not None]
        for attempt in limited:
            if attempt.ends_at is not None and attempt.ends_at <= now:
                attempt.ends_at = None
                attempt.tell(Told.TIMEOUT)
        self._set_alarm(min((one.ends_at for one in limited if one.ends_at is not None), default=None))

    def all(self) -> list[Attempt]:
        """Return what we hold now; from whatever thread."""
        with self._lock:
            return list(self._held.values())

    def close(self) -> None:
        """Nothing is told when its time is up any more."""
        self._set_alarm(None)

    async def emptied(self) -> None:
        """Return when nothing is held."""
        await self._empty.wait()


def _key(delivery: Delivery) -> str:
    """Two pools of a process may have the same entry, where the group that gave it was lost and made anew."""
    return f"{delivery.queue} {delivery.entry} {delivery.consumer}"
