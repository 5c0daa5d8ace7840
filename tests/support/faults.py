"""What goes wrong between a process and its store, when a test asks for it.

A lost request: the caller is told that the store is unavailable, and nothing happened.
A lost reply: it happened, and the caller is told that the store is unavailable.
"""

import inspect
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

import pytest
from pipeline.errors import StoreUnavailable


class Loss(StrEnum):
    """What is lost of an operation."""

    NOTHING = "nothing lost"
    REQUEST = "request lost"
    REPLY = "reply lost"


class Faults:
    """The losses that wait to happen, by the port's method they happen to. A backend asks at both ends of an operation."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Loss]] = defaultdict(deque)
        self._away = False
        self._lock = threading.Lock()  # leases are renewed in a thread

    def lose_request(self, method: str) -> None:
        """The next call of `method` does not reach the store."""
        self._waiting[method].append(Loss.REQUEST)

    def lose_reply(self, method: str) -> None:
        """The next call of `method` happens, and nobody is told."""
        self._waiting[method].append(Loss.REPLY)

    def lose(self, loss: Loss, method: str) -> None:
        """The next call of `method` loses this."""
        if loss is not Loss.NOTHING:
            self._waiting[method].append(loss)

    @contextmanager
    def away(self) -> Iterator[None]:
        """No operation reaches the store meanwhile."""
        self._away = True
        try:
            yield
        finally:
            self._away = False

    def waiting(self, method: str) -> int:
        """How many losses of `method` have not happened yet."""
        return len(self._waiting[method])

    def take(self, method: str) -> Loss:
        """Say what this call of `method` loses, for a backend that really loses it."""
        with self._lock:
            return self._waiting[method].popleft() if self._waiting[method] else Loss.NOTHING

    def begin(self, method: str) -> Loss:
        """Say what this call of `method` loses. Raises StoreUnavailable where that is the request."""
        loss = self.take(method)
        if loss is Loss.REQUEST or self._away:
            raise StoreUnavailable(f"{method}: the request was lost, as the test asked")
        return loss

    def end(self, method: str, loss: Loss) -> None:
        """Raise StoreUnavailable where the reply of this call is lost."""
        if loss is Loss.REPLY:
            raise StoreUnavailable(f"{method}: the reply was lost, as the test asked")


asked: ContextVar[str] = ContextVar("asked", default="")
"""The port's method on whose behalf something is asked of the store."""


def know_who_asks(patch: pytest.MonkeyPatch, broker: type) -> None:
    """From now on each public method of this class says its name in `asked` while it runs."""
    for name, method in inspect.getmembers(broker, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            patch.setattr(broker, name, _asking(name, method))


def _asking(name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def ask(*args: Any, **options: Any) -> Any:
        before = asked.set(name)
        try:
            return await method(*args, **options)
        finally:
            asked.reset(before)

    ask.__name__ = name
    return ask
