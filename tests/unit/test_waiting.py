import asyncio
from itertools import count

import pytest

from tests.support.waiting import stays_true, wait_until


async def test_the_answer_of_a_sync_or_async_predicate_is_returned() -> None:
    calls = count()

    async def third() -> str | None:
        return "third" if next(calls) == 2 else None

    assert await wait_until(third, describe="the third call") == "third"
    assert await wait_until(lambda: "at once", describe="anything") == "at once"


async def test_a_timeout_says_what_was_awaited_and_what_was_seen() -> None:
    with pytest.raises(AssertionError, match=r"waited 0.05 s until all have come; last seen: 0"):
        await wait_until(lambda: 0, describe="all have come", timeout=0.05)


async def test_a_predicate_that_hangs_does_not_hang_the_test() -> None:
    with pytest.raises(AssertionError, match="no answer yet"):
        await wait_until(asyncio.Event().wait, describe="an event", timeout=0.05)


async def test_a_predicate_that_times_out_by_itself_is_not_mistaken_for_a_long_wait() -> None:
    def refuse() -> bool:
        raise TimeoutError("the server said so")

    with pytest.raises(TimeoutError, match="the server said so"):
        await wait_until(refuse, describe="an answer")


async def test_what_stops_being_true_is_noticed() -> None:
    calls = count()
    await stays_true(lambda: True, describe="all is quiet", during=0.02)
    with pytest.raises(AssertionError, match="all is quiet"):
        await stays_true(lambda: next(calls) < 2, describe="all is quiet", during=10)
