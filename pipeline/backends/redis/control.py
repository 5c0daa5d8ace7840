"""The channel of hints between processes. The truth is in the keys: a hint that is lost costs time, nothing else."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from pipeline.backends.redis.server import Server
from pipeline.outage import Outage

Listener = Callable[[], None]
LONGEST_S: Final = 2.0


class Wakeups:
    """Tasks that wait for work, woken together when something was paused, resumed or cancelled somewhere."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    @contextmanager
    def expected(self) -> Iterator[asyncio.Future[None]]:
        """Give a future that ends at the next wake-up."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            yield future
        finally:
            self._waiting.discard(future)
            future.cancel()

    def wake(self) -> None:
        """Wake everybody."""
        for future in tuple(self._waiting):
            if not future.done():
                future.set_result(None)


class Control:
    """Calls listeners when a hint comes. Subscribes with the first listener; after a time without a connection
    everything may have happened, so all are called.
    """

    def __init__(self, server: Server, channel: str, wakeups: Wakeups) -> None:
        self._server, self._channel = server, channel
        self._listeners: dict[str, list[Listener]] = {"signal": [wakeups.wake], "due": []}
        self._task: asyncio.Task[None] | None = None
        self._outage = Outage("listening for hints", longest_s=LONGEST_S)

    def add(self, hint: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` at each hint of this kind; return what ends it."""
        listeners = self._listeners[hint]
        listeners.append(listener)
        self.start()

        def remove() -> None:
            with suppress(ValueError):
                listeners.remove(listener)

        return remove

    def start(self) -> None:
        """Begin to listen. Starting what runs changes nothing."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="control channel")

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                async with self._server.subscribed(self._channel) as hints:
                    self._outage.over()
                    for hint in self._listeners:
                        self._call(hint)
                    while True:
                        message = await self._server.next_hint(hints)
                        if message is not None:
                            self._call(message)
            except Exception as error:  # noqa: BLE001 - hints come again, whatever a listener or the server says
                await asyncio.sleep(self._outage.failed(error))

    def _call(self, hint: str) -> None:
        for listener in tuple(self._listeners.get(hint, ())):
            listener()
