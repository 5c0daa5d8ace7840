"""Waiting for work without taking any: blocking reads that only say that there is something new."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from contracts.topology import home
from pipeline.backends.redis.control import Wakeups
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined

BLOCK_S: Final = 5.0
READY, PAUSED = 1, -1


class Waiting:
    """One blocking read a group of queues in one home. A read that outlives its wait serves the next one: it began
    earlier, so it misses nothing.
    """

    def __init__(self, server: Server, keys: Keys, wakeups: Wakeups) -> None:
        self._server, self._keys, self._wakeups = server, keys, wakeups
        self._reads: dict[tuple[str, ...], asyncio.Task[list[Any]]] = {}

    async def wait(self, queues: Sequence[str], timeout: float) -> bool:
        """Return True when one of these queues may have jobs to claim. Raises StoreUnavailable."""
        groups: dict[str, list[str]] = {}
        for queue in queues:
            groups.setdefault(home(queue), []).append(queue)
        try:
            async with asyncio.timeout(timeout):
                while not await self._found([tuple(group) for group in groups.values()]):
                    pass  # what woke us may have been for others: look again
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """End every read."""
        for read in self._reads.values():
            read.cancel()
        await asyncio.gather(*self._reads.values(), return_exceptions=True)
        self._reads.clear()

    async def _found(self, groups: Sequence[tuple[str, ...]]) -> bool:
        with self._wakeups.expected() as woken:
            if any(await joined(map(self._ready, groups))):
                return True
            reads = [self._reads[group] for group in groups if group in self._reads]
            everything: list[asyncio.Future[Any]] = [*reads, woken]
            await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        ended = [group for group in groups if group in self._reads and self._reads[group].done()]
        found = [self._reads.pop(group).result() for group in ended]
        return any(found)

    async def _ready(self, group: tuple[str, ...]) -> bool:
        """Whether one of these queues is; where none is, see to it that a read listens to those that are not paused."""
        seen = await self._server.run(script("look_queues"), self._keys.prefix(home(group[0])), *group)
        states = dict(zip(group, zip(seen[::3], seen[1::3], seen[2::3], strict=True), strict=True))
        if any(ready == READY for ready, _, _ in states.values()):
            return True
        if group in self._reads and self._reads[group].done():
            self._reads.pop(group).exception()
        if group not in self._reads:
            streams = [
                (self._keys.stream(queue, again=again), last)
                for queue, (ready, fresh, back) in states.items()
                if ready != PAUSED
                for again, last in ((False, fresh), (True, back))
            ]
            if streams:
                read = self._server.listen(streams, BLOCK_S)
                self._reads[group] = asyncio.create_task(read, name=f"listening to {', '.join(group)}")
        return False
