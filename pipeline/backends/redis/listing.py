"""Jobs a page at a time, by keyset, so that deletes and inserts in between hide and repeat nothing.

A place in a stream is whether its entry comes again, and the entry's id; elsewhere the job's time, and its id.
"""

import re
from typing import Final

from contracts.identity import NAME
from contracts.states import JobState
from contracts.topology import home
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.records import fields, job_record
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.cursors import decode, encode
from pipeline.errors import CursorInvalid
from pipeline.records import JobRecord, Page, TaskFilter

ROUNDS: Final = 20
"""Scripts of one page, each of which looks at some hundred jobs: where a filter finds little, a page is short."""
IN_STREAMS: Final = frozenset({JobState.PENDING, JobState.ACTIVE})
ENTRY: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


async def tasks(
    server: Server,
    keys: Keys,
    queue: str,
    state: JobState,
    cursor: str | None,
    limit: int,
    match: TaskFilter,
) -> Page:
    """Return a page. Raises CursorInvalid, CursorExpired."""
    listed = script("list_entries" if state in IN_STREAMS else "list_waiting")
    scope = f"{match.scope.kind}|{match.scope.id}" if match.scope else ""
    first, second = _place(cursor, queue, state) if cursor else (0, "")
    records: list[JobRecord] = []
    for _ in range(ROUNDS):
        wanted = limit - len(records)
        over, first, second, found = await server.run(
            listed, keys.prefix(home(queue)), queue, state, wanted, first, second, match.type, scope, match.error
        )  # fmt: skip
        records += [job_record(fields(flat)) for flat in found]
        if over:
            return Page(tuple(records), None)
        if len(records) >= limit:
            break
    return Page(tuple(records), encode(queue, state, (int(first), second)))


def _place(cursor: str, queue: str, state: JobState) -> tuple[int, str]:
    first, second = decode(cursor, queue, state, str)
    known = ENTRY.fullmatch(second) and second.strip("0-") if state in IN_STREAMS else NAME.fullmatch(second)
    if not known:
        raise CursorInvalid("this is not a page cursor; start from the first page")
    return first, second
