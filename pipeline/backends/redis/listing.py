"""Jobs a page at a time, by keyset, so that deletes and inserts in between hide and repeat nothing.

A place in a stream is whether its entry comes again, and the entry's id; elsewhere the job's time, and its id.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final

from contracts.identity import NAME
from contracts.states import TERMINAL, JobState
from contracts.topology import home
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.records import fields, job_record
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.cursors import decode, encode
from pipeline.errors import CursorInvalid
from pipeline.records import JobRecord, Page, TaskFilter

LOOK_S: Final = 0.1
"""How long one page is looked for: where a filter finds little, a page is short, and a count not the whole."""
FEW: Final = 2_000
"""Jobs of a scope that are looked up in its index; where there are more, the queue is not long before some come."""
SHOWN: Final = 20
IN_STREAMS: Final = frozenset({JobState.PENDING, JobState.ACTIVE})
ENTRY: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")

Place = tuple[int, str]


async def tasks(
    server: Server, keys: Keys, queue: str, state: JobState, cursor: str | None, limit: int, match: TaskFilter
) -> Page:
    """Return a page. Raises CursorInvalid, CursorExpired."""
    after = _place(cursor, queue, state) if cursor else None
    if (places := await _of_scope(server, keys, queue, state, match)) is not None:
        return await _page_of(server, keys, (queue, state), places, after, limit)
    search = _Search(server, keys, queue, state, match, after)
    records: list[JobRecord] = []
    while len(records) < limit and not search.over:
        found, _ = await search.step(limit - len(records))
        records += [job_record(fields(flat)) for flat in found]
        if search.late:
            break
    return Page(tuple(records), None if search.over else encode(queue, state, search.after or (0, "")))


async def count(
    server: Server, keys: Keys, queue: str, state: JobState, match: TaskFilter
) -> tuple[int, bool]:
    """Return how many jobs match, and whether there may be more."""
    if (places := await _of_scope(server, keys, queue, state, match)) is not None:
        return len(places), False
    search = _Search(server, keys, queue, state, match, None)
    number = 0
    while not search.over and not search.late:
        _, more = await search.step(0)
        number += more
    return number, not search.over


class _Search:
    """Looks through a queue a step at a time."""

    def __init__(
        self, server: Server, keys: Keys, queue: str, state: JobState, match: TaskFilter, after: Place | None
    ) -> None:
        self._server, self._prefix, self.after = server, keys.prefix(home(queue)), after
        self._script = script("list_entries" if state in IN_STREAMS else "list_waiting")
        scope = f"{match.scope.kind}|{match.scope.id}" if match.scope else ""
        self._what, self._match = (queue, str(state)), (match.type, scope, match.error)
        self._end = asyncio.get_running_loop().time() + LOOK_S
        self.over = False

    @property
    def late(self) -> bool:
        return asyncio.get_running_loop().time() >= self._end

    async def step(self, wanted: int) -> tuple[Sequence[Any], int]:
        """Return the fields of at most so many jobs, and how many were found; 0 only counts."""
        over, first, second, found, number = await self._server.run(
            self._script, self._prefix, *self._what, wanted, *(self.after or (0, "")), *self._match
        )
        self.over = bool(over)
        self.after = (int(first), second) if second else self.after
        return found, number


async def _of_scope(
    server: Server, keys: Keys, queue: str, state: JobState, match: TaskFilter
) -> list[tuple[Place, str]] | None:
    """Return place and id of all that match, from the index of a scope of few jobs; None where it is of no use."""
    if match.scope is None or state in TERMINAL:
        return None
    scope = f"{match.scope.kind}|{match.scope.id}"
    found: list[tuple[Place, str]] = []
    after, looked = "", 0
    while looked < FEW:
        after, flat = await server.run(
            script("list_scope"), keys.prefix(home(queue)), scope, match.type, queue, str(state), match.error, after
        )  # fmt: skip
        found += [
            (_place_of(state, job_id, said), job_id) for job_id, said in zip(*[iter(flat)] * 2, strict=True)
        ]
        if not after:
            return found
        looked += 300
    return None


async def _page_of(
    server: Server,
    keys: Keys,
    which: tuple[str, JobState],
    places: list[tuple[Place, str]],
    after: Place | None,
    limit: int,
) -> Page:
    queue, state = which
    newest_first = state in IN_STREAMS
    places.sort(key=lambda one: _rank(state, one[0]), reverse=newest_first)
    if after is not None:
        last = _rank(state, after)
        places = [
            one
            for one in places
            if (_rank(state, one[0]) < last) == newest_first and _rank(state, one[0]) != last
        ]
    page, more = places[:limit], places[limit:]
    records: list[JobRecord] = []
    for first in range(0, len(page), SHOWN):
        ids = [job_id for _, job_id in page[first : first + SHOWN]]
        said = await server.run(script("find_jobs"), keys.prefix(home(queue)), *ids)
        found = [job_record(fields(flat)) for flat in said if flat]
        records += [one for one in found if one.state is state]
    return Page(tuple(records), encode(queue, state, page[-1][0]) if more else None)


def _place_of(state: JobState, job_id: str, said: str) -> Place:
    if state not in IN_STREAMS:
        return int(said), job_id
    return int(said.startswith("again:")), said.removeprefix("again:")


def _rank(state: JobState, place: Place) -> tuple[Any, ...]:
    """Return what places are ordered by. Of two entries with the same id the one that comes again is first."""
    first, second = place
    if state not in IN_STREAMS:
        return place
    at, _, number = second.partition("-")
    return int(at), int(number), first


def _place(cursor: str, queue: str, state: JobState) -> Place:
    first, second = decode(cursor, queue, state, str)
    known = ENTRY.fullmatch(second) and second.strip("0-") if state in IN_STREAMS else NAME.fullmatch(second)
    if not known:
        raise CursorInvalid("this is not a page cursor; start from the first page")
    return first, second
