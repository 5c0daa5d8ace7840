"""One form for every periodic duty: a step that says when it wants to come next."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from pipeline.outage import Outage

Tick: TypeAlias = Callable[[], Awaitable[float]]
"""One step; returns the seconds until the next one."""

STOP_S: Final = 2.0


class Looper:
    """Runs `tick` again and again in a task of its own. A step that fails is said once and repeated after a while."""

    def __init__(self, name: str, tick: Tick) -> None:
        self._name = name
        self._tick = tick
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._outage = Outage(name, component=name)

    @property
    def failing(self) -> bool:
        """Whether the last step failed."""
        return self._outage.lasting

    def start(self) -> None:
        """Begin with a first step at once. Starting what runs changes nothing."""
        if self._task is None:
            self._stopping = False
            self._task = asyncio.create_task(self._run(), name=f"looper {self._name}")

    def wake(self) -> None:
        """Take the next step now; asked for during a step, one more follows it."""
        self._wake.set()

    async def stop(self) -> None:
        """Let a running step end, for two seconds at most. Stopping twice is fine."""
        self._stopping = True
        self._wake.set()
        task = self._task
        if task is not None:
            done, _ = await asyncio.wait([task], timeout=STOP_S)
            if not done:
                task.cancel()
                await asyncio.wait([task], timeout=STOP_S)
            if self._task is task:
                self._task = None

    async def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            pause = await self._step()
            if not self._stopping:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()

    async def _step(self) -> float:
        try:
            pause = await self._tick()
        except (Exception, asyncio.CancelledError) as error:  # a duty outlives whatever its step meets
            if stops_us(error):
                raise
            return self._outage.failed(error)
        self._outage.over()
        return pause


def stops_us(error: BaseException) -> bool:
    """Whether it ends this task. A cancellation of something that the task waited for is a failure like any other."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
