"""What has been kept long enough, removed a few at a time, so that nobody waits long for the server. Statistics and
locks end by themselves: Redis gives them a time to live.
"""

import json
from typing import Final

from pipeline.backends.redis import registry
from pipeline.backends.redis.cancelling import FENCE_MS
from pipeline.backends.redis.keys import Keys, homes
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.broker import Pruned, Retention

AT_ONCE: Final = 300


async def prune(server: Server, keys: Keys, retention: Retention) -> Pruned:
    """Remove what has been kept long enough, home by home."""
    jobs = tombstones = fences = 0
    others = await registry.prune(server, keys)
    living = json.dumps([beat.worker for beat in await registry.workers(server, keys)])
    for name, queues in homes().items():
        prefix = keys.prefix(name)
        others += await server.run(script("drop_consumers"), prefix, living, *queues)
        others += await server.run(script("sweep_scopes"), prefix, keys.control, AT_ONCE)
        while True:
            removed = await server.run(script("prune_home"), prefix, AT_ONCE, *_limits(retention), *queues)
            if not any(removed):
                break
            jobs, tombstones, fences = jobs + removed[0], tombstones + removed[1], fences + removed[2]
    return Pruned(jobs, tombstones, fences, others)


def _limits(kept: Retention) -> tuple[int, ...]:
    return (
        kept.cancelled_ms, kept.archived_ms, kept.archived_max, kept.tombstone_ms, kept.repeat_ms,
        kept.fence_ms, FENCE_MS,
    )  # fmt: skip
