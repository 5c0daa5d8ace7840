"""Page cursors: opaque, and of no use where they do not belong."""

import base64
import json

import pytest
from contracts.states import JobState
from pipeline import cursors
from pipeline.errors import CursorExpired, CursorInvalid

PLACE = (12, 2**62)


def made(*fields: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def test_a_cursor_says_where_its_page_ended() -> None:
    cursor = cursors.encode("default", JobState.PENDING, PLACE)
    assert cursors.decode(cursor, "default", JobState.PENDING, int) == PLACE


def test_a_place_may_end_with_a_name() -> None:
    cursor = cursors.encode("default", JobState.PENDING, (12, "job-1"))
    assert cursors.decode(cursor, "default", JobState.PENDING, str) == (12, "job-1")
    with pytest.raises(CursorInvalid):
        cursors.decode(cursor, "default", JobState.PENDING, int)


@pytest.mark.parametrize(("queue", "state"), [("low", JobState.PENDING), ("default", JobState.ARCHIVED)])
def test_a_cursor_of_another_listing_is_refused(queue: str, state: JobState) -> None:
    cursor = cursors.encode("default", JobState.PENDING, PLACE)
    with pytest.raises(CursorInvalid, match="is for pending jobs of default"):
        cursors.decode(cursor, queue, state, int)


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "!",
        "no cursor",
        "é",
        made(),
        made("1"),
        made(cursors.VERSION),
        made(cursors.VERSION, "default", "pending", "1", 2),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        made(cursors.VERSION, "default", "pending", 1, 2, 3),
        "MQ",
        made(cursors.VERSION, "default", "pending", 2**63, 1),
        made(cursors.VERSION, "default", "pending", 1, -(2**63) - 1),
        base64.urlsafe_b64encode(b"[" * 9_000).decode(),
    ],
)
def test_what_was_made_by_hand_is_refused(cursor: str) -> None:
    with pytest.raises((CursorInvalid, CursorExpired), match="start from the first page"):
        cursors.decode(cursor, "default", JobState.PENDING, int)


def test_a_cursor_of_another_version_has_expired() -> None:
    with pytest.raises(CursorExpired, match="another version"):
        cursors.decode(made(cursors.VERSION + 1, "default", "pending", 1), "default", JobState.PENDING, int)
