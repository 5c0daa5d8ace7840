"""The worker processes that live, by the server's clock."""

import json
from dataclasses import asdict, replace

from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.records import WorkerBeat


async def heartbeat(server: Server, keys: Keys, beat: WorkerBeat, ttl_ms: int) -> None:
    """Note that a worker lives, for `ttl_ms`."""
    await server.run(script("beat_worker"), keys.workers, beat.worker, json.dumps(asdict(beat)), ttl_ms)


async def forget(server: Server, keys: Keys, worker: str) -> None:
    """Unregister a worker."""
    await server.run(script("forget_worker"), keys.workers, worker)


async def workers(server: Server, keys: Keys) -> list[WorkerBeat]:
    """Return the workers whose last word still counts."""
    said = await server.run(script("list_workers"), keys.workers)
    return sorted(map(_beat, filter(None, said)), key=lambda beat: beat.worker)


async def prune(server: Server, keys: Keys) -> int:
    """Remove those whose last word does not count any more, and return how many."""
    removed = 0
    while more := await server.run(script("prune_workers"), keys.workers):
        removed += more
    return removed


def _beat(said: str) -> WorkerBeat:
    at, _, text = said.partition(" ")
    return replace(WorkerBeat.read(text), seen_at=int(at))
