"""What tests of a product built on this need: run what is due, look at what was enqueued, handlers that misbehave."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, TypeVar

from contracts.jobs import JobPayload
from contracts.states import TERMINAL, JobState
from contracts.topology import QUEUES
from pipeline.errors import WaitTimeout
from pipeline.handlers import Handler
from pipeline.inspector import LONGEST_PAGE
from pipeline.records import JobRecord, QueueStat, TaskFilter
from pipeline.runtime import Pipeline

P = TypeVar("P", bound=JobPayload)

LOOK_S: Final = 0.01
BATCH: Final = 1000


async def drain(
    pipeline: Pipeline, handlers: Iterable[Handler], *, services: object = None, timeout: float = 30
) -> None:
    """Run the jobs that these handlers handle, and those that they enqueue, until none is due and every death is
    recorded. Jobs that are due later stay.

    Raises WaitTimeout.
    """
    handlers = tuple(handlers)
    queues = sorted({handler.payload.spec.queue for handler in handlers})
    only = {handler.payload.spec.type for handler in handlers}
    pools = sorted({QUEUES[queue].pool for queue in queues})
    async with pipeline.workers(pools=pools, handlers=handlers, services=services, only=only):
        try:
            async with asyncio.timeout(timeout):
                while not await _idle(pipeline, queues, only):  # noqa: ASYNC110 - the store says nothing of being idle
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise WaitTimeout(f"jobs of {', '.join(queues)} still run after {timeout:g} s") from None


async def assert_enqueued(pipeline: Pipeline, payload: type[P], **fields: Any) -> P:
    """Return the payload of a job that has not ended, is of this type and has these fields.

    Raises AssertionError that lists the jobs of this type.
    """
    found = [
        payload.decode(record.job.data)
        for state in JobState
        if state not in TERMINAL
        for record in await _jobs(pipeline, payload, state)
    ]
    for one in found:
        if all(getattr(one, name) == value for name, value in fields.items()):
            return one
    wanted = ", ".join(f"{name}={value!r}" for name, value in fields.items())
    raise AssertionError(f"no job {payload.__name__}({wanted}); there are: {found}")


class Scripted:
    """A handler that gives one answer after another and repeats the last: an exception is raised, the rest returned.

    `calls` has the payload of each call.
    """

    def __init__(self, *answers: Any) -> None:
        self._answers = answers or (None,)
        self.calls: list[JobPayload] = []

    async def __call__(self, job: JobPayload, _context: object) -> Any:
        answer = self._answers[min(len(self.calls), len(self._answers) - 1)]
        self.calls.append(job)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Flaky(Scripted):
    """A handler that fails so many times before it works."""

    def __init__(self, failures: int = 1, error: BaseException | None = None) -> None:
        super().__init__(*[error or RuntimeError("flaky")] * failures, None)


async def _idle(pipeline: Pipeline, queues: list[str], types: set[str]) -> bool:
    before = await _stats(pipeline, queues)
    if any(stat.pending or stat.active for stat in before):
        return False
    deaths = await pipeline.broker.dead_letters(queues, BATCH)
    if any(death.record.get("type") in types for death in deaths):
        return False
    # whatever came or died while the dead letters were read has moved a number
    return await _stats(pipeline, queues) == before


async def _stats(pipeline: Pipeline, queues: list[str]) -> list[QueueStat]:
    return [stat for stat in await pipeline.inspector.queues() if stat.name in queues]


async def _jobs(pipeline: Pipeline, payload: type[JobPayload], state: JobState) -> list[JobRecord]:
    records: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await pipeline.inspector.tasks(
            payload.spec.queue, state, cursor, LONGEST_PAGE, match=TaskFilter(type=payload.spec.type)
        )
        records += page.records
        if (cursor := page.next_cursor) is None:
            return records
