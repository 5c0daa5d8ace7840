"""What the page of one document shows: the timeline of a parse. Pure: no words, no markup, no clock."""

from dataclasses import dataclass
from typing import Final

from pipeline.http.dashboard.charts import Bar, bar
from pipeline.http.documents import Part, Story

QUEUES: Final = ("default", "postprocess", "multimodal", "summary", "question", "graph")
"""Where jobs of a document lie."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a timeline. `bar` is None for what has not started, `ms` for what has not ended."""

    name: str
    status: str
    depth: int
    bar: Bar | None
    ms: int | None


def lines(story: Story, now: int) -> tuple[Line, ...]:
    """Return the timeline of a parse; what still runs goes up to now."""
    begun = [part for part in story.parts if part.started_at is not None]
    if not begun:
        return tuple(Line(p.name, p.status, p.depth, None, None) for p in story.parts)
    first = min(p.started_at or 0 for p in begun)
    last = max(_end(p, now) for p in begun)
    return tuple(_line(part, first, last, now) for part in story.parts)


def _line(part: Part, first: int, last: int, now: int) -> Line:
    if part.started_at is None:
        return Line(part.name, part.status, part.depth, None, None)
    end = _end(part, now)
    return Line(
        part.name, part.status, part.depth, bar(part.started_at, end, first, last), end - part.started_at
    )


def _end(part: Part, now: int) -> int:
    return max(part.started_at or 0, now if part.finished_at is None else part.finished_at)


def total_ms(story: Story, now: int) -> int:
    """Return how long a parse took, or has taken so far."""
    begun = [part for part in story.parts if part.started_at is not None]
    return max((_end(p, now) for p in begun), default=0) - min((p.started_at or 0 for p in begun), default=0)
