"""Waiting for work without taking any: blocking reads that only say that there is something new."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from contracts.topology import by_home, home
from pipeline.backends.redis.control import Wakeups
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined

BLOCK_S: Final = 30.0
READY, PAUSED = 1, -1


class Waiting:
    """One blocking read a group of queues in one home. A read that outlives its wait serves the next one: it began
    earlier, so it misses nothing.
    """

    def __init__(self, server: Server, keys: Keys, wakeups: Wakeups) -> None:
        self._server, self._keys, self._wakeups = server, keys, wakeups
        self._reads: dict[tuple[str, ...], Read] = {}

    async def wait(self, queues: Sequence[str], timeout: float) -> bool:
        """Return True when one of these queues may have jobs to claim. Raises StoreUnavailable."""
        groups = [tuple(group) for group in by_home(queues, str).values()]
        clock = asyncio.get_running_loop().time
        end = clock() + timeout
        while True:
            with self._wakeups.expected() as woken:
                if any(await joined(map(self._ready, groups))):
                    return True
                reads = [self._reads[group].task for group in groups if group in self._reads]
                everything: list[asyncio.Future[Any]] = [*reads, woken]
                left = max(end - clock(), 0)
                done, _ = await asyncio.wait(everything, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if any(read.result() for read in reads if read.done() and not read.cancelled()):
                return True
            if not done:
                return False

    async def close(self) -> None:
        """End every read."""
        for group in tuple(self._reads):
            await self._reads.pop(group).end()

    async def _ready(self, group: tuple[str, ...]) -> bool:
        """Whether one of these queues is; where none is, see to it that a read listens to just those that are not paused."""
        seen = await self._server.run(script("look_queues"), self._keys.prefix(home(group[0])), *group)
        states = dict(zip(group, zip(seen[::3], seen[1::3], seen[2::3], strict=True), strict=True))
        if any(ready == READY for ready, _, _ in states.values()):
            return True
        heard = tuple(queue for queue, (ready, _, _) in states.items() if ready != PAUSED)
        read = self._reads.get(group)
        if read is not None and (read.task.done() or read.queues != heard):
            await self._reads.pop(group).end()
        if heard and group not in self._reads:
            streams = [
                (self._keys.stream(queue, again=again), last)
                for queue in heard
                for again, last in zip((False, True), states[queue][1:], strict=True)
            ]
            listening = self._server.listen(streams, BLOCK_S)
            name = f"listening to {', '.join(heard)}"
            self._reads[group] = Read(heard, asyncio.create_task(listening, name=name))
        return False


@dataclass(frozen=True, slots=True)
class Read:
    """A blocking read under way, and the queues it hears of."""

    queues: tuple[str, ...]
    task: asyncio.Task[list[Any]]

    async def end(self) -> None:
        """End it, whatever it says."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
