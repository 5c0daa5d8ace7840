"""Promise 4, with real workers: a job may run for many leases, also one that blocks its event loop."""

import asyncio
import threading
from pathlib import Path

from pipeline.handlers import Context, on

from tests.conformance.conftest import SHORT, Open, Start
from tests.support.backends import Backend
from tests.support.crash import Process
from tests.support.faults import Faults, Loss
from tests.support.waiting import stays_true, wait_until
from tests.support.work import Work, marks


async def test_a_job_longer_than_two_leases_runs_once_beside_idle_workers(
    start: Start, faults: Faults, loss: Loss
) -> None:
    """A renewal that is lost in between costs nothing."""
    starts, end = list[str](), asyncio.Event()

    async def long(job: Work, ctx: Context) -> None:
        starts.append(ctx.id)
        await end.wait()

    first = await start(on(Work, long))
    await start(on(Work, long))
    receipt = await first.enqueue(Work(), retention=60)
    await wait_until(lambda: starts, describe="it runs")
    faults.lose(loss, "renew")
    await stays_true(lambda: len(starts) == 1, describe="it runs once", during=2.2)
    assert not faults.waiting("renew")
    end.set()
    await first.wait(receipt.id, timeout=10)
    record = await first.inspector.job(receipt.id)
    assert record.job.crashes == 0


async def test_a_handler_that_blocks_its_event_loop_keeps_its_lease(
    backend: Backend, open_pipeline: Open, start: Start, tmp_path: Path
) -> None:
    async def never(job: Work, ctx: Context) -> None:
        raise AssertionError("it was redelivered")

    async with Process("worker", {**backend.settings(), **SHORT}):
        pipeline = await open_pipeline()
        receipt = await pipeline.enqueue(Work(act="block", n=2500, folder=str(tmp_path)))
        await wait_until(lambda: marks(tmp_path, "started"), describe="it runs", timeout=20)
        await start(on(Work, never))
        await pipeline.wait(receipt.id, timeout=20)
    assert len(marks(tmp_path, "started")) == len(marks(tmp_path, "done")) == 1


async def test_a_plain_function_runs_beside_the_loop_for_as_long_as_it_likes(start: Start) -> None:
    starts, end = list[str](), threading.Event()

    def long(job: Work, ctx: Context) -> None:
        starts.append(ctx.id)
        end.wait(20)

    pipeline = await start(on(Work, long))
    receipt = await pipeline.enqueue(Work())
    await wait_until(lambda: starts, describe="it runs")
    await stays_true(lambda: len(starts) == 1, describe="it runs once", during=1.2)
    end.set()
    await pipeline.wait(receipt.id, timeout=10)
    assert len(starts) == 1
