"""When a job runs: later, again, not yet, not at all."""

import asyncio

import pytest
from contracts.jobs import JobPayload
from pipeline import Cancel, Context, Pipeline, Retry, Skip, Snooze, errors, on


async def test_a_delay_is_the_earliest_moment() -> None:
    """`delay=` in seconds, or `run_at=` in milliseconds since the epoch: never earlier, on the store's clock."""
    waited_ms = []

    class Remind(JobPayload, type="lesson:remind", queue="default"):
        pass

    async def remind(job: Remind, ctx: Context) -> None:
        waited_ms.append(ctx.started_at - ctx.job.enqueued_at)

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Remind(), delay=0.2)
        assert receipt.state == "scheduled"
        async with pipeline.workers(pools=["core"], handlers=[on(Remind, remind)]):
            await pipeline.wait(receipt.id, timeout=30)

    assert waited_ms[0] >= 200


async def test_a_failure_is_tried_again() -> None:
    """Any exception is a failure. `max_retry` says how often more; `retry=` after how many seconds."""
    attempts = []

    class Fetch(JobPayload, type="lesson:fetch", queue="default", max_retry=3):
        pass

    async def fetch(job: Fetch, ctx: Context) -> None:
        attempts.append(ctx.retried)
        if ctx.retried < 2:
            raise ConnectionError("not today")

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Fetch())
        handlers = [on(Fetch, fetch, retry=lambda failures: 0.01 * failures)]
        async with pipeline.workers(pools=["core"], handlers=handlers):
            await pipeline.wait(receipt.id, timeout=30)

    assert attempts == [0, 1, 2]


async def test_a_job_whose_last_attempt_failed_is_archived_and_can_be_run_again() -> None:
    """`ctx.final` tells the handler that it is the last attempt. An archived job keeps its reason and error."""
    finals = []

    class Fetch(JobPayload, type="lesson:fetch", queue="default", max_retry=1):
        pass

    async def fetch(job: Fetch, ctx: Context) -> None:
        finals.append(ctx.final)
        if len(finals) < 3:
            raise ConnectionError("not today")

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Fetch())
        async with pipeline.workers(pools=["core"], handlers=[on(Fetch, fetch, retry=lambda _: 0.01)]):
            with pytest.raises(errors.JobArchived, match="not today"):
                await pipeline.wait(receipt.id, timeout=30)
            record = await pipeline.inspector.job(receipt.id)
            assert (record.state, record.reason) == ("archived", "exhausted")

            await pipeline.inspector.run_now(receipt.id)
            await pipeline.wait(receipt.id, timeout=30)

    assert finals == [False, True, True]


async def test_retry_says_when() -> None:
    """`Retry(after=…)` is a failure with a time of its own: what a busy server asks for."""
    attempts = []

    class Fetch(JobPayload, type="lesson:fetch", queue="default", max_retry=1):
        pass

    async def fetch(job: Fetch, ctx: Context) -> Retry | None:
        attempts.append(ctx.retried)
        return Retry(after=0.05, reason="429") if not ctx.retried else None

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Fetch())
        async with pipeline.workers(pools=["core"], handlers=[on(Fetch, fetch)]):
            await pipeline.wait(receipt.id, timeout=30)

    assert attempts == [0, 1]


async def test_snooze_means_not_yet_and_counts_nothing() -> None:
    """`Snooze(delay)` frees the slot and comes back: for what is not ready, rather than failed."""
    attempts = []

    class Poll(JobPayload, type="lesson:poll", queue="default", max_retry=0):
        pass

    async def poll(job: Poll, ctx: Context) -> Snooze | None:
        attempts.append(ctx.retried)
        return Snooze(0.1) if len(attempts) < 3 else None

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Poll())
        async with pipeline.workers(pools=["core"], handlers=[on(Poll, poll)]):
            await pipeline.wait(receipt.id, timeout=30)

    assert attempts == [0, 0, 0]


async def test_skip_gives_up_at_once_and_cancel_stops_for_good() -> None:
    """Returned or raised, both end the job now: `Skip` keeps it with the reason, `Cancel` says that nobody wants it."""

    class Parse(JobPayload, type="lesson:parse", queue="default", max_retry=9):
        name: str

    async def parse(job: Parse, ctx: Context) -> None:
        if job.name == "encrypted":
            raise Skip("it is encrypted")
        raise Cancel("a newer version is there")

    async with Pipeline.open() as pipeline:
        encrypted = await pipeline.enqueue(Parse(name="encrypted"))
        outdated = await pipeline.enqueue(Parse(name="outdated"))
        async with pipeline.workers(pools=["core"], handlers=[on(Parse, parse)]):
            with pytest.raises(errors.JobArchived, match="it is encrypted"):
                await pipeline.wait(encrypted.id, timeout=30)
            with pytest.raises(errors.JobCancelled):
                await pipeline.wait(outdated.id, timeout=30)


async def test_a_timeout_ends_an_attempt_and_a_deadline_the_job() -> None:
    """`timeout=` limits one attempt, which then has failed. After `deadline=` the job is worth nothing any more."""

    class Think(JobPayload, type="lesson:think", queue="default", max_retry=0, timeout=0.1):
        pass

    async def think(job: Think, ctx: Context) -> None:
        await asyncio.Event().wait()

    async with Pipeline.open() as pipeline:
        slow = await pipeline.enqueue(Think())
        late = await pipeline.enqueue(Think(), deadline=1)
        async with pipeline.workers(pools=["core"], handlers=[on(Think, think)]):
            with pytest.raises(errors.JobArchived, match=r"timed out after 0\.1 s"):
                await pipeline.wait(slow.id, timeout=30)
            with pytest.raises(errors.JobArchived, match="expired"):
                await pipeline.wait(late.id, timeout=30)
