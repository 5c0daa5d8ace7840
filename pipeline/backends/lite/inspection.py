"""Queues at a glance, and what a scope has under way."""

from collections.abc import Mapping

from contracts.jobs import Scope
from contracts.topology import QUEUES, Queue
from pipeline.backends.lite.transaction import Snapshot, array
from pipeline.clock import DAY_MS
from pipeline.records import QueueStat


def queue_stats(snapshot: Snapshot) -> list[QueueStat]:
    """Return one row a queue, in registry order."""
    counts: dict[str, dict[str, int]] = {}
    for row in snapshot.run("count_jobs"):
        counts.setdefault(row["queue"], {})[row["state"]] = row["number"]
    today = {row["queue"]: row for row in snapshot.run("select_stats", day=snapshot.now // DAY_MS)}
    paused = {row["queue"] for row in snapshot.run("select_paused")}
    return [
        _stat(
            snapshot, queue, counts.get(queue.name, {}), dict(today.get(queue.name, ())), queue.name in paused
        )
        for queue in QUEUES.values()
    ]


def has_queued(snapshot: Snapshot, scope: Scope, types: frozenset[str] | None) -> bool:
    """Whether the scope has a job that is not ended."""
    found = snapshot.run("find_queued", kind=scope.kind, id=scope.id, types=_json(types)).fetchone()
    return found is not None


def queued_ids(snapshot: Snapshot, kind: str, types: frozenset[str] | None) -> set[str]:
    """Return the ids of this kind of scope that have a job that is not ended."""
    return {row["id"] for row in snapshot.run("select_queued_ids", kind=kind, types=_json(types))}


def _stat(
    snapshot: Snapshot, queue: Queue, counts: Mapping[str, int], today: Mapping[str, int], paused: bool
) -> QueueStat:
    (since,) = snapshot.run("select_oldest_pending", queue=queue.name).fetchone()
    (size,) = snapshot.run("estimate_size", queue=queue.name).fetchone()
    return QueueStat(
        queue.name,
        queue.pool,
        queue.weight,
        **counts,
        processed=today.get("processed", 0),
        failed=today.get("failed", 0),
        cancelled_today=today.get("cancelled", 0),
        paused=paused,
        latency_ms=max(snapshot.now - since, 0) if since is not None else 0,
        memory_usage_bytes=round((size or 0) * sum(counts.values())),
    )


def _json(types: frozenset[str] | None) -> str | None:
    return None if types is None else array(types)
