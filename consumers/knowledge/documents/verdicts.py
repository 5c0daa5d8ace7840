"""What is to become of a document on which nothing has moved for long: decisions, without looking or doing (facts 7).

What cannot be told puts a document off, whatever it is: an outage never fails one. The wiki's operations and jobs
that wait protect it for as long as they do; there is no limit to that, for backpressure is no fault of a document.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from contracts.knowledge import ParseStatus, SlotKind, Stage

TASKS_NAMED: Final = 3
DELETES: Final = 3
"""How often a removal whose job was lost is asked for again before it counts as failed."""


class Verdict(StrEnum):
    """What is to become of a document."""

    FAIL = "fail"
    GO_ON = "go_on"
    """It is usable: it goes on without what it waits for and nobody will bring."""
    DELETE_AGAIN = "delete_again"
    REARM = "rearm"
    """It waits for the wiki of its base, which is told once more that it has work."""
    DEFER = "defer"


class Why(StrEnum):
    """The reason of a verdict."""

    STUCK = "stuck"
    LOST = "the jobs it waits for are lost"
    STRANDED = "its removal was lost"
    MOVED = "it moved"
    HELD = "it waits for the wiki"
    QUEUED = "tasks still queued (backpressure, not stuck)"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known of a document that did not move. Times are ms since the epoch; None: nobody could be asked.

    `span_at` is the last write to its timeline, 0 for none; `held`: an operation of the wiki waits for it; `parsed`: its
    text is stored, and `slots` counts what it waits for; `deletes`: how often its removal was asked for again; `queued`:
    a job of it has not ended, or the death of one is not dealt with yet; `next_lost`: its parts are through, and nobody
    has ever heard of the job that comes next.
    """

    status: ParseStatus
    updated_at: int
    span_at: int = 0
    held: bool = False
    queued: bool | None = None
    next_lost: bool = False
    parsed: bool = False
    slots: int = 0
    deletes: int = 0

    @property
    def moved_at(self) -> int:
        """When something of it moved last."""
        return max(self.updated_at, self.span_at)


def decide(document: Standing, cutoff: int) -> tuple[Verdict, Why]:
    """Return what is to become of a document, and why. What moved at `cutoff` (ms) or later is left alone."""
    deleting = document.status is ParseStatus.DELETING
    if document.moved_at >= cutoff:
        return Verdict.DEFER, Why.MOVED
    if document.held and not deleting:
        return Verdict.REARM, Why.HELD
    if document.queued is None:
        return Verdict.DEFER, Why.UNKNOWN
    if document.queued:
        return Verdict.DEFER, Why.QUEUED
    if deleting:  # whoever deletes a document wants it gone: to show it as failed would bring it back
        return (Verdict.DELETE_AGAIN if document.deletes < DELETES else Verdict.FAIL), Why.STRANDED
    if document.parsed and (
        document.slots or document.next_lost or document.status is ParseStatus.FINALIZING
    ):
        return Verdict.GO_ON, Why.LOST
    return Verdict.FAIL, Why.STUCK


def stuck(document: Standing, stages: Sequence[Stage], tasks: Sequence[str], threshold_s: float) -> str:
    """Return the message of a stuck document: where it stood and since when, for a person."""
    where = f" at {'/'.join(stages)} stage" if stages else ""
    named = ", ".join([*tasks[:TASKS_NAMED], *(["..."] if len(tasks) > TASKS_NAMED else [])])
    what = f" ({named})" if named else ""
    return (
        f"task stuck in {document.status}{where}{what}: no progress since {moment(document.moved_at)}"
        f" (> {duration(threshold_s)}), recovered by housekeeping"
    )


def stranded(threshold_s: float) -> str:
    """Return the message of a document whose removal was lost too often."""
    return f"delete task stranded (no queued/active delete task) > {duration(threshold_s)}, recovered by housekeeping"


def lost_task(moved_at: int, threshold_s: float) -> str:
    """Return what is said of a task whose job was lost."""
    return (
        f"its job was lost: no progress since {moment(moved_at)} (> {duration(threshold_s)}); start it again, and it does"
        " what is left"
    )


def lost_attachment(moved_at: int, threshold_s: float) -> str:
    """Return what is said of an attached file whose job was lost."""
    return (
        f"its job was lost: no progress since {moment(moved_at)} (> {duration(threshold_s)}); attach it again"
    )


def asked_again(number: int) -> str:
    """Return what is said of a removal that was lost."""
    return f"the removal was lost and is asked for again ({number} of {DELETES})"


def left_out(lost: Iterable[SlotKind]) -> str:
    """Return what a document has to say of the parts that were lost with their jobs; "" for none."""
    counts = Counter(lost)
    if not counts:
        return ""
    parts = [_PARTS[kind][count > 1].format(count) for kind, count in counts.items()]
    whose = "the job for it was" if counts.total() == 1 else "the jobs for them were"
    return f"left out: {', '.join(parts)}; {whose} lost"


_PARTS: Final = {
    SlotKind.IMAGE: ("a picture", "{} pictures"),
    SlotKind.SUMMARY: ("the summary", "{} summaries"),
    SlotKind.QUESTION: ("a batch of questions", "{} batches of questions"),
    SlotKind.GRAPH: ("a part of the graph", "{} parts of the graph"),
    SlotKind.WIKI: ("the wiki", "{} parts of the wiki"),
}


def moment(at: int) -> str:
    """Return a time in ms as RFC 3339 in UTC, to the second."""
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration(seconds: float) -> str:
    """Return a duration as operators of the original know it: 2h10m0s."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    text = f"{whole % 60}s" if whole >= 1 or not seconds else f"{round(seconds * 1000)}ms"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text
