"""What an attempt holds while its handler runs."""

import asyncio
import gc

from contracts.jobs import JobPayload
from pipeline.handlers import Context
from pipeline.runtime import Pipeline

from tests.support.jobs import Work, handles, turn, working


async def test_a_lock_that_was_given_back_leaves_nothing_in_a_handler_that_goes_on(
    pipeline: Pipeline,
) -> None:
    kept = list[str]()

    async def handler(_job: JobPayload, ctx: Context) -> None:
        for _ in range(20):
            async with ctx.lock("page", ttl=5):
                pass
        await turn()
        gc.collect()
        tasks = [one for one in gc.get_objects() if isinstance(one, asyncio.Task)]
        kept.extend(one.get_name() for one in tasks if one.get_name() == "lock page")

    receipt = await pipeline.enqueue(Work())
    async with working(pipeline, handles(handler)):
        await pipeline.wait(receipt.id, timeout=5)
    assert kept == []
