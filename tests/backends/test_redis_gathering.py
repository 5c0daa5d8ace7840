"""Many callers in one request, and one answer that they all get."""

import asyncio
import traceback
from collections.abc import Sequence

from pipeline.backends.redis.gathering import Gathering


async def test_a_failure_that_many_are_told_of_does_not_grow_with_their_number() -> None:
    async def fail(_: Sequence[int]) -> Sequence[int]:
        raise LookupError("no")

    gathering, frames = Gathering[int, int](fail, lambda _: 1), list[int]()

    async def ask(number: int) -> None:
        try:
            await gathering.ask([number])
        except LookupError as error:
            frames.append(len(traceback.extract_tb(error.__traceback__)))

    await asyncio.gather(*map(ask, range(50)))
    assert frames == frames[:1] * 50
