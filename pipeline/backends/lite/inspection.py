"""Queues at a glance, and what a scope has under way."""

from collections.abc import Mapping
from typing import Final

from contracts.jobs import Scope
from contracts.states import WAITING, JobState
from contracts.topology import QUEUES, Queue
from pipeline.backends.lite.ending import pairs
from pipeline.backends.lite.fences import Fences
from pipeline.backends.lite.records import job_record
from pipeline.backends.lite.transaction import Snapshot, array
from pipeline.broker import COUNTED_AHEAD
from pipeline.clock import DAY_MS, HOUR_MS
from pipeline.records import HourStat, JobRecord, Obstacles, QueueStat

LOOKS: Final = 10_000
"""Jobs of a scope among which children are looked for."""


def queue_stats(snapshot: Snapshot) -> list[QueueStat]:
    """Return one row a queue, in registry order."""
    counts: dict[str, dict[str, int]] = {}
    for row in snapshot.run("count_jobs"):
        counts.setdefault(row["queue"], {})[row["state"]] = row["number"]
    today = {row["queue"]: row for row in snapshot.run("select_stats", first=snapshot.now // DAY_MS * 24)}
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


def history(snapshot: Snapshot, hours: int) -> list[HourStat]:
    """Return what each queue did in each of the last hours."""
    now = snapshot.now // HOUR_MS
    rows = {(row["queue"], row["hour"]): row for row in snapshot.run("select_hours", first=now - hours + 1)}
    return [
        HourStat(queue, hour * HOUR_MS, row["processed"], row["failed"], row["cancelled"])
        if (row := rows.get((queue, hour)))
        else HourStat(queue, hour * HOUR_MS)
        for queue in QUEUES
        for hour in range(now - hours + 1, now + 1)
    ]


def obstacles(snapshot: Snapshot, queue: str, job_id: str) -> Obstacles:
    """Return what stands before a job that waits, or was given up."""
    row = snapshot.run("select_steered", id=job_id).fetchone()
    if row is None or row["state"] not in WAITING | {JobState.ARCHIVED}:
        return Obstacles()
    paused = queue in {one["queue"] for one in snapshot.run("select_paused")}
    fences = Fences(snapshot)
    scopes = pairs(row["scopes"])
    fenced = (Scope(*one) for one in scopes if fences.cover(row["type"], row["root_at"], [one]))
    fence = next(fenced, None)
    counted = snapshot.run("count_ahead", id=job_id, most=COUNTED_AHEAD).fetchone()
    if counted is None:
        return Obstacles(paused, fence)
    ahead, others = counted
    return Obstacles(paused, fence, ahead + min(others, ahead + 1), ahead == COUNTED_AHEAD)


def children(snapshot: Snapshot, parent_id: str, scope: Scope, limit: int) -> tuple[list[JobRecord], bool]:
    """Return children of a job in a scope, and whether there may be more."""
    which = {"kind": scope.kind, "scope": scope.id, "looks": LOOKS}
    rows = snapshot.run("list_children", parent=parent_id, limit=limit + 1, **which).fetchall()
    (unseen,) = snapshot.run("exceeds_looks", **which).fetchone()
    return [job_record(row) for row in rows[:limit]], len(rows) > limit or unseen > 0


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
