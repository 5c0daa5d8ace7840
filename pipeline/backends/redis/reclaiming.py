"""Active → somebody else's, where the worker is lost."""

from collections.abc import Sequence
from typing import Final

import structlog

from contracts.states import JobState
from contracts.wire import encode_options
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.broker import Reclaimed, ReclaimPolicy
from pipeline.settle import lost

AT_ONCE: Final = 64

log = structlog.get_logger(component="redis")


async def reclaim(
    server: Server, keys: Keys, name: str, queues: Sequence[str], policy: ReclaimPolicy
) -> list[Reclaimed]:
    """Take what no worker has renewed for a lease in one home: looked at, judged, and taken if still so."""
    taken: list[Reclaimed] = []
    while len(taken) < policy.limit:
        most = min(policy.limit - len(taken), AT_ONCE)
        said = await server.run(script("list_stale"), keys.prefix(name), policy.lease_ms, most, *queues)
        now, found = int(said[0]), list(zip(*[iter(said[1:])] * 7, strict=True))
        if stale := [one for one in found if one[3]]:
            taken += await _take(server, keys, name, stale, policy, now)
        for queue, entry, consumer, *_ in (one for one in found if not one[3]):
            log.error(
                "a job is lost: somebody deleted its entry while a worker had it",
                queue=queue, entry=entry, worker=consumer,
            )  # fmt: skip
        if not found:
            break
    return taken


async def _take(
    server: Server, keys: Keys, name: str, stale: Sequence[Sequence[str]], policy: ReclaimPolicy, now: int
) -> list[Reclaimed]:
    args: list[str] = []
    for queue, entry, consumer, job_id, kind, opts, _told in stale:
        fate = lost({"id": job_id, "type": kind, "opts": opts}, queue, policy=policy, now=now)
        text = encode_options(fate.job) if fate.job else ""
        args += [queue, entry, consumer, job_id, str(fate.state), text, str(fate.reason or ""), fate.error]
    said = await server.run(script("reclaim_jobs"), keys.prefix(name), keys.control, policy.lease_ms, *args)
    return [
        Reclaimed(job_id, queue, consumer, JobState(state))
        for (queue, _, consumer, job_id, *_rest), state in zip(stale, said, strict=True)
        if state
    ]
