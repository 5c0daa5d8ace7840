"""A pool: a fixed number of slots, and the queues that they are shared among."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from pipeline.broker import Broker, Delivery
from pipeline.outage import Outage, doubled
from pipeline.records import PoolBeat
from pipeline.worker.attempt import Attempt, Attempts
from pipeline.worker.shares import Shares

LONGEST_WAIT_S: Final = 5.0
EMPTY_WAKE_S: Final = 0.005
LONGEST_EMPTY_WAKE_S: Final = 0.1
STOP_S: Final = 2.0


class Pool:
    """Claims at most as many jobs as it has free slots, and gives each a slot until its settlement is confirmed.

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
    ) -> None:
        self.name, self.slots, self.consumer = name, slots, consumer
        self._weights, self._shares = dict(weights), Shares(weights)
        self._broker, self._attempts, self._run_attempt = broker, attempts, run
        self._running: set[asyncio.Task[None]] = set()
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
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._run(), name=f"pool {self.name}")

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

    async def orphans(self) -> list[Delivery]:
        """Return deliveries in our name that nobody runs: those of a claim whose reply was lost."""
        if not self._unsure:
            return []
        held = await self._broker.held(self.consumer)
        self._unsure = False
        return [delivery for delivery in held if delivery not in self._attempts]

    async def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # while resting, or when a claim hangs
            while not self._stopping:
                try:
                    free = await self._fill()
                    await self._interruptible(self._rest, free)
                except Exception as error:  # noqa: BLE001 - a pool outlives whatever the store says
                    self._unsure = True
                    await self._interruptible(asyncio.sleep, self._outage.failed(error))

    async def _interruptible(self, rest: Callable[[float], Awaitable[None]], argument: float) -> None:
        """Wait in a way that `stop` may cut short; a claim is never cut short, for it may have happened."""
        if self._stopping:
            return
        self._resting = True
        try:
            await rest(argument)
        finally:
            self._resting = False

    async def _fill(self) -> int:
        """Claim for all free slots; return how many remain free."""
        for delivery in await self.orphans():
            self._start(delivery)
        taken: list[Delivery] = []
        free = self.slots - len(self._running)
        among = set(self._weights)
        try:
            while free > 0 and among and not self._stopping:
                wants = self._shares.deal(free, among)
                got = dict.fromkeys(wants, 0)
                for delivery in await self._broker.claim(self.consumer, list(wants.items())):
                    got[delivery.queue] += 1
                    if (
                        delivery not in self._attempts
                    ):  # else its group was lost and made anew, and it still runs here
                        taken.append(delivery)
                self._outage.over()
                free = self.slots - len(self._running) - len(taken)
                among -= {queue for queue, wanted in wants.items() if got[queue] < wanted}
                if any(got.values()):
                    self._empty_wakes = 0
        finally:  # started together, those that end together are settled, and replaced, in one transaction
            for delivery in taken:
                self._start(delivery)
        return free

    async def _rest(self, free: float) -> None:
        """Wait for a slot when none is free, else for work."""
        if free <= 0:
            self._freed.clear()
            if len(self._running) >= self.slots:
                await self._freed.wait()
            return
        began = time.monotonic()
        if await self._broker.wait_for_work(list(self._weights), LONGEST_WAIT_S):
            # Others may have been faster, again and again: that must not become a busy loop, but neither must who was
            # late once be late for ever.
            quick = time.monotonic() - began < LONGEST_EMPTY_WAKE_S / 2
            self._empty_wakes = self._empty_wakes + 1 if quick else 1
            if self._empty_wakes > 1:
                await asyncio.sleep(doubled(self._empty_wakes - 1, EMPTY_WAKE_S, LONGEST_EMPTY_WAKE_S))

    def _start(self, delivery: Delivery) -> None:
        attempt = self._attempts.take(delivery)
        task = asyncio.create_task(self._run_attempt(attempt), name=f"attempt {delivery.job_id}")
        self._running.add(task)
        task.add_done_callback(lambda done: self._end(done, attempt))

    def _end(self, task: asyncio.Task[None], attempt: Attempt) -> None:
        self._running.discard(task)
        self._attempts.drop(attempt)
        self._freed.set()
