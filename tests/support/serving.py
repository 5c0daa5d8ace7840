"""Handlers that note which queue was served, in order, and keep jobs inside while a test looks."""

import asyncio
from collections import Counter, defaultdict

from contracts.jobs import JobPayload
from pipeline.handlers import Context, Handler, on


class Served:
    """Jobs of the `held` queues stay inside until they are let go."""

    def __init__(self, *held: str) -> None:
        self.order: list[str] = []
        self.inside: Counter[str] = Counter()
        self._held = set(held)
        self._exits: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))

    def handlers(self, *kinds: type[JobPayload]) -> list[Handler]:
        return [on(kind, self._serve) for kind in kinds]

    async def _serve(self, _job: JobPayload, ctx: Context) -> None:
        self.order.append(ctx.queue)
        self.inside[ctx.queue] += 1
        try:
            if ctx.queue in self._held:
                await self._exits[ctx.queue].acquire()
        finally:
            self.inside[ctx.queue] -= 1

    def let(self, queue: str, count: int = 1) -> None:
        """Let some of those inside end."""
        for _ in range(count):
            self._exits[queue].release()

    def let_go(self) -> None:
        """Hold nobody any more."""
        for queue in self._held:
            self.let(queue, self.inside[queue])
        self._held.clear()
