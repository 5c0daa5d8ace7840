"""Workers of the core pool on a Redis that a test may harm, in this process and in others; what they do is `tests.support.work`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import contracts.jobs
import pytest
from pipeline.errors import EnqueueFailed, StoreUnavailable, WaitTimeout
from pipeline.handlers import on
from pipeline.receipt import Receipt
from pipeline.runtime import Pipeline
from pipeline.worker.crew import Crew
from redis import Redis

from tests.support.redis_server import RedisServer
from tests.support.waiting import wait_until
from tests.support.work import TYPES, Work, work

SHORT: Final[Mapping[str, Any]] = {"lease_s": 1.0, "grace_s": 0.5, "redis_op_timeout_ms": 1000}
SOON_S: Final = 10
"""In which a worker goes on after a failure, on a busy machine."""


def settings(url: str, **more: Any) -> dict[str, Any]:
    return {"redis_url": url, **SHORT, **more}


@asynccontextmanager
async def opened(url: str, **more: Any) -> AsyncIterator[Pipeline]:
    """A pipeline that knows the types of `tests.support.work` alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contracts.jobs, "_REGISTRY", dict(TYPES))
        async with Pipeline.open(**settings(url, **more)) as pipeline:
            yield pipeline


@asynccontextmanager
async def working(url: str, handler: Any = work, **more: Any) -> AsyncIterator[tuple[Pipeline, Crew]]:
    """A worker in this process."""
    async with (
        opened(url, **more) as pipeline,
        pipeline.workers(
            pools=["core"], handlers=[on(Work, handler, retry=lambda _: 0.05)], only=["test:work"]
        ) as crew,
    ):
        yield pipeline, crew


async def insist(pipeline: Pipeline, job: Work, *, timeout: float = SOON_S, **options: Any) -> Receipt:
    """Enqueue as every caller must: with the id of the error, until it succeeds."""

    async def enqueued() -> Receipt | None:
        try:
            return await pipeline.enqueue(job, **options)
        except EnqueueFailed as failed:
            options["id"] = failed.job_id
            return None

    return await wait_until(enqueued, describe="it is enqueued", timeout=timeout)


async def done(pipeline: Pipeline, job: Work, *, timeout: float = SOON_S, **options: Any) -> Receipt:
    """Enqueue, and wait for the end of the job, however often the store fails meanwhile."""
    receipt = await insist(pipeline, job, timeout=timeout, **options)

    async def ended() -> bool:
        try:
            await pipeline.wait(receipt.id, timeout=timeout)
        except (StoreUnavailable, WaitTimeout):
            return False
        return True

    await wait_until(ended, describe=f"job {receipt.id} is done", timeout=timeout)
    return receipt


def consumers(server: RedisServer, stream: str = "sl:{core}:q:default") -> list[dict[str, Any]]:
    """The consumers that the group of a stream remembers."""
    with server.client() as client:
        found: list[dict[str, Any]] = client.xinfo_consumers(stream, "core")
        return found


def clients(client: Redis) -> int:
    """How many connections the server has, but for this one."""
    return len(client.client_list()) - 1
