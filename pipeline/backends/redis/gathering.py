"""Many callers, few round trips: what is asked in one turn of the loop, or while a request is under way, goes together."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

ITEMS: Final = 100
BYTES: Final = 256 * 1024
"""Bounds of one request, so that no script holds the server for long."""


class Question(Generic[R]):
    """What one caller asked, and what came back so far, in its order."""

    def __init__(self, items: int) -> None:
        self._left = items
        self._said: list[R] = []
        self._error: Exception | None = None
        self._raised_at: TracebackType | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, said: R | Exception) -> None:
        """Take what was said to the next item."""
        if isinstance(said, Exception):
            self._error, self._raised_at = said, said.__traceback__
        else:
            self._said.append(said)
        self._left -= 1
        if self._left == 0 and not self._ended.done():  # else the caller is gone
            self._ended.set_result(None)

    async def answered(self) -> list[R]:
        """Return the answers. Raises what was raised for any item, after every item has been tried."""
        if self._left:
            await self._ended
        if self._error is not None:
            raise self._error.with_traceback(self._raised_at)  # without the frames of others who raised it
        return self._said


class Gathering(Generic[T, R]):
    """Sends items in bounded requests, in their order. A request that fails is told to those whose items it had."""

    def __init__(
        self, send: Callable[[Sequence[T]], Awaitable[Sequence[R]]], size: Callable[[T], int]
    ) -> None:
        self._send, self._size = send, size
        self._waiting: deque[tuple[T, Question[R]]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def ask(self, items: Sequence[T]) -> list[R]:
        """Return an answer for each item. Raises what sending raised, after every item has been tried."""
        question = Question[R](len(items))
        self._waiting += [(item, question) for item in items]
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="gathering")
        return await question.answered()

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._next()
                answers: Sequence[R | Exception]
                try:
                    answers = await self._send([item for item, _ in batch])
                except Exception as error:  # noqa: BLE001 - told to those who asked
                    answers = [error] * len(batch)
                for (_, question), said in zip(batch, answers, strict=True):
                    question.answer(said)
        finally:
            self._task = None

    def _next(self) -> list[tuple[T, Question[R]]]:
        batch: list[tuple[T, Question[R]]] = []
        size = 0
        while self._waiting and len(batch) < ITEMS:
            size += self._size(self._waiting[0][0])
            if batch and size > BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch
