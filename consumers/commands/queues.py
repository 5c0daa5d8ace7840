"""`streamlane queues`, `workers`, `pause` and `resume`: everything at a glance."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

from rich.console import Group, RenderableType

from consumers.commands.terminal import OK, drawn, emit, line, moment, out, shown, table, width
from consumers.commands.watching import watch
from consumers.commands.wording import SAYS, age, notice
from contracts.payloads import handled
from contracts.topology import queue as known_queue
from pipeline import Pipeline
from pipeline.clock import now_ms
from pipeline.http.dashboard.views import figures, notices
from pipeline.records import PoolStat, QueueStat, WorkerBeat

SHOWN: Final = frozenset({"queue", "pool", "pending", "active"})
"""What a terminal shows even when it is nothing everywhere; the rest would only make it too narrow."""
POOL: Final = ("pool", "slots", "busy", "capacity", "workers", "use")
WORKER: Final = ("worker", "host", "pid", "state", "pools", "busy", "slots", "up", "seen")


@dataclass(frozen=True, slots=True)
class Glance:
    """The queues, the pools that read them, and what needs somebody."""

    stats: Sequence[QueueStat]
    pools: Sequence[PoolStat]
    strange: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def notices(self) -> list[str]:
        """What needs somebody, in sentences."""
        return [notice(one) for one in notices(self.stats, self.pools, self.strange)]

    @property
    def told(self) -> dict[str, Any]:
        """All of it, for a script."""
        return {
            "queues": [asdict(stat) | {"size": stat.size} for stat in self.stats],
            "pools": [asdict(pool) for pool in self.pools],
            "notices": self.notices,
        }


async def queues(as_json: bool, watched: bool = False) -> int:
    """Print one row a queue and one a pool; with `watched` again and again."""
    async with Pipeline.open() as pipeline:
        look = partial(_glance, pipeline)
        if watched:
            lines = count()
            tell = (lambda seen: emit(seen.told)) if as_json else lambda seen: _print_line(seen, next(lines))
            return await watch(look, lambda seen: _picture(seen, out.height), tell, as_json=as_json)
        seen = await look()
    if as_json:
        emit(seen.told)
    elif out.is_terminal:
        out.print(_picture(seen), soft_wrap=False)
    else:
        table(*_queue_table(seen.stats))
        out.print()
        table(POOL, _pool_rows(seen.pools))
    return OK


async def _glance(pipeline: Pipeline) -> Glance:
    see = pipeline.inspector
    stats, pools = await see.queues(), await see.pools()
    return Glance(stats, pools, await see.strange(stats, pools, handled()))


def _picture(seen: Glance, height: int = 0) -> RenderableType:
    """Return what a terminal shows; where it is too low for all, queues and pools with nothing are left out."""
    stats, pools, left_out = list(seen.stats), list(seen.pools), ""
    told = seen.notices
    if height and len(stats) + len(pools) + len(told) + 4 > height:
        stats = [stat for stat in stats if stat.size or stat.archived or stat.paused or stat.processed]
        pools = [pool for pool in pools if pool.instances or pool.active]
        left_out = f"{len(seen.stats) - len(stats)} queues have nothing"
    notes = [*told, *(["* paused"] if any(stat.paused for stat in stats) else []), *filter(None, [left_out])]
    parts: list[RenderableType] = [drawn(*_queue_table(stats))]
    parts += ["", drawn(POOL, _pool_rows(pools))] if pools else []
    parts += ["", *map(_literal, notes)] if notes else []
    return Group(*parts)


def _literal(text: str) -> RenderableType:
    from rich.text import Text

    return Text(shown(text))


def _queue_table(stats: Sequence[QueueStat]) -> tuple[list[str], list[list[object]]]:
    mark = "*" if out.is_terminal else " (paused)"
    rows: list[dict[str, object]] = [
        {
            "queue": stat.name + (mark if stat.paused else ""),
            "pool": stat.pool,
            "weight": stat.weight,
            "pending": stat.pending,
            "active": stat.active,
            "scheduled": stat.scheduled,
            "retry": stat.retry,
            "archived": stat.archived,
            "done": stat.done,
            "failed": stat.failed,
            "oldest": age(stat.latency_ms),
        }
        for stat in stats
    ]
    columns = list(rows[0]) if rows else ["queue", "pool", "pending", "active"]
    if out.is_terminal:
        columns = [c for c in columns if c in SHOWN or (c != "weight" and any(row[c] for row in rows))]
        if width(columns, [[row[c] for c in columns] for row in rows]) + len(columns) > out.width:
            columns.remove("pool")
    return columns, [[row[c] for c in columns] for row in rows]


def _pool_rows(pools: Sequence[PoolStat]) -> list[list[object]]:
    return [
        [pool.name, pool.concurrency, pool.active, pool.cluster_capacity, pool.instances,
         f"{pool.utilization:.0%}" if pool.instances else ""]
        for pool in pools
    ]  # fmt: skip


def _print_line(seen: Glance, number: int) -> None:
    """Print everything in one line, and before the first one what its parts are called."""
    told = dict(figures(seen.stats, {}))
    row = {"time": moment(now_ms())} | {
        name: told[name] for name in ("pending", "active", "scheduled", "retry", "archived", "done", "failed")
    }
    row |= {"oldest": age(told["oldest_ms"]), "busy": sum(pool.active for pool in seen.pools)}
    if not number:
        line(row)
    line(row.values())


async def workers(as_json: bool, watched: bool = False) -> int:
    """Print one row a worker process."""
    async with Pipeline.open() as pipeline:
        look = pipeline.inspector.workers
        if watched:
            return await watch(
                look, lambda seen: drawn(WORKER, _worker_rows(seen)), partial(_tell_workers, as_json),
                as_json=as_json,
            )  # fmt: skip
        _tell_workers(as_json, await look())
    return OK


def _tell_workers(as_json: bool, beats: Sequence[WorkerBeat]) -> None:
    if as_json:
        emit({"workers": [asdict(beat) for beat in beats]})
    elif beats or not out.is_terminal:
        table(WORKER, _worker_rows(beats))
    else:
        out.print(f"{SAYS('workers.empty')}. {SAYS('workers.empty.do')}", markup=False)


def _worker_rows(beats: Sequence[WorkerBeat]) -> list[list[object]]:
    now = now_ms()
    return [
        [beat.worker, beat.host, beat.pid, beat.state,
         " ".join(f"{pool.name} {pool.active}/{pool.slots}" for pool in beat.pools),
         sum(pool.active for pool in beat.pools), sum(pool.slots for pool in beat.pools),
         age(now - beat.started_at), moment(beat.seen_at)]
        for beat in sorted(beats, key=lambda beat: (beat.host, beat.started_at))
    ]  # fmt: skip


async def set_paused(name: str, as_json: bool, *, paused: bool) -> int:
    """Let a queue start nothing, or undo that."""
    from consumers.desk import by_hand
    from pipeline.http.steering import set_paused

    queue = known_queue(name).name
    action = "pause" if paused else "resume"
    async with by_hand(action) as call:
        before = {stat.name: stat.paused for stat in await call.desk.inspector.queues()}
        await set_paused(call, queue, paused=paused)
    already = before[queue] is paused
    if as_json:
        emit({"queue": queue, "action": action, "paused": paused, "already": already, "success": True})
    elif paused:
        was = " already" if already else ""
        out.print(f"queue {queue} starts nothing{was} until: streamlane resume {queue}")
    else:
        out.print(f"queue {queue} was not paused" if already else f"queue {queue} goes on")
    return OK
