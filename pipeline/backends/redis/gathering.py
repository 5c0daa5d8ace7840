"""Many callers, few round trips: what is asked in one turn of the loop, or while a request is under way, goes together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

ITEMS: Final = 128
BYTES: Final = 256 * 1024
"""Bounds of one request, so that no script holds the server for long."""


class Gathering(Generic[T, R]):
    """Sends items in bounded requests, in their order. A request that fails is told to those whose items it had."""

    def __init__(
        self, send: Callable[[Sequence[T]], Awaitable[Sequence[R]]], size: Callable[[T], int]
    ) -> None:
        self._send, self._size = send, size
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, items: Sequence[T]) -> list[R]:
        """Return an answer for each item. Raises what sending raised, after every item has been tried."""
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[R]] = [loop.create_future() for _ in items]
        self._waiting += zip(items, answers, strict=True)
        if self._task is None:
            self._task = loop.create_task(self._run(), name="gathering")
        await asyncio.wait(answers)
        return [answer.result() for answer in answers]

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._next()
                try:
                    answers = await self._send([item for item, _ in batch])
                except Exception as error:  # noqa: BLE001 - told to those who asked
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                            future.exception()  # seen, even where the caller is gone
                else:
                    for (_, future), answer in zip(batch, answers, strict=True):
                        if not future.done():
                            future.set_result(answer)
        finally:
            self._task = None

    def _next(self) -> list[tuple[T, asyncio.Future[R]]]:
        taken, size = 0, 0
        for item, _ in self._waiting[:ITEMS]:
            size += self._size(item)
            if taken and size > BYTES:
                break
            taken += 1
        batch, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return batch
