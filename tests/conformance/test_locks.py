"""Locks: owners with a time to live, `width` places, and a fencing number that only grows."""

from pipeline.broker import Broker

from tests.conformance.conftest import Insist
from tests.support.backends import Backend
from tests.support.waiting import stays_true, wait_until


async def test_a_lock_has_one_holder_until_it_is_given_back(
    store: Broker, backend: Backend, insist: Insist
) -> None:
    other = await backend.open()
    assert await insist(store.lock, "page", "a", 60_000) is not None
    assert await other.lock("page", "b", 60_000) is None
    await insist(store.unlock, "page", "a")
    assert await other.lock("page", "b", 60_000) is not None


async def test_the_number_only_grows(store: Broker) -> None:
    numbers = []
    for owner in "abcde":
        numbers.append(await store.lock("page", owner, 60_000))
        await store.unlock("page", owner)
    assert numbers == sorted({n for n in numbers if n is not None})


async def test_the_holder_who_asks_again_renews_and_keeps_its_number(store: Broker) -> None:
    first = await store.lock("page", "a", 60_000)
    assert await store.lock("page", "a", 60_000) == first


async def test_a_lock_whose_time_is_over_is_free_and_its_number_is_older(store: Broker) -> None:
    first = await store.lock("page", "a", 40)
    assert first is not None

    async def taken() -> int | None:
        return await store.lock("page", "b", 60_000)

    second = await wait_until(taken, describe="the time is over")
    assert second > first
    assert await store.unlock("page", "a") is False  # the loser's release does not free the winner
    assert await store.lock("page", "c", 60_000) is None


async def test_renewing_keeps_a_lock_beyond_its_time(store: Broker) -> None:
    number = await store.lock("page", "a", 500)

    async def still_held() -> bool:
        renewed = await store.lock("page", "a", 500)
        return renewed == number and await store.lock("page", "b", 500) is None

    await stays_true(still_held, describe="a holds it", during=0.8)


async def test_as_many_hold_it_as_it_is_wide(store: Broker) -> None:
    held = [await store.lock("page", owner, 60_000, 3) for owner in "abcd"]
    assert [number is not None for number in held] == [True, True, True, False]
    await store.unlock("page", "b")
    assert await store.lock("page", "d", 60_000, 3) is not None


async def test_only_the_holder_gives_it_back(store: Broker) -> None:
    await store.lock("page", "a", 60_000)
    assert await store.unlock("page", "b") is False
    assert await store.unlock("other", "a") is False
    assert await store.lock("page", "c", 60_000) is None
    assert await store.unlock("page", "a") is True
    assert await store.unlock("page", "a") is False
