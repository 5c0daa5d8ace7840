"""Queues at a glance, and what a scope has under way. All homes are asked at once."""

from collections.abc import Iterable, Sequence
from typing import Final

from contracts.jobs import Scope
from contracts.topology import QUEUES, home
from pipeline.backends.redis.keys import Keys, homes
from pipeline.backends.redis.records import fields, job_record
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined
from pipeline.broker import COUNTED_AHEAD
from pipeline.clock import HOUR_MS
from pipeline.records import HourStat, JobRecord, Obstacles, QueueStat

COUNTED: Final = (
    "pending", "active", "scheduled", "retry", "archived", "completed", "cancelled",
    "processed", "failed", "cancelled_today", "paused", "latency_ms", "memory_usage_bytes",
)  # fmt: skip
TOLD: Final = frozenset({"processed", "failed", "cancelled"})
ROUNDS: Final = 10
"""Scripts that look for children in one home, each at some hundred jobs."""


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


async def history(server: Server, keys: Keys, hours: int) -> list[HourStat]:
    """Return what each queue did in each of the last hours."""
    asked, days = homes(), (hours + 22) // 24 + 1
    said = await joined(
        server.run(script("read_stats"), keys.prefix(name), days, *queues) for name, queues in asked.items()
    )
    counted: dict[str, dict[int, dict[str, int]]] = {}
    for queues, (at, *found) in zip(asked.values(), said, strict=True):
        now = int(at) // HOUR_MS
        today = now // 24
        for place, queue in enumerate(queues):
            counts = _by_hour(found[place * days : (place + 1) * days], today - days + 1)
            counted[queue] = {hour: counts.get(hour, {}) for hour in range(now - hours + 1, now + 1)}
    return [
        HourStat(queue, hour * HOUR_MS, **counts)
        for queue in QUEUES
        for hour, counts in counted[queue].items()
    ]


def _by_hour(found: Sequence[Sequence[str]], first_day: int) -> dict[int, dict[str, int]]:
    counts: dict[int, dict[str, int]] = {}
    for day, flat in enumerate(found, first_day):
        for name, number in fields(flat).items():
            what, _, hour = name.partition(":")
            if hour.isdigit() and what in TOLD:
                counts.setdefault(day * 24 + int(hour), {})[what] = int(number)
    return counts


async def obstacles(server: Server, keys: Keys, queue: str, job_id: str) -> Obstacles:
    """Return what stands before a job that waits."""
    paused, scope, ahead, more = await server.run(
        script("find_obstacles"), keys.prefix(home(queue)), job_id, COUNTED_AHEAD
    )
    return Obstacles(bool(paused), Scope(*scope.split("|")) if scope else None, ahead, bool(more))


async def children(
    server: Server, keys: Keys, parent_id: str, scope: Scope, limit: int
) -> tuple[list[JobRecord], bool]:
    """Return children of a job in a scope, and whether there may be more."""
    said = await joined(_children(server, keys.prefix(one), parent_id, scope, limit) for one in homes())
    found = [record for records, _ in said for record in records]
    return found[:limit], len(found) > limit or any(more for _, more in said)


async def _children(
    server: Server, prefix: str, parent_id: str, scope: Scope, limit: int
) -> tuple[list[JobRecord], bool]:
    found: list[JobRecord] = []
    after = ""
    for _ in range(ROUNDS):
        after, some = await server.run(
            script("list_children"), prefix, f"{scope.kind}|{scope.id}", parent_id, limit - len(found), after
        )
        found += [job_record(fields(flat)) for flat in some]
        if not after or len(found) >= limit:
            break
    return found, bool(after)


def _stat(name: str, counted: dict[str, int]) -> QueueStat:
    queue = QUEUES[name]
    paused = bool(counted.pop("paused"))
    return QueueStat(name, queue.pool, queue.weight, paused=paused, **counted)
