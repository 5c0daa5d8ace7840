"""What is generated in the documentation says what the code says."""

from contracts.states import TRANSITIONS, JobState
from docs import state_diagram


def test_the_state_diagram_is_current() -> None:
    text = state_diagram.PAGE.read_text("utf-8")
    assert state_diagram.BLOCK.search(text)
    assert text == state_diagram.page(text), "run: just docs"


def test_the_diagram_shows_every_state_and_every_move() -> None:
    drawn = state_diagram.render(TRANSITIONS)
    assert [state for state in JobState if f"| {state} |" not in drawn] == []
    assert all(f"`{move.by}` | {move.note}" in drawn for move in TRANSITIONS)


def test_a_move_that_is_not_drawn_makes_the_page_stale() -> None:
    text = state_diagram.PAGE.read_text("utf-8")
    forgotten = state_diagram.BLOCK.sub(lambda _: state_diagram.render(TRANSITIONS[1:]), text)
    assert forgotten != state_diagram.page(forgotten)
