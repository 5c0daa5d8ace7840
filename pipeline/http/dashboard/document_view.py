"""What the page of one document shows: the timeline of a parse. Pure: no words, no markup, no clock."""

from dataclasses import dataclass
from typing import Final

from pipeline.http.dashboard.charts import Bar, bar
from pipeline.http.documents import Part, Story

QUEUES: Final = ("default", "postprocess", "multimodal", "summary", "question", "graph")
"""Where jobs of a document lie."""
UNNEEDED: Final = "unneeded"
"""How a stage stands that a complete document went without."""


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
        return tuple(Line(_short(p), p.status, p.depth, None, None) for p in story.parts)
    first = min(p.started_at or 0 for p in begun)
    last = max(_end(p, now) for p in begun)
    complete = story.document.status == "completed"
    return tuple(
        Line(_short(part), UNNEEDED if complete else part.status, part.depth, None, None)
        if part.started_at is None
        else _line(part, first, last, now)
        for part in story.parts
    )


def _line(part: Part, first: int, last: int, now: int) -> Line:
    start, end = part.started_at or 0, _end(part, now)
    return Line(_short(part), part.status, part.depth, bar(start, end, first, last), end - start)


def _short(part: Part) -> str:
    """Return the name of a part without the stage that it stands under."""
    return part.name.partition(".")[2] or part.name if part.depth else part.name


def _end(part: Part, now: int) -> int:
    return max(part.started_at or 0, now if part.finished_at is None else part.finished_at)


def total_ms(story: Story, now: int) -> int:
    """Return how long a parse took, or has taken so far."""
    begun = [part for part in story.parts if part.started_at is not None]
    return max((_end(p, now) for p in begun), default=0) - min((p.started_at or 0 for p in begun), default=0)
