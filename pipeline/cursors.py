"""Where a page ended: opaque to callers, bound to a queue and a state, and of this version."""

import base64
import binascii
import json
from typing import Final, TypeVar

from contracts.states import JobState
from pipeline.errors import CursorExpired, CursorInvalid

VERSION: Final = 1

Place = tuple[int, int] | tuple[int, str]
"""The sort key of the last job of a page: a time or a rank, then a number or a name, as the backend sorts."""

T = TypeVar("T", int, str)

LARGEST: Final = 2**63 - 1


def encode(queue: str, state: JobState, place: Place) -> str:
    """Return a cursor."""
    text = json.dumps([VERSION, queue, state, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(cursor: str, queue: str, state: JobState, kind: type[T]) -> tuple[int, T]:
    """Read a cursor; `kind` is what the second part of a place is. Raises CursorInvalid, CursorExpired."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        fields = json.loads(raw)
        version = fields[0]
    except (binascii.Error, ValueError, TypeError, LookupError, RecursionError):
        raise CursorInvalid("this is not a page cursor; start from the first page") from None
    if version != VERSION:
        raise CursorExpired("this page cursor is of another version; start from the first page")
    match fields:
        case [_, str(of_queue), str(of_state), int(first), second] if (
            isinstance(second, kind) and _fits(first) and _fits(second)
        ):
            if (of_queue, of_state) == (queue, state):
                return first, second
            raise CursorInvalid(
                f"this page cursor is for {of_state} jobs of {of_queue}, not {state} of {queue}"
            )
        case _:
            raise CursorInvalid("this is not a page cursor; start from the first page")


def _fits(part: int | str) -> bool:
    """Whether a store can keep it: no place is a larger number."""
    return isinstance(part, str) or -LARGEST <= part <= LARGEST
