"""What a handler does last, whatever ended it."""

import asyncio
from collections.abc import Awaitable
from typing import Final

CLEANUP_S: Final = 10.0


async def detached(work: Awaitable[object]) -> None:
    """Do the last thing to the end, within ten seconds, even if this job was cancelled or its time is up."""

    async def bounded() -> None:
        async with asyncio.timeout(CLEANUP_S):
            await work

    await asyncio.shield(asyncio.ensure_future(bounded()))
