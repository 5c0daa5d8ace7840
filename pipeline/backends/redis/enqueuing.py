"""New jobs as the arguments of `enqueue_jobs.lua`."""

from collections.abc import Sequence
from typing import Any

from contracts.states import JobState
from contracts.wire import encode_options
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.broker import NewJob
from pipeline.receipt import Receipt

Arguments = tuple[str | bytes | int | float, ...]


def arguments(new: NewJob) -> Arguments:
    """Return the fifteen arguments of one job. Raises ValueError for text that UTF-8 has no place for."""
    job, unique = new.job, new.job.unique
    return (
        job.id,
        job.type,
        job.data.encode(),
        encode_options(job)[:-1],
        job.queue,
        job.root_id or job.id,
        job.root_at,
        new.delay_ms,
        new.run_at or 0,
        1 if new.named else "",
        " ".join([f"{scope.kind}|{scope.id}" for scope in job.scopes]),
        unique.key if unique else "",
        unique.until if unique else "",
        unique.ttl if unique else 0,
        unique.on_conflict if unique else "",
    )


def size(one: Arguments) -> int:
    """Return about how many bytes a job is."""
    return len(one[2]) + 400  # type: ignore[arg-type]


def receipts(said: Sequence[Any]) -> list[Receipt]:
    """Read what the script returned."""
    return [
        Receipt(str(job_id), JobState(state), duplicate=duplicate == 1)
        for job_id, state, duplicate in zip(said[::3], said[1::3], said[2::3], strict=True)
    ]


class Sending:
    """Sends new jobs of one home in one script."""

    def __init__(self, server: Server, keys: Keys, name: str) -> None:
        self._server, self._keys, self._prefix = server, keys, keys.prefix(name)

    async def __call__(self, jobs: Sequence[Arguments]) -> list[Receipt]:
        """Enqueue, and wait for the replicas where they are asked for. Raises StoreUnavailable, StoreFull."""
        args = [part for one in jobs for part in one]
        said = await self._server.write(script("enqueue_jobs"), self._prefix, self._keys.control, *args)
        return receipts(said)
