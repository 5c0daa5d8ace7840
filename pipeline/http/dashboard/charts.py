"""Shapes of charts, ready to draw: no drawing here, and no words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Final

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Hour:
    """What ended in one hour that began at `at`."""

    at: int
    done: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a chart that is `width` × `height`; failures stand on top of what was done."""

    hour: Hour
    x: float
    width: float
    done_y: float
    done_height: float
    failed_y: float
    failed_height: float


@dataclass(frozen=True, slots=True)
class Columns:
    """A chart of hours. `top` is the value of its upper edge."""

    columns: tuple[Column, ...]
    top: int
    width: int
    height: int

    @property
    def empty(self) -> bool:
        """Whether nothing happened in all these hours."""
        return not any(c.hour.done or c.hour.failed for c in self.columns)


def hours_until(now: int, count: int, ended: Iterable[tuple[int, int, int]]) -> tuple[Hour, ...]:
    """Return the last `count` hours, oldest first, the current one included; `ended` is (at, done, failed), in any order."""
    done: dict[int, int] = {}
    failed: dict[int, int] = {}
    for at, good, bad in ended:
        hour = at // HOUR_MS
        done[hour] = done.get(hour, 0) + good
        failed[hour] = failed.get(hour, 0) + bad
    last = now // HOUR_MS
    return tuple(
        Hour(h * HOUR_MS, done.get(h, 0), failed.get(h, 0)) for h in range(last - count + 1, last + 1)
    )


def columns(hours: Sequence[Hour], width: int, height: int, gap: float = 2) -> Columns:
    """Return the chart of these hours. What is not nothing is seen, however small."""
    top = rounded_up(max((h.done + h.failed for h in hours), default=0))
    step = width / max(1, len(hours))
    found = []
    for i, hour in enumerate(hours):
        good, bad = (_tall(value, top, height) for value in (hour.done, hour.failed))
        good = min(good, height - bad)
        found.append(
            Column(
                hour,
                round(i * step, 2),
                round(max(1.0, step - gap), 2),
                round(height - good, 2),
                round(good, 2),
                round(height - good - bad, 2),
                round(bad, 2),
            )
        )
    return Columns(tuple(found), top, width, height)


def _tall(value: int, top: int, height: int) -> float:
    return max(2.0, value / top * height) if value else 0.0


def rounded_up(value: int) -> int:
    """Return the next number that reads well: 1, 2, 4, 5, 6, 8 or 10 times a power of ten."""
    if value <= 0:
        return 1
    power = 10 ** int(log10(value))
    return next(int(step * power) for step in (1, 2, 4, 5, 6, 8, 10) if step * power >= value)


@dataclass(frozen=True, slots=True)
class Bar:
    """A length of time on a line of 0 … 1000."""

    x: float
    width: float


def bar(start: int, end: int, first: int, last: int) -> Bar:
    """Return where a length of time lies between the first and the last moment; never too thin to be seen."""
    whole = max(1, last - first)
    x = min(1000.0, max(0.0, (start - first) / whole * 1000))
    width = max(3.0, (end - start) / whole * 1000)
    return Bar(round(min(x, 997.0), 2), round(min(width, 1000 - min(x, 997.0)), 2))


def totals(hours: Mapping[str, Sequence[Hour]]) -> tuple[Hour, ...]:
    """Return the sum over queues, hour by hour; all have the same hours."""
    return tuple(
        Hour(same[0].at, sum(h.done for h in same), sum(h.failed for h in same))
        for same in zip(*hours.values(), strict=True)
    )
