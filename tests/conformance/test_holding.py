"""A place of a lock is given back, at whatever moment its holder is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from pipeline.broker import Broker
from pipeline.holding import holding

from tests.support.five.stepping import Stepped
from tests.support.waiting import wait_until


async def test_a_place_is_taken_and_renewed_and_free_after_the_block(store: Broker) -> None:
    async with holding(store, "page", "a", 60_000) as take:
        number = await take()
        assert number is not None
        assert await take() == number
        assert await store.lock("page", "b", 60_000) is None
    assert await store.lock("page", "b", 60_000) is not None


async def test_a_place_of_another_is_left_to_it(store: Broker) -> None:
    await store.lock("page", "b", 60_000)
    async with holding(store, "page", "a", 60_000) as take:
        assert await take() is None
    assert await store.lock("page", "c", 60_000) is None


async def test_whoever_is_cancelled_before_whatever_answer_holds_nothing(store: Broker) -> None:
    async def hold() -> None:
        async with holding(store, "page", "a", 60_000) as take:
            await take()
            await take()

    at = 1
    while await cancelled_at(hold(), at):
        assert await store.lock("page", "b", 60_000) is not None, at
        await store.unlock("page", "b")
        at += 1
    assert at > 3


async def cancelled_at(work: Coroutine[Any, Any, None], at: int) -> bool:
    """Cancel work before the answer to its await of this number; False if it has none."""
    stepped = Stepped(work, at)

    async def step() -> None:
        await stepped

    task = asyncio.create_task(step())
    await wait_until(lambda: stepped.stands.is_set() or task.done(), describe="it stands still")
    task.cancel()
    await asyncio.wait([task], timeout=10)
    return task.cancelled()
