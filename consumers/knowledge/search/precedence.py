"""Questions go first: long work in the same process steps aside while somebody waits for an answer."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

LONGEST_S: Final = 0.25
"""How long a step of work waits at most, so that it goes on however many ask."""


class Precedence:
    """Who asks in this process, and how work lets them by."""

    def __init__(self) -> None:
        self._asking = 0
        self._nobody_asks = asyncio.Event()
        self._nobody_asks.set()

    @contextmanager
    def question(self) -> Iterator[None]:
        """Somebody waits for an answer while the block runs."""
        self._asking += 1
        self._nobody_asks.clear()
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._nobody_asks.set()

    async def give_way(self) -> None:
        """Return when nobody asks, after a quarter of a second at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_S):
                await self._nobody_asks.wait()
