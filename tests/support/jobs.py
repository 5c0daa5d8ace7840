"""Jobs and handlers for tests of the worker, and a way to run them.

Every test module may register job types, so workers here handle the given ones only.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from contracts.jobs import JobPayload
from pipeline.handlers import Handler, on
from pipeline.records import JobRecord
from pipeline.runtime import Pipeline
from pipeline.worker.crew import Crew


class Work(JobPayload, type="support:work", queue="default", max_retry=3):
    """Something to do."""

    n: int = 0


class Chat(JobPayload, type="support:chat", queue="chat_attachment"):
    """Something to do in the other queue of the core pool."""

    n: int = 0


def soon(_failures: int) -> float:
    """The wait between the attempts of a test's job."""
    return 0.05


def handles(run: Any, payload: type[JobPayload] = Work, **options: Any) -> Handler:
    return on(payload, run, **({"retry": soon} | options))


@asynccontextmanager
async def working(pipeline: Pipeline, *handlers: Handler, **options: Any) -> AsyncIterator[Crew]:
    """Workers of the core pool that handle just these types."""
    only = {handler.payload.spec.type for handler in handlers}
    options = {"pools": ["core"], "only": only} | options
    async with pipeline.workers(handlers=handlers, **options) as crew:
        yield crew


async def record(pipeline: Pipeline, job_id: str) -> JobRecord:
    """A job that is there."""
    return await pipeline.inspector.job(job_id)


async def turn() -> None:
    """Let everything else that can run, run once."""
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, None)
    await future


async def for_ever() -> None:
    """Work that only ends when it is cancelled."""
    await asyncio.Event().wait()
