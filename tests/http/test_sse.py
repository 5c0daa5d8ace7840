"""What a page hears of the system: that it changed, and nothing else."""

import asyncio
from contextlib import aclosing

from pipeline.http import sse
from pipeline.http.sse import Watch, events

from tests.http.conftest import document


async def heard(stream) -> str:
    async with asyncio.timeout(10):
        return await anext(stream)


async def test_a_listener_hears_that_something_changed_and_not_what(pipeline):
    watch = Watch(pipeline.inspector)
    async with aclosing(events(watch, "system", look_s=0.05)) as stream:
        assert (await heard(stream)).startswith("retry:")
        next_one = asyncio.ensure_future(heard(stream))
        await watch.word("system")
        await pipeline.inspector.pause("wiki")
        assert await next_one == "event: changed\ndata:\n\n"


async def test_a_listener_to_a_job_hears_when_it_is_gone(pipeline):
    receipt = await pipeline.enqueue(document())
    watch = Watch(pipeline.inspector)
    async with aclosing(events(watch, f"job:{receipt.id}", look_s=0.05)) as stream:
        await heard(stream)
        next_one = asyncio.ensure_future(heard(stream))
        await watch.word(f"job:{receipt.id}")
        await pipeline.inspector.cancel(receipt.id)
        assert "changed" in await next_one


async def test_however_many_listen_the_store_is_asked_once_a_second(pipeline, monkeypatch):
    asked = 0
    queues = pipeline.inspector.queues

    async def counted():
        nonlocal asked
        asked += 1
        return await queues()

    monkeypatch.setattr(pipeline.inspector, "queues", counted)
    monkeypatch.setattr(sse, "LOOK_S", 60.0)
    watch = Watch(pipeline.inspector)
    words = await asyncio.gather(*(watch.word("system") for _ in range(100)))
    assert len(set(words)) == 1
    assert asked == 1


async def test_a_quiet_stream_says_that_it_lives_and_ends_after_a_while(pipeline, monkeypatch):
    monkeypatch.setattr(sse, "QUIET_S", 0.0)
    monkeypatch.setattr(sse, "LONGEST_S", 0.5)
    watch = Watch(pipeline.inspector)
    async with asyncio.timeout(10):
        said = [part async for part in events(watch, "system", look_s=0.05)]
    assert ":\n\n" in said
    assert watch.streams == 0
