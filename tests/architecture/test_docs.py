"""What is generated in the documentation says what the code says."""

from dataclasses import replace

import pytest
from consumers.lanes import HANDLERS
from contracts.states import TRANSITIONS, JobState
from docs import job_types, states
from docs.generated import BLOCKS, Block


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_what_is_generated_is_current(block: Block) -> None:
    text = block.page.read_text("utf-8")
    assert text == block.renewed(text), "run: just docs"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_page_without_its_block_is_refused(block: Block) -> None:
    text = block.page.read_text("utf-8")
    with pytest.raises(ValueError, match="has 0 blocks named"):
        replace(block, name="none").renewed(text)


def test_the_diagram_shows_every_state_and_every_move() -> None:
    drawn = states.render(TRANSITIONS)
    assert [state for state in JobState if f"| {state} |" not in drawn] == []
    assert all(f"`{move.by}` | {move.note}" in drawn for move in TRANSITIONS)


def test_a_move_that_is_not_drawn_makes_the_page_stale() -> None:
    (block,) = (one for one in BLOCKS if one.name == "states")
    forgotten = replace(block, render=lambda: states.render(TRANSITIONS[1:])).renewed(
        block.page.read_text("utf-8")
    )
    assert forgotten != block.renewed(forgotten)


def test_every_type_that_has_a_handler_has_a_row_that_says_what_it_does() -> None:
    rows = job_types.render(handler.payload for handler in HANDLERS).splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == sorted(handler.payload.spec.type for handler in HANDLERS)
    assert all(len(row.split(" | ")[1]) > 20 for row in rows)
