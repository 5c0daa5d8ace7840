"""A place of a lock, held and renewed for as long as a block lasts."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from contracts.identity import new_id
from pipeline.broker import Broker
from pipeline.errors import StoreUnavailable

ANSWER_S: Final = 5.0
"""How long a block that ends waits for the answer to what it has asked; after that its place ends by itself."""


class Place:
    """A place that somebody holds; `number` is its fencing number."""

    def __init__(self, number: int, renewal: asyncio.Task[None]) -> None:
        self.number, self._renewal = number, renewal

    @property
    def is_held(self) -> bool:
        """Whether it was renewed in time, each time."""
        return not self._renewal.done()

    def leave(self) -> None:
        """Renew it no more, so that it ends by its time."""
        self._renewal.cancel()


@asynccontextmanager
async def holding(
    broker: Broker, name: str, ttl_s: float, width: int = 1, *, lost: Callable[[], object] = lambda: None
) -> AsyncIterator[Place | None]:
    """Hold one of `width` places of a lock for as long as the block lasts, renewed every third of `ttl_s` seconds; None
    where all are taken.

    `lost` is called where the place was not renewed in time; the block goes on. Raises StoreUnavailable.
    """
    owner = new_id()
    asked: asyncio.Future[int | None] | None = None

    async def take() -> int | None:
        nonlocal asked
        asked = asyncio.ensure_future(broker.lock(name, owner, round(ttl_s * 1000), width))
        return await asyncio.shield(asked)  # whoever is cancelled here does not know what the store does

    try:
        until = time.monotonic() + ttl_s
        number = await take()
        if number is None:
            yield None
            return
        renewal = asyncio.create_task(_renew(take, number, ttl_s, until, lost), name=f"lock {name}")
        try:
            yield Place(number, renewal)
        finally:
            renewal.cancel()
    finally:
        if asked is not None:
            await _to_its_end(_give_back(partial(broker.unlock, name, owner), asked))


async def _renew(
    take: Callable[[], Awaitable[int | None]],
    number: int,
    ttl_s: float,
    until: float,
    lost: Callable[[], object],
) -> None:
    while time.monotonic() < until:
        await asyncio.sleep(ttl_s / 3)
        asked_at = time.monotonic()
        with suppress(Exception):  # whatever it is: what was not renewed in time is lost
            async with asyncio.timeout(max(until - asked_at, ttl_s / 10)):
                if await take() != number:
                    break
                until = asked_at + ttl_s
    lost()


async def _give_back(unlock: Callable[[], Awaitable[bool]], asked: asyncio.Future[int | None]) -> None:
    """After the answer to what was asked, for until then the store may take the place."""
    await asyncio.wait([asked], timeout=ANSWER_S)
    with suppress(StoreUnavailable):
        await unlock()


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=ANSWER_S)
        raise
