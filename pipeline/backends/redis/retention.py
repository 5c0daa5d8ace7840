"""What has been kept long enough, removed a few at a time, so that nobody waits long for the server. Statistics and
locks end by themselves: Redis gives them a time to live.
"""

import json
from collections.abc import Sequence
from typing import Final

from pipeline.backends.redis import registry
from pipeline.backends.redis.cancelling import FENCE_MS
from pipeline.backends.redis.keys import Keys, homes
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined
from pipeline.broker import Pruned, Retention

AT_ONCE: Final = 300


async def prune(server: Server, keys: Keys, retention: Retention) -> Pruned:
    """Remove what has been kept long enough. A home that is away holds up no other."""
    rounds = [_home(server, keys.prefix(name), keys, retention, queues) for name, queues in homes().items()]
    return sum(await joined([_workers(server, keys), *rounds]), Pruned())


async def _workers(server: Server, keys: Keys) -> Pruned:
    """Those that are gone, also from what streams remember of them."""
    gone = await registry.prune(server, keys)
    living = json.dumps([beat.worker for beat in await registry.workers(server, keys)])
    dropped = await joined(
        server.run(script("drop_consumers"), keys.prefix(name), living, *queues)
        for name, queues in homes().items()
    )
    return Pruned(others=gone + sum(dropped))


async def _home(
    server: Server, prefix: str, keys: Keys, retention: Retention, queues: Sequence[str]
) -> Pruned:
    pruned = Pruned(others=await server.run(script("sweep_scopes"), prefix, keys.control, AT_ONCE))
    while True:
        removed = await server.run(script("prune_home"), prefix, AT_ONCE, *_limits(retention), *queues)
        if not any(removed):
            return pruned
        pruned += Pruned(*removed)


def _limits(kept: Retention) -> tuple[int, ...]:
    return (
        kept.cancelled_ms, kept.archived_ms, kept.archived_max, kept.tombstone_ms, kept.repeat_ms,
        kept.fence_ms, FENCE_MS,
    )  # fmt: skip
