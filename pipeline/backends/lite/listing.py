"""Jobs a page at a time, by keyset, so that deletes and inserts in between hide and repeat nothing."""

from dataclasses import dataclass
from typing import Final

from contracts.states import JobState
from pipeline.backends.lite.records import job_record
from pipeline.backends.lite.transaction import ENDLESS, Snapshot
from pipeline.cursors import decode, encode
from pipeline.records import Page, TaskFilter


@dataclass(frozen=True, slots=True)
class _Order:
    """A statement that lists one kind of states, and the place before its first job."""

    statement: str
    start: tuple[int, int] = (ENDLESS, ENDLESS)


_WAITING: Final = _Order("list_waiting", (-1, -1))
_ENDED: Final = _Order("list_ended")
_ORDERS: Final = {
    JobState.PENDING: _Order("list_pending"),
    JobState.ACTIVE: _Order("list_active"),
    JobState.SCHEDULED: _WAITING,
    JobState.RETRY: _WAITING,
    JobState.COMPLETED: _ENDED,
    JobState.ARCHIVED: _ENDED,
    JobState.CANCELLED: _ENDED,
}


@dataclass(frozen=True, slots=True)
class Listing:
    """One page asked for."""

    queue: str
    state: JobState
    cursor: str | None
    limit: int
    match: TaskFilter

    def __call__(self, snapshot: Snapshot) -> Page:
        """Return the page. Raises CursorInvalid, CursorExpired."""
        order = _ORDERS[self.state]
        first, second = order.start
        if self.cursor:
            first, second = decode(self.cursor, self.queue, self.state, int)
        rows = snapshot.run(
            order.statement,
            queue=self.queue,
            state=self.state,
            first=first,
            second=second,
            type=self.match.type,
            error=self.match.error,
            kind=self.match.scope.kind if self.match.scope else "",
            scope=self.match.scope.id if self.match.scope else "",
            limit=self.limit + 1,
        ).fetchall()
        page, more = rows[: self.limit], rows[self.limit :]
        last = (page[-1]["first"], page[-1]["second"]) if page and more else None
        following = encode(self.queue, self.state, last) if last else None
        return Page(tuple(map(job_record, page)), following)
