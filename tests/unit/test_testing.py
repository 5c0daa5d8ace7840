"""What tests of products are given."""

import asyncio

import pytest
from contracts.states import JobState
from pipeline.errors import WaitTimeout
from pipeline.handlers import Context, on
from pipeline.records import QueueStat
from pipeline.runtime import Pipeline
from pipeline.testing import Flaky, Scripted, assert_enqueued, drain

from tests.support.jobs import Chat, Work, for_ever, handles, record
from tests.support.moving import moved
from tests.support.waiting import wait_until


async def test_drain_runs_what_is_due_and_what_that_enqueues_and_leaves_what_is_due_later(
    pipeline: Pipeline,
) -> None:
    chat = Scripted()

    async def handler(job: Work, ctx: Context) -> None:
        if job.n:
            await ctx.pipeline.enqueue(Work(n=job.n - 1))
        await ctx.pipeline.enqueue(Chat(n=job.n))

    await pipeline.enqueue(Work(n=3))
    later = await pipeline.enqueue(Work(n=9), delay=600)
    await drain(pipeline, [handles(handler), handles(chat, Chat)])
    assert sorted(job.n for job in chat.calls if isinstance(job, Chat)) == [0, 1, 2, 3]
    assert (await record(pipeline, later.id)).state is JobState.SCHEDULED


async def test_drain_waits_for_the_hooks_of_the_dead(pipeline: Pipeline) -> None:
    hooked: list[object] = []

    async def hook(payload: Work, *_: object) -> None:
        hooked.append(payload)

    await pipeline.enqueue(Work(n=1), max_retry=0)
    await drain(pipeline, [on(Work, Scripted(ValueError("no")), on_archived=hook)])
    assert hooked == [Work(n=1)]


async def test_drain_sees_a_job_that_dies_between_two_of_its_looks(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, dying, again, hooked = 0, asyncio.Event(), asyncio.Event(), asyncio.Event()
    queues = pipeline.inspector.queues

    async def handler(_job: Work, _ctx: Context) -> None:
        await dying.wait()
        raise ValueError("no")

    async def hook(*_: object) -> None:
        await again.wait()
        hooked.set()

    async def archived() -> bool:
        return (await record(pipeline, job.id)).state is JobState.ARCHIVED

    async def when_it_is_dead() -> list[QueueStat]:
        nonlocal looks
        looks += 1
        (dying if looks == 1 else again).set()
        await wait_until(archived, describe="the job is archived")
        return await queues()

    monkeypatch.setattr(pipeline.inspector, "queues", when_it_is_dead)
    job = await pipeline.enqueue(Work(), max_retry=0)
    await drain(pipeline, [on(Work, handler, on_archived=hook)])
    assert hooked.is_set()


async def test_drain_asks_the_pool_that_reads_a_queue_and_not_the_one_it_was_made_for(
    pipeline: Pipeline,
) -> None:
    done = Scripted()
    await pipeline.enqueue(Work())
    with moved({"default": "wiki"}):
        await drain(pipeline, [handles(done)], timeout=5)
    assert len(done.calls) == 1


async def test_drain_has_a_limit(pipeline: Pipeline) -> None:
    async def handler(_job: Work, _ctx: Context) -> None:
        await for_ever()

    await pipeline.enqueue(Work())
    with pytest.raises(WaitTimeout, match=r"jobs of default still run after 0\.2 s"):
        await drain(pipeline, [handles(handler)], timeout=0.2)


async def test_an_enqueued_job_is_found_by_type_and_fields(pipeline: Pipeline) -> None:
    await pipeline.enqueue(Work(n=1))
    await pipeline.enqueue(Work(n=2), delay=60)
    assert await assert_enqueued(pipeline, Work, n=2) == Work(n=2)
    assert (await assert_enqueued(pipeline, Work)).n in {1, 2}
    with pytest.raises(AssertionError, match=r"no job Work\(n=3\); there are: \[Work\(n=2\), Work\(n=1\)\]"):
        await assert_enqueued(pipeline, Work, n=3)
    with pytest.raises(AssertionError, match="no job Chat"):
        await assert_enqueued(pipeline, Chat)


async def test_a_job_that_has_ended_is_not_enqueued_any_more(pipeline: Pipeline) -> None:
    await pipeline.enqueue(Work(n=1), retention=60)
    await drain(pipeline, [handles(Scripted())])
    with pytest.raises(AssertionError):
        await assert_enqueued(pipeline, Work)


async def test_a_flaky_handler_works_in_the_end_and_a_scripted_one_repeats_its_last_answer() -> None:
    flaky = Flaky(2, LookupError("no"))
    for _ in range(2):
        with pytest.raises(LookupError):
            await flaky(Work(), None)
    assert await flaky(Work(), None) is None
    scripted = Scripted("one", "two")
    assert [await scripted(Work(n=n), None) for n in range(3)] == ["one", "two", "two"]
    assert scripted.calls == [Work(n=0), Work(n=1), Work(n=2)]
