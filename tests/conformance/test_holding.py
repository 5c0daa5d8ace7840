"""A place of a lock is renewed while its holder works, and given back at whatever moment that is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from pipeline.broker import Broker
from pipeline.holding import holding

from tests.support.faults import Faults
from tests.support.five.stepping import Stepped
from tests.support.waiting import stays_true, wait_until


async def test_a_place_is_held_for_longer_than_its_time_and_free_after_the_block(store: Broker) -> None:
    async with holding(store, "page", 0.3) as place:
        assert place is not None

        async def is_ours() -> bool:
            return await store.lock("page", "b", 1) is None

        await stays_true(is_ours, describe="nobody else gets it", during=0.8)
        assert place.is_held
    number = await store.lock("page", "b", 60_000)
    assert number is not None
    assert number > place.number


async def test_two_who_hold_a_place_each_have_a_number_each(store: Broker) -> None:
    async with holding(store, "page", 60, 2) as one, holding(store, "page", 60, 2) as other:
        assert one is not None
        assert other is not None
        assert one.number < other.number


async def test_a_place_of_another_is_left_to_it(store: Broker) -> None:
    await store.lock("page", "b", 60_000)
    async with holding(store, "page", 60) as place:
        assert place is None
    assert await store.lock("page", "c", 60_000) is None


async def test_a_place_that_could_not_be_renewed_in_time_is_lost(store: Broker, faults: Faults) -> None:
    lost = list[str]()
    async with holding(store, "page", 0.3, lost=lambda: lost.append("page")) as place:
        assert place is not None
        with faults.away():
            await wait_until(lambda: lost, describe="it is lost")
        await stays_true(lambda: lost == ["page"], describe="that is said once", during=0.3)
        assert not place.is_held
        assert await store.lock("page", "b", 60_000) is not None
    assert await store.lock("page", "c", 60_000) is None


async def test_a_place_that_is_left_ends_by_its_time(store: Broker) -> None:
    async with holding(store, "page", 0.3) as place:
        assert place is not None
        place.leave()

        async def is_free() -> bool:
            return await store.lock("page", "b", 60_000) is not None

        await wait_until(is_free, describe="its time is over")


async def test_whoever_is_cancelled_before_whatever_answer_holds_nothing(store: Broker) -> None:
    async def hold() -> None:
        async with holding(store, "page", 60):
            await store.states(["something"])

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
