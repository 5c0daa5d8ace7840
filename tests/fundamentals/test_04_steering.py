"""Looking and steering: cancel, pause, progress, locks, what died."""

import asyncio

import pytest
from contracts.jobs import JobPayload
from pipeline import Context, DeadLetter, Pipeline, errors, on

from tests.support.waiting import wait_until


async def test_a_waiting_job_is_cancelled_at_once() -> None:
    """It never starts. The answer says what happened."""

    class Send(JobPayload, type="lesson:send", queue="default"):
        pass

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Send())
        assert await pipeline.inspector.cancel(receipt.id) == "cancelled"
        assert (await pipeline.inspector.job(receipt.id)).state == "cancelled"


async def test_a_running_job_is_told_to_stop() -> None:
    """An async handler is cancelled; a plain one looks at `ctx.cancelled` between its steps."""
    started, cleaned = asyncio.Event(), []

    class Train(JobPayload, type="lesson:train", queue="default"):
        pass

    async def train(job: Train, ctx: Context) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(ctx.id)

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Train())
        async with pipeline.workers(pools=["core"], handlers=[on(Train, train)]):
            await started.wait()
            assert await pipeline.inspector.cancel(receipt.id) == "signalled"
            with pytest.raises(errors.JobCancelled):
                await pipeline.wait(receipt.id, timeout=30)

    assert cleaned == [receipt.id]


async def test_everything_of_a_scope_is_cancelled_and_of_its_past_nothing_comes_after() -> None:
    """Fields such as `tenant_id`, `knowledge_id`, `session_id` say what a job belongs to. What is enqueued after the
    cancel is new, and runs.
    """

    class Index(JobPayload, type="lesson:index", queue="default"):
        session_id: str

    async with Pipeline.open() as pipeline:
        receipts = [await pipeline.enqueue(Index(session_id=s)) for s in ("mine", "yours", "mine")]
        did = await pipeline.inspector.cancel_scope("session", "mine")
        after = await pipeline.enqueue(Index(session_id="mine"))
        states = [(await pipeline.inspector.job(receipt.id)).state for receipt in (*receipts, after)]

    assert len(did.cancelled) == 2
    assert states == ["cancelled", "pending", "cancelled", "pending"]


async def test_a_paused_queue_starts_nothing_until_it_is_resumed() -> None:
    """Jobs can still be enqueued; they wait."""
    ran = asyncio.Event()

    class Send(JobPayload, type="lesson:send", queue="default"):
        pass

    async def send(job: Send, ctx: Context) -> None:
        ran.set()

    async with Pipeline.open() as pipeline:
        await pipeline.inspector.pause("default")
        receipt = await pipeline.enqueue(Send())
        async with pipeline.workers(pools=["core"], handlers=[on(Send, send)]):
            [queue] = [queue for queue in await pipeline.inspector.queues() if queue.paused]
            assert (queue.name, queue.pending, ran.is_set()) == ("default", 1, False)
            await pipeline.inspector.resume("default")
            await pipeline.wait(receipt.id, timeout=30)

    assert ran.is_set()


async def test_progress_is_shown_while_a_job_runs() -> None:
    """For people: the queue never needs it."""
    reported, end = asyncio.Event(), asyncio.Event()

    class Copy(JobPayload, type="lesson:copy", queue="default"):
        pass

    async def copy(job: Copy, ctx: Context) -> None:
        await ctx.progress(3, 10, "copying")
        reported.set()
        await end.wait()

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Copy())
        async with pipeline.workers(pools=["core"], handlers=[on(Copy, copy)]):
            await reported.wait()
            progress = (await pipeline.inspector.job(receipt.id)).progress
            end.set()
            await pipeline.wait(receipt.id, timeout=30)

    assert progress is not None
    assert (progress.done, progress.total, progress.stage) == (3, 10, "copying")


async def test_a_lock_keeps_two_jobs_apart() -> None:
    """Cluster-wide, renewed while the job lives, never longer. Who comes second fails, and tries again later."""
    holding, end = asyncio.Event(), asyncio.Event()

    class Write(JobPayload, type="lesson:write", queue="default"):
        pass

    async def write(job: Write, ctx: Context) -> None:
        async with ctx.lock("page-7", ttl=10):
            holding.set()
            await end.wait()

    async with Pipeline.open() as pipeline:
        first = await pipeline.enqueue(Write())
        async with pipeline.workers(pools=["core"], handlers=[on(Write, write)]):
            await holding.wait()
            second = await pipeline.enqueue(Write())

            async def turned_away() -> bool:
                return (await pipeline.inspector.job(second.id)).job.last_error == "lock 'page-7' is taken"

            await wait_until(turned_away, describe="the second finds it taken")
            end.set()
            await pipeline.wait(first.id, timeout=30)
            await pipeline.inspector.run_now(second.id)
            await pipeline.wait(second.id, timeout=30)


async def test_the_final_failure_of_a_job_is_told_once() -> None:
    """`on_archived` runs once a death, wherever and however the job died; but not for `Skip`, which spoke for itself."""
    told = []

    class Charge(JobPayload, type="lesson:charge", queue="default", max_retry=0):
        order: int

    async def charge(job: Charge, ctx: Context) -> None:
        raise ValueError("no funds")

    async def apologise(job: Charge, letter: DeadLetter, services: object) -> None:
        told.append((job.order, letter.reason, letter.error))

    async with Pipeline.open() as pipeline:
        await pipeline.enqueue(Charge(order=7))
        async with pipeline.workers(pools=["core"], handlers=[on(Charge, charge, on_archived=apologise)]):
            await wait_until(lambda: told, describe="somebody was told")

    assert told == [(7, "exhausted", "ValueError: no funds")]


async def test_what_a_process_is_built_with_reaches_its_handlers_as_services() -> None:
    """Open what is expensive once, and hand it to `workers(services=…)`."""
    answers = []

    class Ask(JobPayload, type="lesson:ask", queue="default"):
        question: str

    async def ask(job: Ask, ctx: Context[dict[str, str]]) -> None:
        answers.append(ctx.services[job.question])

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Ask(question="who"))
        handlers = [on(Ask, ask)]
        async with pipeline.workers(pools=["core"], handlers=handlers, services={"who": "Ann"}):
            await pipeline.wait(receipt.id, timeout=30)

    assert answers == ["Ann"]


async def test_mistakes_are_refused_before_anything_starts_and_name_what_was_meant() -> None:
    """Unknown settings, options, queues and pools; and a worker that does not know the jobs of its queues."""

    class Send(JobPayload, type="lesson:send", queue="default"):
        pass

    async def send(job: Send, ctx: Context) -> None: ...

    with pytest.raises(errors.ConfigurationError, match="did you mean lease_s"):
        async with Pipeline.open(lease=3):
            pass
    async with Pipeline.open() as pipeline:
        with pytest.raises(ValueError, match="did you mean 'core'"):
            async with pipeline.workers(pools=["cores"], handlers=[on(Send, send)]):
                pass
        with pytest.raises(errors.ConfigurationError, match="nothing handles its job type 'lesson:send'"):
            async with pipeline.workers(pools=["core"], handlers=[]):
                pass
