"""How tests wait: until something becomes true, or while it stays true. The only place in tests that sleeps."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")
AsyncPredicate = Callable[[], Awaitable[T]]
SyncPredicate = Callable[[], T]

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1


@overload
async def wait_until(
    predicate: AsyncPredicate[T | None], *, describe: str, timeout: float = ..., longest_pause: float = ...
) -> T: ...
@overload
async def wait_until(
    predicate: SyncPredicate[T | None], *, describe: str, timeout: float = ..., longest_pause: float = ...
) -> T: ...
async def wait_until(
    predicate: SyncPredicate[object],
    *,
    describe: str,
    timeout: float = 10,
    longest_pause: float = LONGEST_PAUSE_S,
) -> object:
    """Call `predicate` (sync or async) until it answers something true, and return that answer.

    Between two calls it sleeps a little longer each time, at most `longest_pause` seconds.
    Raises AssertionError after `timeout` seconds, saying what was awaited and what was last seen.
    """
    limit = asyncio.timeout(timeout)
    pause = FIRST_PAUSE_S
    seen: object = "no answer yet"
    try:
        async with limit:
            while not (seen := await _ask(predicate)):
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, longest_pause)
            return seen
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(f"waited {timeout:g} s until {describe}; last seen: {seen!r}") from None


async def stays_true(predicate: SyncPredicate[object], *, describe: str, during: float) -> None:
    """Check all through `during` seconds that `predicate` (sync or async) answers true.

    Raises AssertionError as soon as it does not.
    """
    end = time.monotonic() + during
    while True:
        seen = await _ask(predicate)
        assert seen, f"it did not stay true that {describe}; seen: {seen!r}"
        if (left := end - time.monotonic()) <= 0:
            return
        await asyncio.sleep(min(FIRST_PAUSE_S, left))


async def _ask(predicate: SyncPredicate[object]) -> object:
    answer = predicate()
    return await answer if inspect.isawaitable(answer) else answer
