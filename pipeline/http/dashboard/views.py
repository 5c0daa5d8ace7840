"""What the pages show, decided from what the inspector says. Pure: no words, no markup, no clock."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from contracts.jobs import types_of
from contracts.states import JobState, allowed
from contracts.topology import POOLS, SHARED, weights
from pipeline.actions import Action, cancellable
from pipeline.http.dashboard.charts import Columns, Hour, columns, hours_until, totals
from pipeline.records import HourStat, JobRecord, PoolStat, QueueStat

OLD_MS: Final = 10 * 60_000
"""A pending job that waits longer is worth a look."""
LATE_MS: Final = 10_000
"""What waits longer in the database to be delivered waits for more than the next round."""
HOURS: Final = 24
STATES: Final = (
    JobState.PENDING,
    JobState.ACTIVE,
    JobState.RETRY,
    JobState.SCHEDULED,
    JobState.ARCHIVED,
    JobState.COMPLETED,
    JobState.CANCELLED,
)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that needs somebody. `level` is bad or warn; `code` and `about` make the sentence."""

    level: str
    code: str
    about: Mapping[str, Any] = field(default_factory=dict)
    href: str = ""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue with its last hours. `quiet`: it has nothing and had nothing."""

    stat: QueueStat
    spark: Columns

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to see."""
        return self.spark.empty and not (self.stat.size or self.stat.archived or self.stat.paused)


@dataclass(frozen=True, slots=True)
class PoolGroup:
    """A pool and the queues it reads first."""

    pool: PoolStat
    rows: tuple[QueueRow, ...]
    lends_to: tuple[str, ...] = ()

    @property
    def level(self) -> str:
        """How full it is: full, high or nothing to say."""
        share = self.pool.utilization
        return "full" if share >= 1 else "high" if share >= 0.8 else ""


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything at a glance."""

    notices: tuple[Notice, ...]
    figures: Mapping[str, int]
    chart: Columns
    groups: tuple[PoolGroup, ...]
    used: bool


def overview(
    stats: Sequence[QueueStat],
    pools: Sequence[PoolStat],
    hours: Iterable[HourStat],
    now: int,
    strange: Mapping[str, Sequence[str]] = {},
    unsent: tuple[int, int] = (0, 0),
) -> Overview:
    """Return what the first page shows. `now` is the store's clock in milliseconds; `unsent` says how much waits in the
    database to be delivered to the queue, and for how long.
    """
    ended: dict[str, list[tuple[int, int, int]]] = {}
    for one in hours:
        ended.setdefault(one.queue, []).append((one.at, one.processed - one.failed, one.failed))
    each = {stat.name: hours_until(now, HOURS, ended.get(stat.name, ())) for stat in stats}
    rows = [QueueRow(stat, columns(each[stat.name], 96, 20, gap=1)) for stat in stats]
    return Overview(
        notices=(*undelivered(*unsent), *notices(stats, pools, strange)),
        figures=figures(stats, each),
        chart=columns(totals(each), 960, 120, gap=6),
        groups=tuple(_group(pool, rows) for pool in pools),
        used=any(not row.quiet for row in rows),
    )


def _group(pool: PoolStat, rows: Sequence[QueueRow]) -> PoolGroup:
    lends = tuple(weights(SHARED)) if pool.name == SHARED else ()
    return PoolGroup(pool, tuple(row for row in rows if row.stat.pool == pool.name), lends)


def figures(stats: Sequence[QueueStat], hours: Mapping[str, Sequence[Hour]]) -> Mapping[str, int]:
    """Return the totals over all queues."""
    oldest = max(stats, key=lambda stat: stat.latency_ms, default=None)
    return {
        "pending": sum(stat.pending for stat in stats),
        "oldest_ms": oldest.latency_ms if oldest else 0,
        "active": sum(stat.active for stat in stats),
        "scheduled": sum(stat.scheduled for stat in stats),
        "retry": sum(stat.retry for stat in stats),
        "archived": sum(stat.archived for stat in stats),
        "processed": sum(stat.processed for stat in stats),
        "done": sum(stat.done for stat in stats),
        "failed": sum(stat.failed for stat in stats),
        "last_hour": sum(each[-1].done + each[-1].failed for each in hours.values() if each),
    }


def undelivered(count: int, age_ms: int) -> tuple[Notice, ...]:
    """Return what is said of work that did not come to the queue yet, although somebody should have brought it."""
    about = {"n": count, "age_ms": age_ms}
    return (Notice("warn", "undelivered", about, "/workers"),) if age_ms >= LATE_MS else ()


def notices(
    stats: Sequence[QueueStat], pools: Sequence[PoolStat], strange: Mapping[str, Sequence[str]] = {}
) -> tuple[Notice, ...]:
    """Return what needs somebody, the worst first. `strange` is `Inspector.strange`."""
    instances = {pool.name: pool.instances for pool in pools}
    borrowed = set(weights(SHARED)) if instances.get(SHARED) else set()
    found: list[Notice] = []
    deserted: dict[str, int] = {}
    alone: list[Notice] = []
    for stat in stats:
        if stat.pending and not instances.get(stat.pool) and stat.name not in borrowed:
            if types := strange.get(stat.name):
                about = {"queue": stat.name, "n": stat.pending, "types": ", ".join(types)}
                alone.append(Notice("bad", "no_handler", about, f"/queues/{stat.name}"))
            else:
                deserted[stat.pool] = deserted.get(stat.pool, 0) + stat.pending
    for pool, waiting in deserted.items():
        lane = POOLS[pool].lane.value
        found.append(Notice("bad", "no_worker", {"pool": pool, "n": waiting, "lane": lane}, "/workers"))
    found += alone
    for stat in stats:
        to = f"/queues/{stat.name}"
        if stat.paused:
            found.append(Notice("warn", "paused", {"queue": stat.name, "n": stat.pending}, to))
        elif stat.latency_ms >= OLD_MS and stat.pool not in deserted and stat.name not in strange:
            found.append(Notice("warn", "old", {"queue": stat.name, "age_ms": stat.latency_ms}, to))
    if dead := sum(stat.archived for stat in stats):
        found.append(Notice("warn", "dead", {"n": dead}, "/dead"))
    return tuple(sorted(found, key=lambda notice: notice.level != "bad"))


def counts(stat: QueueStat) -> Mapping[JobState, int]:
    """Return how many jobs of a queue stand in each state, in the order of the tabs."""
    return {state: int(getattr(stat, state.value)) for state in STATES}


def first_state(stat: QueueStat) -> JobState:
    """Return the state to show when nobody named one: where there is something to see."""
    return next((state for state, n in counts(stat).items() if n), JobState.PENDING)


def types(queue: str, rows: Iterable[JobRecord] = (), chosen: str = "") -> list[str]:
    """Return the types that jobs of a queue may be narrowed to: those known here, those of `rows`, and the `chosen` one."""
    known = {payload.spec.type for payload in types_of(queue)}
    return sorted(known | {row.job.type for row in rows} | {chosen} - {""})


def verbs(state: JobState, types: Iterable[str]) -> tuple[Action, ...]:
    """Return what may be done to many jobs at once, of these types. Those that are cancelled with what they belong to
    are not cancelled one by one.
    """
    single = any(map(cancellable, types))
    running = state is JobState.ACTIVE
    return tuple(
        action
        for action in Action
        if (single or action is not Action.CANCEL)
        and (allowed(state, action) or (running and action is Action.CANCEL))
    )
