"""A place of a lock, held for as long as a block lasts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

from pipeline.broker import Broker
from pipeline.errors import StoreUnavailable

ANSWER_S: Final = 5.0
"""How long a block that ends waits for the answer to what it has asked; after that its place ends by itself."""

Take: TypeAlias = Callable[[], Awaitable[int | None]]


@asynccontextmanager
async def holding(broker: Broker, name: str, owner: str, ttl_ms: int, width: int = 1) -> AsyncIterator[Take]:
    """Give what takes a place of a lock, or renews it, as `Broker.lock` does; the end of the block gives it back.

    Whoever is cancelled while the store is asked does not know what it does, so a place is given back after the answer.
    """
    asked: asyncio.Future[int | None] | None = None

    async def take() -> int | None:
        nonlocal asked
        asked = asyncio.ensure_future(broker.lock(name, owner, ttl_ms, width))
        return await asyncio.shield(asked)

    try:
        yield take
    finally:
        if asked is not None:
            await _to_its_end(_give_back(broker, name, owner, asked))


async def _give_back(broker: Broker, name: str, owner: str, asked: asyncio.Future[int | None]) -> None:
    await asyncio.wait([asked], timeout=ANSWER_S)
    with suppress(StoreUnavailable):
        await broker.unlock(name, owner)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=ANSWER_S)
        raise
