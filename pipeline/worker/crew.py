"""The pools of one process and what they share: executor, flushers, lease thread; started and drained together."""

import asyncio
import contextlib
import os
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import structlog

from contracts.identity import new_id
from contracts.states import JobState
from pipeline.broker import Broker, Delivery, Settlement
from pipeline.clock import now_ms
from pipeline.config import Settings
from pipeline.handlers import HandlerTable
from pipeline.records import WorkerBeat
from pipeline.worker.attempt import Attempt, Attempts, Told
from pipeline.worker.executor import Ends, Executor
from pipeline.worker.flusher import Sorted
from pipeline.worker.invoke import Rooms
from pipeline.worker.lease import LeaseKeeper
from pipeline.worker.pool import Pool

CANCEL_S: Final = 1.0
"""What cancelled handlers get to end, after the grace."""
LAST_ACT_S: Final = 1.0

log = structlog.get_logger(component="worker")


class Crew:
    """The workers of one process: `pools` maps each pool to the queues it reads and their weights, and a pool without
    queues has nothing to do. `stop` drains them; `hurry` cuts its grace short.

    `stalled` is called from the lease thread when the event loop is dead; `stuck` is set when a handler does not end
    though it was told to `grace_s` ago: only a new process gives its slot back.
    """

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        handlers: HandlerTable,
        *,
        pools: Mapping[str, Mapping[str, int]],
        services: object,
        on_death: Callable[[], None],
        stalled: Callable[[], None],
    ) -> None:
        self.id = f"{socket.gethostname()}:{os.getpid()}:{new_id()[-8:]}"
        self.stuck = asyncio.Event()
        self._broker, self._settings = broker, settings
        self._started_at = now_ms()
        self._stopping = False
        self._hurry = asyncio.Event()
        self._attempts = Attempts(grace_s=settings.grace_s, on_stuck=self._report_stuck)
        self._ends = Ends(
            Sorted("settling", self._settle, lambda one: one.delivery.queue),
            Sorted("releasing", self._release, lambda one: one.queue),
            on_death,
        )
        self._rooms = Rooms.of(sum(settings.slots(name) for name in pools))
        self._executor = Executor(
            broker, settings, handlers, services, self._ends, self._attempts, self._rooms
        )
        self._leases = LeaseKeeper(
            broker,
            self._attempts,
            lease_s=settings.lease_s,
            stall_s=settings.loop_stall_s,
            on_stall=stalled,
        )
        self._weights = pools
        self._pools = {
            name: Pool(
                name,
                settings.slots(name),
                weights,
                consumer=f"{self.id}/{name}",
                broker=broker,
                attempts=self._attempts,
                run=self._executor.run,
                release=self._ends.releases.add,
            )
            for name, weights in pools.items()
            if weights
        }

    def start(self) -> None:
        """Begin to renew what `claim` will bring."""
        self._leases.start()

    def claim(self, name: str) -> None:
        """Let a pool claim jobs, unless this process is about to end."""
        pool = self._pools.get(name)
        if pool is None:
            log.info("nothing handles what this pool is for; its jobs wait", pool=name)
        elif not self._stopping:
            log.info("pool starting", pool=name, slots=pool.slots, queues=list(self._weights[name]))
            pool.start()

    async def rest(self, name: str) -> None:
        """Let a pool claim no more; what it runs goes on."""
        if (pool := self._pools.get(name)) is not None:
            await pool.stop()

    def nudge(self) -> None:
        """Look for cancels now; from whatever thread."""
        self._leases.nudge()

    def beat(self) -> WorkerBeat:
        """Return what is told of this process to people and tools."""
        host, pid, _ = self.id.rsplit(":", 2)
        state = "stopping" if self._stopping else "running"
        return WorkerBeat(
            self.id,
            host,
            int(pid),
            self._started_at,
            state,
            tuple(pool.beat() for pool in self._pools.values()),
        )

    @property
    def failing(self) -> bool:
        """Whether the store does not let us claim: until it does, this worker is not ready."""
        return any(pool.failing for pool in self._pools.values())

    @property
    def left(self) -> int:
        """How many jobs are in our hands; after `stop`, how many handlers only end with the process."""
        return len(self._attempts)

    def hurry(self) -> None:
        """Wait no longer for what runs."""
        self._hurry.set()

    async def stop(self) -> None:
        """Stop claiming, give running jobs their grace, cancel the rest, hand back what was not done."""
        self._stopping = True
        await asyncio.gather(*(pool.stop() for pool in self._pools.values()))
        await first_of(self._attempts.emptied(), self._hurry.wait(), timeout=self._settings.grace_s)
        for attempt in self._attempts.all():
            attempt.tell(Told.SHUTDOWN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_S):
                await self._attempts.emptied()
        await self._last_act()
        self._attempts.close()
        await self._leases.stop()
        await self._rooms.close()

    async def _last_act(self) -> None:
        """Say what becomes of the jobs whose handlers do not stop; it is up to the caller to end them now."""
        left = [attempt for attempt in self._attempts.all() if not attempt.decided]
        for attempt in left:
            self._report_stuck(attempt)
            attempt.close()
        acts = [self._executor.conclude(attempt) for attempt in left]
        acts += [self._hand_back(pool) for pool in self._pools.values()]
        with contextlib.suppress(TimeoutError):  # at once, and whatever becomes of the others
            async with asyncio.timeout(LAST_ACT_S):
                await asyncio.gather(*acts, return_exceptions=True)
        unsaid = await self._ends.settlements.close(LAST_ACT_S) + await self._ends.releases.close(LAST_ACT_S)
        if unsaid:
            log.error("the store did not confirm how jobs ended; they will run again", jobs=unsaid)

    async def _hand_back(self, pool: Pool) -> None:
        for orphan in await pool.orphans():
            self._ends.releases.add(orphan)

    async def _settle(self, settlements: Sequence[Settlement]) -> Sequence[JobState | None]:
        leaving = Counter(one.delivery.consumer for one in settlements)
        pools = [pool for pool in self._pools.values() if pool.consumer in leaving]
        for pool in pools:
            pool.leave(leaving[pool.consumer])
        try:
            return await self._broker.settle(settlements)
        finally:
            for pool in pools:
                pool.leave(-leaving[pool.consumer])

    async def _release(self, deliveries: Sequence[Delivery]) -> Sequence[None]:
        await self._broker.release(deliveries)
        return [None] * len(deliveries)

    def _report_stuck(self, attempt: Attempt) -> None:
        job = attempt.job
        log.error(
            "a handler does not stop; its slot is lost until this process ends",
            job=attempt.delivery.job_id,
            type=job.type if job is not None else "",
            told=attempt.told,
        )
        self.stuck.set()


async def first_of(*waits: Coroutine[Any, Any, object], timeout: float | None = None) -> None:
    """Return when one of these has ended, or after `timeout` seconds; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
