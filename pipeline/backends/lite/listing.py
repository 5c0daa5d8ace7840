"""Jobs a page at a time, by keyset, so that deletes and inserts in between hide and repeat nothing."""

from dataclasses import dataclass
from typing import Final

from contracts.states import JobState
from pipeline.backends.lite.records import job_record
from pipeline.backends.lite.statements import sql
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
            limit=self.limit + 1,
            **_wanted(self.match),
        ).fetchall()
        page, more = rows[: self.limit], rows[self.limit :]
        last = (page[-1]["first"], page[-1]["second"]) if page and more else None
        following = encode(self.queue, self.state, last) if last else None
        return Page(tuple(map(job_record, page)), following)


def count(snapshot: Snapshot, queue: str, state: JobState, match: TaskFilter) -> tuple[int, bool]:
    """Return how many jobs match, and whether there may be more."""
    order = _ORDERS[state]
    first, second = order.start
    where = {"queue": queue, "state": state, "first": first, "second": second, "limit": -1, **_wanted(match)}
    counted = f"SELECT count(*) FROM ({sql(order.statement)})"  # noqa: S608 - a statement of ours
    (number,) = snapshot.connection.execute(counted, where).fetchone()
    return number, False


def _wanted(match: TaskFilter) -> dict[str, str]:
    kind, ident = (match.scope.kind, match.scope.id) if match.scope else ("", "")
    return {"type": match.type, "error": match.error, "kind": kind, "scope": ident}
