"""Real worker processes, real signals: what happens to the jobs they hold."""

import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from contracts.states import JobState
from pipeline.runtime import Pipeline

from tests.support.jobs import record
from tests.support.waiting import stays_true, wait_until
from tests.support.worker_process import Act, Diary, WorkerProcess, worker_processes

pytestmark = pytest.mark.slow

LEASE_S = 2.0
GRACE_S = 1.0
SLACK_S = 2.0
"""A machine that does other things besides is given this much more than promised."""


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "diary")


@pytest.fixture
def start(tmp_path: Path, diary: Diary) -> Iterator[Any]:
    with worker_processes(tmp_path / "data", diary) as started:
        yield lambda **settings: started(**({"lease_s": LEASE_S, "grace_s": GRACE_S} | settings))


@pytest.fixture
async def pipeline(tmp_path: Path) -> AsyncIterator[Pipeline]:
    async with Pipeline.open(data_dir=tmp_path / "data") as found:
        yield found


async def running(pipeline: Pipeline, diary: Diary, **job: Any) -> str:
    """The id of a job that has just been started by some worker."""
    options = {name: job.pop(name) for name in ("timeout", "max_retry") if name in job}
    receipt = await pipeline.enqueue(Act(**job), retention=600, **options)
    await wait_until(lambda: diary.of("started", receipt.id), describe="the job has started", timeout=30)
    return receipt.id


async def two_workers(pipeline: Pipeline, start: Any) -> dict[int, WorkerProcess]:
    """By process id, once both live."""
    workers = {worker.pid: worker for worker in (start(), start())}
    await wait_until(lambda: worker_count(pipeline, 2), describe="both workers live", timeout=60)
    return workers


async def test_the_job_of_a_killed_worker_runs_elsewhere_and_a_crash_is_no_failure(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    workers = await two_workers(pipeline, start)
    job = await running(pipeline, diary, seconds=3)
    ((pid, _),) = diary.of("started", job)
    workers[pid].signal(signal.SIGKILL)
    killed_at = time.monotonic()
    await wait_until(lambda: len(diary.of("started", job)) == 2, describe="it runs again", timeout=30)
    assert diary.of("started", job)[1][1] - killed_at <= LEASE_S + 2 + SLACK_S
    found = await record(pipeline, job)
    assert (found.job.crashes, found.job.retried) == (1, 0)
    await pipeline.wait(job, timeout=30)
    assert len(diary.of("ended", job)) == 1


async def test_a_frozen_worker_that_wakes_up_stops_its_handler_and_settles_nothing(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    workers = await two_workers(pipeline, start)
    job = await running(pipeline, diary, seconds=8)
    ((frozen, _),) = diary.of("started", job)
    workers[frozen].signal(signal.SIGSTOP)
    await wait_until(lambda: len(diary.of("started", job)) == 2, describe="it runs elsewhere", timeout=30)
    workers[frozen].signal(signal.SIGCONT)
    woken_at = time.monotonic()
    await wait_until(lambda: diary.of("cancelled", job), describe="the first handler stops")
    assert diary.of("cancelled", job)[0][0] == frozen
    assert time.monotonic() - woken_at <= 2 + SLACK_S
    await pipeline.wait(job, timeout=30)
    (other,) = set(workers) - {frozen}
    assert [pid for pid, _ in diary.of("ended", job)] == [other]
    found = await record(pipeline, job)
    assert (found.state, found.job.crashes, found.job.retried) == (JobState.COMPLETED, 1, 0)


async def test_a_worker_told_to_stop_lets_short_jobs_end_and_hands_back_long_ones(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    worker = start(grace_s=2)
    long = await running(pipeline, diary, seconds=60)
    short = await running(pipeline, diary, seconds=0.5)
    worker.signal(signal.SIGTERM)
    late = await pipeline.enqueue(Act())
    assert await worker.ended() == 0
    assert (await record(pipeline, short)).state is JobState.COMPLETED
    found = await record(pipeline, long)
    assert (found.state, found.job.crashes, found.job.retried) == (JobState.PENDING, 0, 0)
    assert diary.of("cancelled", long)
    assert diary.of("started", late.id) == []
    assert await pipeline.inspector.workers() == []


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_skips_the_wait(
    pipeline: Pipeline, diary: Diary, start: Any, second: signal.Signals
) -> None:
    worker = start(grace_s=60)
    job = await running(pipeline, diary, seconds=60)
    worker.signal(signal.SIGTERM)
    await stays_true(lambda: worker.poll() is None, describe="it waits for its job", during=0.5)
    asked_at = time.monotonic()
    worker.signal(second)
    assert await worker.ended() == 0
    assert time.monotonic() - asked_at <= 2 + SLACK_S
    assert (await record(pipeline, job)).state is JobState.PENDING


async def test_a_handler_that_refuses_to_be_cancelled_does_not_keep_its_process(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    worker = start()
    job = await running(pipeline, diary, way="refuse", seconds=60)
    asked_at = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 75
    assert time.monotonic() - asked_at <= GRACE_S + 2 + SLACK_S
    found = await record(pipeline, job)
    assert (found.state, found.job.crashes, found.job.retried) == (JobState.PENDING, 0, 0)


async def test_a_worker_whose_handler_outlives_its_timeout_ends_itself_and_the_timeout_counts(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    worker = start()
    job = await running(pipeline, diary, way="refuse", seconds=60, timeout=0.5)
    assert await worker.ended() == 75
    found = await record(pipeline, job)
    assert (found.state, found.job.crashes, found.job.retried) == (JobState.RETRY, 0, 1)
    assert found.job.last_error == "timed out after 0.5 s"


async def test_a_blocked_event_loop_keeps_all_its_leases(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    await two_workers(pipeline, start)
    neighbour = await running(pipeline, diary, seconds=4 * LEASE_S)
    blocking = await running(pipeline, diary, way="block", seconds=3 * LEASE_S)
    await pipeline.wait(blocking, timeout=30)
    await pipeline.wait(neighbour, timeout=30)
    for job in (neighbour, blocking):
        assert len(diary.of("started", job)) == 1
        assert (await record(pipeline, job)).job.crashes == 0


async def test_a_job_that_blocks_the_loop_beyond_its_own_limit_is_handed_on(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    await two_workers(pipeline, start)
    job = await running(pipeline, diary, way="block", seconds=8 * LEASE_S, timeout=1)
    await wait_until(lambda: len(diary.of("started", job)) == 2, describe="it is handed on", timeout=30)


async def test_a_worker_with_a_dead_event_loop_ends_itself(
    pipeline: Pipeline, diary: Diary, start: Any
) -> None:
    worker = start(loop_stall_s=2)
    job = await running(pipeline, diary, way="block", seconds=60)
    assert await worker.ended() == 70
    start()
    await wait_until(lambda: len(diary.of("started", job)) == 2, describe="it runs elsewhere", timeout=30)


async def worker_count(pipeline: Pipeline, count: int) -> bool:
    return len(await pipeline.inspector.workers()) == count
