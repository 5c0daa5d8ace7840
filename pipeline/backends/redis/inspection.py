"""Queues at a glance, and what a scope has under way. All homes are asked at once."""

from collections.abc import Iterable
from typing import Final

from contracts.jobs import Scope
from contracts.topology import QUEUES
from pipeline.backends.redis.keys import Keys, homes
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined
from pipeline.records import QueueStat

COUNTED: Final = (
    "pending", "active", "scheduled", "retry", "archived", "completed", "cancelled",
    "processed", "failed", "cancelled_today", "paused", "latency_ms", "memory_usage_bytes",
)  # fmt: skip


async def queue_stats(server: Server, keys: Keys) -> list[QueueStat]:
    """Return one row a queue, in registry order."""
    asked = homes()
    said = await joined(
        server.run(script("count_queues"), keys.prefix(name), *queues) for name, queues in asked.items()
    )
    counts: dict[str, dict[str, int]] = {}
    for queues, numbers in zip(asked.values(), said, strict=True):
        rows = zip(*[iter(numbers)] * len(COUNTED), strict=True)
        counts |= {
            queue: dict(zip(COUNTED, row, strict=True)) for queue, row in zip(queues, rows, strict=True)
        }
    return [_stat(name, counts[name]) for name in QUEUES]


async def has_queued(server: Server, keys: Keys, scope: Scope, types: frozenset[str] | None) -> bool:
    """Whether the scope has a job that is not ended."""
    if types is not None and not types:
        return False
    name = f"{scope.kind}|{scope.id}"
    return any(
        await joined(
            server.run(script("find_queued"), keys.prefix(one), name, *sorted(types or ())) for one in homes()
        )
    )


async def queued_ids(server: Server, keys: Keys, kind: str, types: frozenset[str] | None) -> set[str]:
    """Return the ids of this kind of scope that have a job that is not ended."""
    if types is not None and not types:
        return set()
    return set().union(*await joined(_ids(server, keys.prefix(one), kind, types or ()) for one in homes()))


async def _ids(server: Server, prefix: str, kind: str, types: Iterable[str]) -> list[str]:
    found: list[str] = []
    after = ""
    while True:
        after, ids = await server.run(script("list_scopes"), prefix, kind, after, *sorted(types))
        found += ids
        if not after:
            return found


def _stat(name: str, counted: dict[str, int]) -> QueueStat:
    queue = QUEUES[name]
    paused = bool(counted.pop("paused"))
    return QueueStat(name, queue.pool, queue.weight, paused=paused, **counted)
