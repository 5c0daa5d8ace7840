"""Promise 5, with real processes: the jobs of a killed worker run elsewhere within lease + 2 s; a frozen worker that wakes
up has its handler cancelled within a heartbeat, and what it settles is refused.
"""

from pathlib import Path

from contracts.states import ArchiveReason
from pipeline.handlers import on
from pipeline.receipt import Receipt
from pipeline.runtime import Pipeline

from tests.conformance.conftest import SHORT, Open, Start
from tests.support.backends import Backend
from tests.support.crash import Process
from tests.support.waiting import wait_until
from tests.support.work import Work, marks, work

BOUND_S = SHORT["lease_s"] + 2
HEARTBEAT_S = 2
MACHINE_S = 3
"""What a busy machine may take on top."""


async def running_in(victim: Process, pipeline: Pipeline, folder: Path, act: str = "hang") -> Receipt:
    """A job that the victim, the only worker so far, has started."""
    receipt = await pipeline.enqueue(Work(act=act, folder=str(folder)), max_retry=0, retention=60)
    started = await wait_until(lambda: marks(folder, "started"), describe="it runs", timeout=20)
    assert [one.pid for one in started] == [victim.pid]
    return receipt


async def test_the_job_of_a_killed_worker_runs_elsewhere_and_loses_no_retry(
    backend: Backend, open_pipeline: Open, start: Start, tmp_path: Path
) -> None:
    pipeline = await open_pipeline()
    async with Process("worker", {**backend.settings(), **SHORT}) as victim:
        receipt = await running_in(victim, pipeline, tmp_path)
        await start(on(Work, work))
        victim.kill()
        await wait_until(
            lambda: marks(tmp_path, "done"), describe="it runs elsewhere", timeout=BOUND_S + MACHINE_S
        )
    await pipeline.wait(receipt.id, timeout=5)
    record = await pipeline.inspector.job(receipt.id)
    assert (record.job.crashes, record.job.retried) == (1, 0)
    assert len(marks(tmp_path, "started")) == 2


async def test_a_frozen_worker_that_wakes_up_is_stopped_and_settles_nothing(
    backend: Backend, open_pipeline: Open, start: Start, tmp_path: Path
) -> None:
    pipeline = await open_pipeline()
    async with Process("worker", {**backend.settings(), **SHORT}) as victim:
        receipt = await running_in(victim, pipeline, tmp_path)
        await start(on(Work, work))
        victim.freeze()
        await wait_until(
            lambda: marks(tmp_path, "done"), describe="it runs elsewhere", timeout=BOUND_S + MACHINE_S
        )
        await pipeline.wait(receipt.id, timeout=5)
        victim.thaw()
        (stopped,) = await wait_until(
            lambda: marks(tmp_path, "stopped"),
            describe="the handler of the frozen worker was stopped",
            timeout=HEARTBEAT_S + MACHINE_S,
        )
        assert stopped.pid == victim.pid
        victim.ask_to_stop()
        assert await victim.ended() == 0  # it lives on, and ends in order
    record = await pipeline.inspector.job(receipt.id)
    assert (record.state, record.job.crashes) == ("completed", 1)
    (stat,) = [stat for stat in await pipeline.inspector.queues() if stat.name == "default"]
    assert (stat.processed, stat.failed) == (1, 0)


async def test_a_job_that_kills_every_worker_is_archived_and_its_neighbour_is_not(
    backend: Backend, open_pipeline: Open, tmp_path: Path
) -> None:
    settings = {**backend.settings(), **SHORT, "lease_s": 0.5, "max_crashes": 2}
    pipeline = await open_pipeline()
    neighbour = await pipeline.enqueue(Work(act="hang", folder=str(tmp_path)), retention=60)
    guilty = await pipeline.enqueue(Work(act="exit", folder=str(tmp_path)), delay=0.3)
    for _ in range(3):
        async with Process("worker", settings) as victim:
            assert await victim.ended() == 1
    async with Process("worker", settings):

        async def archived() -> bool:
            record = await pipeline.inspector.job(guilty.id)
            return record.reason is ArchiveReason.WORKER_LOST

        await wait_until(archived, describe="the guilty one is archived", timeout=15)
        await pipeline.wait(neighbour.id, timeout=15)
    assert len([one for one in marks(tmp_path, "started") if one.job == guilty.id]) == 3


async def test_a_worker_that_is_asked_to_stop_hands_back_what_it_cannot_finish_uncounted(
    backend: Backend, open_pipeline: Open, tmp_path: Path
) -> None:
    pipeline = await open_pipeline()
    async with Process("worker", {**backend.settings(), **SHORT, "lease_s": 60.0}) as leaving:
        receipt = await running_in(leaving, pipeline, tmp_path)
        leaving.ask_to_stop()
        assert await leaving.ended() == 0
    record = await pipeline.inspector.job(receipt.id)
    assert (record.state, record.job.crashes, record.job.retried) == ("pending", 0, 0)
    assert await pipeline.inspector.workers() == []
