"""Sends what was decided: in batches, in order, again and again until the store confirms."""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from contracts.topology import home
from pipeline.errors import StoreUnavailable
from pipeline.outage import Outage

T = TypeVar("T")
R = TypeVar("R")

BATCH: Final = 500


class Sorted(Generic[T, R]):
    """A flusher for each home, so that one whose store is away keeps back nothing of the others."""

    def __init__(
        self, what: str, send: Callable[[Sequence[T]], Awaitable[Sequence[R]]], queue: Callable[[T], str]
    ) -> None:
        self._what, self._send, self._queue = what, send, queue
        self._flushers: dict[str, Flusher[T, R]] = {}

    def add(self, item: T) -> asyncio.Future[R]:
        """See `Flusher.add`."""
        name = home(self._queue(item))
        if name not in self._flushers:
            self._flushers[name] = Flusher(self._what, self._send)
        return self._flushers[name].add(item)

    async def confirmed(self) -> None:
        """See `Flusher.confirmed`."""
        await asyncio.gather(*(one.confirmed() for one in self._flushers.values()))

    async def close(self, timeout: float) -> int:
        """See `Flusher.close`."""
        return sum(await asyncio.gather(*(one.close(timeout) for one in self._flushers.values())))


class Flusher(Generic[T, R]):
    """Collects items and sends them together: what came in one turn of the loop, or while a batch was under way.

    Nothing waits for a timer. A store that is away is asked again, less and less often, until it answers.
    """

    def __init__(self, what: str, send: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        self._send = send
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._outage = Outage(what)

    def add(self, item: T) -> asyncio.Future[R]:
        """Take an item; the future has the store's answer, or what is wrong with this very item."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        self._waiting.append((item, answer))
        if self._sending is None:
            self._sending = loop.create_task(self._flush(), name="flusher")
        return answer

    async def confirmed(self) -> None:
        """Return when all that was added before is confirmed."""
        if answers := [answer for _, answer in self._waiting]:
            await asyncio.wait(answers)

    async def close(self, timeout: float) -> int:
        """Give what waits `timeout` more seconds; return how many items remain unconfirmed."""
        if self._sending is not None:
            await asyncio.wait([self._sending], timeout=timeout)
        if self._sending is not None:
            self._sending.cancel()
        for _, answer in self._waiting:
            answer.cancel()
        return len(self._waiting)

    async def _flush(self) -> None:
        try:
            while self._waiting:
                batch = [item for item, _ in itertools.islice(self._waiting, BATCH)]
                try:
                    await self._send_all(batch)
                    self._outage.over()
                except StoreUnavailable as error:
                    await asyncio.sleep(self._outage.failed(error))
        finally:
            self._sending = None

    async def _send_all(self, batch: Sequence[T]) -> None:
        try:
            answers = await self._send(batch)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 - one item is at fault: let the others pass
            await self._send_singly(batch)
        else:
            for value in answers:
                self._confirm(value)

    async def _send_singly(self, batch: Sequence[T]) -> None:
        for item in batch:
            try:
                (value,) = await self._send([item])
            except StoreUnavailable:
                raise
            except Exception as fault:  # noqa: BLE001 - told to whoever waits for this item
                _, answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_exception(fault)
            else:
                self._confirm(value)

    def _confirm(self, value: R) -> None:
        _, answer = self._waiting.popleft()
        if not answer.done():
            answer.set_result(value)
