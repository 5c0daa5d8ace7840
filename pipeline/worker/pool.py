"""A pool: a fixed number of slots, and the queues that they are shared among."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from pipeline.broker import Broker, Delivery
from pipeline.outage import Outage, doubled
from pipeline.records import PoolBeat
from pipeline.worker.attempt import Attempt, Attempts
from pipeline.worker.shares import Shares

T = TypeVar("T")

LONGEST_WAIT_S: Final = 5.0
AHEAD_S: Final = 0.25
"""How long what was claimed ahead may wait for its slot before it is handed back."""
EMPTY_WAKE_S: Final = 0.005
LONGEST_EMPTY_WAKE_S: Final = 0.1
STOP_S: Final = 2.0


class Pool:
    """Claims at most as many jobs as it has free slots, and gives each a slot until its settlement is confirmed. A slot
    counts as free for a claim as soon as the settlement is on its way, for that reaches the store first.

    At most half of the slots are claimed for at once, so that the store has work with one half while this process has
    work with the other.

    `consumer` is unique for this pool of this process: deliveries in its name are ours.
    """

    def __init__(
        self,
        name: str,
        slots: int,
        weights: Mapping[str, int],
        *,
        consumer: str,
        broker: Broker,
        attempts: Attempts,
        run: Callable[[Attempt], Coroutine[Any, Any, None]],
        release: Callable[[Delivery], object],
    ) -> None:
        self.name, self.slots, self.consumer = name, slots, consumer
        self._weights, self._shares = dict(weights), Shares(weights)
        self._broker, self._attempts, self._run_attempt, self._release = broker, attempts, run, release
        self._running: set[asyncio.Task[None]] = set()
        self._leaving = 0
        self._ahead: deque[Attempt] = deque()
        self._freed = asyncio.Event()
        self._unsure = False
        self._empty_wakes = 0
        self._outage = Outage(f"claiming for pool {name}", longest_s=1.0)
        self._stopping = False
        self._loop: asyncio.Task[None] | None = None
        self._resting = False

    @property
    def failing(self) -> bool:
        """Whether the last claim failed."""
        return self._outage.lasting

    def beat(self) -> PoolBeat:
        """Return what is told of this pool to people and tools."""
        return PoolBeat(self.name, self.slots, len(self._running), self._weights)

    def start(self) -> None:
        """Begin to claim, also after `stop`. Starting what runs changes nothing."""
        self._stopping = False
        before = self._loop
        if before is None or before.done() or before.cancelling():
            self._loop = asyncio.create_task(self._run(before), name=f"pool {self.name}")

    async def stop(self) -> None:
        """Claim no more; return once no claim is under way, or after two seconds. What runs goes on."""
        self._stopping = True
        if self._loop is not None:
            if self._resting:
                self._loop.cancel()
            _, late = await asyncio.wait([self._loop], timeout=STOP_S)
            for loop in late:
                loop.cancel()
                self._unsure = True
        self._give_back()

    async def orphans(self) -> list[Delivery]:
        """Return deliveries in our name that nobody runs: those of a claim whose reply was lost."""
        if not self._unsure:
            return []
        held = await self._broker.held(self.consumer, list(self._weights))
        self._unsure = False
        return [delivery for delivery in held if delivery not in self._attempts]

    async def _run(self, before: asyncio.Task[None] | None) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # while resting, or when a claim hangs
            if before is not None:
                await asyncio.wait([before])
            while not self._stopping:
                try:
                    more = await self._fill()
                    await self._interruptible(self._rest, more)
                except Exception as error:  # noqa: BLE001 - a pool outlives whatever the store says
                    self._unsure = True
                    await self._interruptible(asyncio.sleep, self._outage.failed(error))

    async def _interruptible(self, rest: Callable[[T], Awaitable[None]], argument: T) -> None:
        """Wait in a way that `stop` may cut short; a claim is never cut short, for it may have happened."""
        if self._stopping:
            return
        self._resting = True
        try:
            await rest(argument)
        finally:
            self._resting = False

    async def _fill(self) -> bool:
        """Claim for the slots that are free now; return whether there may be more than that."""
        for delivery in await self.orphans():
            self._take(delivery)
        left, half, among = self._free, -(-self.slots // 2), set(self._weights)
        while left > 0 and among and not self._stopping:
            wants = self._shares.deal(min(left, half), among)
            got = dict.fromkeys(wants, 0)
            for delivery in await self._broker.claim(self.consumer, list(wants.items())):
                got[delivery.queue] += 1
                left -= 1
                if (
                    delivery not in self._attempts
                ):  # else its group was lost and made anew, and it still runs here
                    self._take(delivery)
            self._outage.over()
            among -= {queue for queue, wanted in wants.items() if got[queue] < wanted}
            if any(got.values()):
                self._empty_wakes = 0
        return left <= 0

    @property
    def _free(self) -> int:
        return self.slots - len(self._running) + self._leaving - len(self._ahead)

    async def _rest(self, more: bool) -> None:
        """Wait for a slot where there may be more work than slots, else for work."""
        if more:
            self._freed.clear()
            if self._free <= 0:
                try:
                    async with asyncio.timeout(AHEAD_S if self._ahead else None):
                        await self._freed.wait()
                except TimeoutError:
                    self._give_back()
            return
        began = time.monotonic()
        if await self._broker.wait_for_work(list(self._weights), LONGEST_WAIT_S):
            # Others may have been faster, again and again: that must not become a busy loop, but neither must who was
            # late once be late for ever.
            quick = time.monotonic() - began < LONGEST_EMPTY_WAKE_S / 2
            self._empty_wakes = self._empty_wakes + 1 if quick else 1
            if self._empty_wakes > 1:
                await asyncio.sleep(doubled(self._empty_wakes - 1, EMPTY_WAKE_S, LONGEST_EMPTY_WAKE_S))

    def leave(self, number: int) -> None:
        """The settlements of so many attempts are on their way; of less than none: they have arrived, or failed to."""
        self._leaving += number
        if number > 0:
            self._freed.set()

    def _take(self, delivery: Delivery) -> None:
        self._ahead.append(self._attempts.take(delivery))
        self._start_ahead()

    def _start_ahead(self) -> None:
        while self._ahead and len(self._running) < self.slots:
            self._start(self._ahead.popleft())

    def _give_back(self) -> None:
        """What was claimed for slots that do not become free: the store does not confirm how their attempts ended."""
        while self._ahead:
            attempt = self._ahead.popleft()
            self._attempts.drop(attempt)
            self._release(attempt.delivery)

    def _start(self, attempt: Attempt) -> None:
        task = asyncio.create_task(self._run_attempt(attempt), name=f"attempt {attempt.delivery.job_id}")
        self._running.add(task)
        task.add_done_callback(lambda done: self._end(done, attempt))

    def _end(self, task: asyncio.Task[None], attempt: Attempt) -> None:
        self._running.discard(task)
        self._attempts.drop(attempt)
        if self._stopping:
            return
        self._start_ahead()
        self._freed.set()
