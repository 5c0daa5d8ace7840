"""New jobs as the arguments of `enqueue_jobs.lua`."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic_core import to_json

from contracts.states import JobState
from contracts.wire import encode_options
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.broker import NewJob
from pipeline.receipt import Receipt

STATES: Final = {state.value: state for state in JobState}


def encode(new: NewJob) -> bytes:
    """Return one job as the script reads it. Raises ValueError for text that UTF-8 has no place for."""
    job, unique = new.job, new.job.unique
    asked: tuple[Any, ...] = (
        job.id,
        job.type,
        job.data,
        encode_options(job)[:-1],
        job.queue,
        job.root_at,
        new.delay_ms,
        new.run_at or 0,
        new.named,
        [f"{scope.kind}|{scope.id}" for scope in job.scopes],
    )
    if unique:
        asked += (unique.key, unique.until, unique.ttl, unique.on_conflict)
    return to_json(asked)


def receipts(said: Sequence[Any]) -> list[Receipt]:
    """Read what the script returned."""
    return [
        Receipt(job_id, STATES[state], duplicate == 1)
        for job_id, state, duplicate in zip(said[::3], said[1::3], said[2::3], strict=True)
    ]


class Sending:
    """Sends new jobs of one home in one script."""

    def __init__(self, server: Server, keys: Keys, name: str) -> None:
        self._server, self._keys, self._prefix = server, keys, keys.prefix(name)

    async def __call__(self, jobs: Sequence[bytes]) -> list[Receipt]:
        """Enqueue, and wait for the replicas where they are asked for. Raises StoreUnavailable, StoreFull."""
        asked = b"[" + b",".join(jobs) + b"]"
        said = await self._server.write(script("enqueue_jobs"), self._prefix, self._keys.control, asked)
        return receipts(said)
