"""Who waits for work, and the listeners of this process."""

import asyncio
from collections.abc import Callable, Iterable

Listener = Callable[[], None]


class Wakeups:
    """Tasks that wait for pending jobs of some queues. Waiting belongs to one event loop; waking to any thread."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], frozenset[str]] = {}

    def expect(self, queues: Iterable[str]) -> asyncio.Future[None]:
        """Return a future that ends when one of `queues` has work; give it to `forget` afterwards."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = frozenset(queues)
        return future

    def forget(self, future: asyncio.Future[None]) -> None:
        """Stop waiting."""
        self._waiting.pop(future, None)

    def awaited(self) -> frozenset[str]:
        """Return every queue that somebody waits for."""
        return frozenset().union(*tuple(self._waiting.values()))

    def wake(self, queues: Iterable[str]) -> None:
        """Wake whoever waits for one of `queues`."""
        woken = frozenset(queues)
        for future, wanted in tuple(self._waiting.items()):
            if not wanted.isdisjoint(woken) and not future.get_loop().is_closed():
                future.get_loop().call_soon_threadsafe(_end, future)


class Listeners:
    """Callbacks that are called, in whatever thread, when something happens."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` from now on; return what ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def call(self) -> None:
        """Call everybody."""
        for listener in tuple(self._listeners):
            listener()


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
