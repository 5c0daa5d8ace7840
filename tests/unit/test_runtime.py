"""The public way to run jobs, from opening to draining."""

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest
import structlog
from contracts.jobs import JobPayload
from contracts.states import JobState
from contracts.topology import UnknownNameError
from pipeline import Context, Pipeline, on
from pipeline.errors import ConfigurationError
from pipeline.testing import Scripted

from tests.support.jobs import Work, for_ever, handles, record, turn, working
from tests.support.waiting import stays_true, wait_until
from tests.support.work import apart


async def test_ten_lines_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    with apart() as known:

        class Resize(JobPayload, type="image:resize", queue="default", max_retry=3, timeout=60):
            """Scale one image."""

            tenant_id: int
            image_id: str

    monkeypatch.setattr("contracts.jobs._REGISTRY", known)
    seen: list[Resize] = []

    async def resize(job: Resize, _ctx: Context) -> None:
        seen.append(job)

    async with Pipeline.open() as pipeline:
        receipt = await pipeline.enqueue(Resize(tenant_id=7, image_id="i1"), delay=0.05)
        async with pipeline.workers(pools=["core"], handlers=[on(Resize, resize)]):
            await pipeline.wait(receipt.id, timeout=30)
    assert seen == [Resize(tenant_id=7, image_id="i1")]


async def test_settings_are_given_whole_or_one_by_one(pipeline: Pipeline) -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        async with Pipeline.open(settings=pipeline.settings, lease_s=1):
            pass
    with pytest.raises(ConfigurationError, match="did you mean lease_s"):
        async with Pipeline.open(leases_s=1):
            pass


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pools": ["cor"]}, UnknownNameError, "did you mean 'core'"),
        ({"only": ["support:wrk"]}, ConfigurationError, "did you mean 'support:work'"),
        ({"handlers": [handles(Scripted())] * 2}, ConfigurationError, "two handlers"),
        ({"handlers": [], "only": None}, ConfigurationError, "nothing handles"),
    ],
)
async def test_what_cannot_work_is_refused_before_anything_starts(
    pipeline: Pipeline, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    asked: dict[str, Any] = {
        "pools": ["core"],
        "handlers": [handles(Scripted())],
        "only": ["support:work"],
    } | options
    with pytest.raises(error, match=message):
        async with pipeline.workers(**asked):
            pass
    assert await pipeline.inspector.workers() == []


async def test_a_handler_whose_queue_nobody_reads_is_told_to_the_log(pipeline: Pipeline) -> None:
    with structlog.testing.capture_logs() as lines:
        async with working(pipeline, handles(Scripted()), pools=["core", "wiki"]):
            pass
        async with working(pipeline, handles(Scripted()), pools=["wiki"]):
            pass
    (told,) = [line for line in lines if line["log_level"] == "warning"]
    assert (told["type"], told["queue"], told["pool"]) == ("support:work", "default", "core")


async def test_each_pool_says_that_it_starts_and_with_how_many_slots(pipeline: Pipeline) -> None:
    with structlog.testing.capture_logs() as lines:
        async with working(pipeline, handles(Scripted()), pools=["core", "wiki", "core"]):
            pass
    starts = [(line["pool"], line["slots"]) for line in lines if line["event"] == "pool starting"]
    assert starts == [("core", 8), ("wiki", 8)]


async def test_jobs_that_all_await_their_handler_wait_where_they_are(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    with apart() as known:

        class Handled(JobPayload, type="await:handled", queue="default"):
            """One of two in its queue."""

        class Beside(JobPayload, type="await:beside", queue="default"):
            """The other one."""

        class Alone(JobPayload, type="await:alone", queue="chat_attachment"):
            """The only one in its queue."""

        class Elsewhere(JobPayload, type="await:elsewhere", queue="ks"):
            """The only one of its pool."""

    monkeypatch.setattr("contracts.jobs._REGISTRY", known)
    waiting = [await pipeline.enqueue(payload) for payload in (Alone(), Elsewhere())]
    awaiting = frozenset({"await:beside", "await:alone", "await:elsewhere"})
    handlers = [handles(Scripted(), Handled)]
    async with pipeline.workers(pools=["core", "ks"], handlers=handlers, awaiting=awaiting) as crew:
        done = await pipeline.enqueue(Handled())
        await pipeline.wait(done.id, timeout=10)
        assert [(pool.name, [*pool.weights]) for pool in crew.beat().pools] == [("core", ["default"])]
    for receipt in waiting:
        assert (await record(pipeline, receipt.id)).state is JobState.PENDING


async def test_a_worker_can_be_seen_while_it_lives(pipeline: Pipeline) -> None:
    async with working(pipeline, handles(Scripted())) as crew:
        (beat,) = await wait_until(pipeline.inspector.workers, describe="it is registered")
        assert (beat.worker, beat.state) == (crew.id, "running")
        assert [(pool.name, pool.slots, pool.active) for pool in beat.pools] == [("core", 8, 0)]
    assert await pipeline.inspector.workers() == []


async def test_a_delayed_job_starts_on_time_also_when_it_comes_while_the_promoter_sleeps(
    pipeline: Pipeline,
) -> None:
    started: dict[int, float] = {}

    async def handler(job: Work, _ctx: Context) -> None:
        started[job.n] = time.monotonic()

    async with working(pipeline, handles(handler)):
        due: dict[int, float] = {}
        for n, delay in enumerate((0.6, 0.3, 0.2)):
            due[n] = time.monotonic() + delay
            await pipeline.enqueue(Work(n=n), delay=delay)
        await wait_until(lambda: len(started) == 3, describe="all have started")
    for n, moment in due.items():
        assert -0.002 <= started[n] - moment <= 0.3


async def test_leaving_lets_short_jobs_end_and_hands_back_long_ones(pipeline: Pipeline) -> None:
    inside = 0

    async def handler(job: Work, _ctx: Context) -> None:
        nonlocal inside
        inside += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(job.n / 10):
                await for_ever()

    short = await pipeline.enqueue(Work(n=1), retention=60)
    long = await pipeline.enqueue(Work(n=600))
    async with working(pipeline, handles(handler)):
        await wait_until(lambda: inside == 2, describe="both run")
    assert (await record(pipeline, short.id)).state is JobState.COMPLETED
    found = await record(pipeline, long.id)
    assert (found.state, found.job.retried, found.job.crashes) == (JobState.PENDING, 0, 0)


async def test_whoever_leaves_in_a_hurry_cancels_what_runs_at_once() -> None:
    inside = asyncio.Event()

    async def handler(_job: Work, _ctx: Context) -> None:
        inside.set()
        await for_ever()

    async with Pipeline.open(grace_s=60) as pipeline:
        receipt = await pipeline.enqueue(Work())

        async def run() -> None:
            async with working(pipeline, handles(handler)):
                await for_ever()

        running = asyncio.create_task(run())
        await inside.wait()
        running.cancel()
        await stays_true(lambda: not running.done(), describe="it waits for its job", during=0.1)
        running.cancel()
        await asyncio.wait([running], timeout=5)
        assert running.cancelled()
        assert (await record(pipeline, receipt.id)).state is JobState.PENDING


async def test_an_error_inside_the_block_still_drains(pipeline: Pipeline) -> None:
    with pytest.raises(LookupError):
        async with working(pipeline, handles(Scripted())):
            raise LookupError
    assert await pipeline.inspector.workers() == []


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_handler_that_does_not_stop_keeps_nobody_from_leaving(pipeline: Pipeline, place: str) -> None:
    inside, go_on, left = threading.Event(), threading.Event(), asyncio.Event()

    async def in_loop(_job: Work, _ctx: Context) -> None:
        inside.set()
        while not go_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await turn()
        left.set()

    def in_thread(_job: Work, _ctx: Context) -> None:
        inside.set()
        go_on.wait(20)

    receipt = await pipeline.enqueue(Work())
    with structlog.testing.capture_logs() as lines:
        async with working(pipeline, handles(in_loop if place == "loop" else in_thread)) as crew:
            await wait_until(inside.is_set, describe="it runs")
    assert crew.stuck.is_set()
    assert any("does not stop" in line["event"] for line in lines)
    assert (await record(pipeline, receipt.id)).state is JobState.PENDING
    go_on.set()
    await wait_until(lambda: crew.left == 0, describe="it ends after all")
    assert (await record(pipeline, receipt.id)).state is JobState.PENDING


async def test_given_duties_run_beside_the_jobs_until_the_end(pipeline: Pipeline) -> None:
    steps = 0

    async def duty() -> float:
        nonlocal steps
        steps += 1
        return 0.01

    async with working(pipeline, handles(Scripted()), duties={"outbox": duty}):
        await wait_until(lambda: steps > 3, describe="it comes again")
    before = steps
    await stays_true(lambda: steps == before, describe="it has ended", during=0.05)


async def test_workers_may_start_and_stop_many_times_and_leave_nothing_behind(pipeline: Pipeline) -> None:
    async def once() -> None:
        receipt = await pipeline.enqueue(Work())
        async with working(pipeline, handles(Scripted())):
            await pipeline.wait(receipt.id, timeout=5)

    await once()  # what belongs to the open queue is there now
    tasks, threads = len(asyncio.all_tasks()), own_threads()
    for _ in range(10):
        await once()
    await wait_until(lambda: own_threads() <= threads, describe="its threads have ended")
    assert len(asyncio.all_tasks()) <= tasks
    assert await pipeline.inspector.workers() == []


def own_threads() -> int:
    return sum(not thread.name.startswith("asyncio_") for thread in threading.enumerate())


async def test_two_pipelines_on_one_file_share_the_work(pipeline: Pipeline) -> None:
    done: list[tuple[str, int]] = []
    meeting = asyncio.Barrier(2)

    def noting(name: str) -> Any:
        async def handler(job: Work, _ctx: Context) -> None:
            done.append((name, job.n))
            async with asyncio.timeout(10):
                await meeting.wait()

        return handler

    async with Pipeline.open(data_dir=pipeline.settings.data_dir, pool_core_concurrency=1) as other:
        one, two = handles(noting("one")), handles(noting("two"))
        async with working(other, one), Pipeline.open(settings=other.settings) as third, working(third, two):
            await pipeline.enqueue_many([Work(n=1), Work(n=2)])
            await wait_until(lambda: len(done) == 2, describe="both ran")
    assert sorted(name for name, _ in done) == ["one", "two"]
    assert sorted(n for _, n in done) == [1, 2]
