"""What a person does to a job or a queue: run now, delete, purge, pause, resume."""

from typing import Final, Literal

from contracts.states import JobState, allowed
from contracts.topology import home
from contracts.wire import encode_options
from pipeline.backends.redis import records
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.errors import JobNotFound, NotAllowed, StoreUnavailable
from pipeline.records import JobRecord
from pipeline.settle import last_chance

AT_ONCE: Final = 200
LOOKS: Final = 5


async def run_now(server: Server, keys: Keys, job_id: str) -> None:
    """Make a job pending; see `Broker.run_now`."""
    for _ in range(LOOKS):
        found = await _find(server, keys, job_id, "run_now")
        readable = found.state is JobState.ARCHIVED and found.job.enqueued_at > 0
        opts = encode_options(last_chance(found.job)) if readable else ""
        prefix = keys.prefix(home(found.job.queue))
        match await server.run(script("run_job"), prefix, job_id, str(found.state), opts):
            case "ok":
                return
            case "changed":
                continue
            case "fenced":
                raise NotAllowed(f"job {job_id} was cancelled with what it belongs to; enqueue it anew")
            case other:
                key = found.job.unique.key if found.job.unique else ""
                raise NotAllowed(f"job {other} has the unique key {key!r} now; job {job_id} must wait for it")
    raise StoreUnavailable(f"job {job_id} changes its state faster than it can be run; try again")


async def delete(server: Server, keys: Keys, job_id: str) -> None:
    """Remove an ended job; its last state is remembered for a while."""
    found = await _find(server, keys, job_id, "delete")
    (before,) = await server.run(script("delete_jobs"), keys.prefix(home(found.job.queue)), job_id)
    if not before:  # somebody was faster
        raise _gone(job_id)
    _check(job_id, JobState(before), "delete")


async def purge(server: Server, keys: Keys, queue: str) -> int:
    """Remove the archived jobs of a queue, and return how many."""
    purged = 0
    while more := await server.run(script("purge_queue"), keys.prefix(home(queue)), queue, AT_ONCE):
        purged += more
    return purged


async def set_paused(server: Server, keys: Keys, queue: str, verb: Literal["SADD", "SREM"]) -> None:
    """Let a queue start nothing (SADD), or undo that (SREM)."""
    await server.run(script("pause_queue"), keys.prefix(home(queue)), keys.control, queue, verb)


async def _find(server: Server, keys: Keys, job_id: str, verb: str) -> JobRecord:
    found = await records.find(server, keys, job_id)
    if found is None:
        raise _gone(job_id)
    _check(job_id, found.state, verb)
    return found


def _gone(job_id: str) -> JobNotFound:
    return JobNotFound(f"no job has the id {job_id!r} (any more)")


def _check(job_id: str, state: JobState, verb: str) -> None:
    if not allowed(state, verb):
        raise NotAllowed(f"job {job_id} is {state}: {verb.replace('_', ' ')} does nothing to it")
