"""What is remembered of people, in the tables: nothing is lost between two who write at once, nor what somebody added."""

import asyncio

import numpy as np
import pytest
from consumers.knowledge.bases.tenants import register_tenant
from consumers.knowledge.memory import turns
from consumers.knowledge.memory.reading import segments
from consumers.knowledge.memory.remembering import Noted
from consumers.knowledge.memory.settings import change_settings, settings_of
from consumers.knowledge.memory.storing import Said, Who, hold, items_of, remember, subject_of, switch
from consumers.knowledge.memory.turns import Message, Then
from contracts.knowledge import EXTRACTIVE
from contracts.memory import ADDED, MemoryKind, TurnRole, WriteMode

from tests.support.library import open_library

ANNA = Who(7, "anna")


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        await opened.do(register_tenant, 7)
        yield opened


def said(text: str, method: str, *, only: bool = False) -> Said:
    vector = np.asarray([1, 0, 0, 0], np.float32)
    return Said(Noted(MemoryKind.FACT, "home", text, only), vector, "m", method)


async def kept(library, *things: Said) -> list[tuple[str, str]]:
    async def step(session):
        await hold(session, ANNA)
        await remember(session, ANNA, things, 10)

    await library.do(step)
    return [(one.text, one.method) for one in await library.look(items_of, ANNA)]


async def test_settings_that_are_changed_at_once_are_all_changed(library):
    wanted = {
        "enabled": True,
        "write_mode": WriteMode.AUTO,
        "delay_s": 7,
        "min_interval_s": 8,
        "items": 9,
    }
    await asyncio.gather(*(library.do(change_settings, 7, {name: value}) for name, value in wanted.items()))
    assert (await library.look(settings_of, 7)).model_dump() == wanted


async def test_what_was_read_does_not_take_the_place_of_what_somebody_added(library):
    added = [("I live in Berlin.", ADDED)]
    assert await kept(library, said("I live in Berlin.", ADDED)) == added
    assert await kept(library, said("Well, I live in Berlin.", EXTRACTIVE)) == added
    newer = [("I moved to Paris.", EXTRACTIVE)]
    assert await kept(library, said("I moved to Paris.", EXTRACTIVE, only=True)) == newer


async def turn(library, ident: str) -> Then:
    then: Then
    _, then = await library.do(turns.add_message, ANNA, Message("s", TurnRole.ASSISTANT, "I see.", ident))
    return then


async def test_a_run_that_finds_memory_switched_off_keeps_no_later_turn_waiting(library):
    await library.do(change_settings, 7, {"enabled": True, "write_mode": "auto"})
    assert await turn(library, "1") is Then.SCHEDULED
    job_id = (await library.look(subject_of, ANNA)).extract_job
    run = await library.do(turns.begin, ANNA, job_id)
    (stretch,), _ = segments(await library.look(turns.unread, run), run.cursor)
    await library.do(switch, ANNA, on=False)
    assert not await library.do(turns.store_read, run, stretch, ())
    await library.do(switch, ANNA, on=True)
    assert await turn(library, "2") is Then.SCHEDULED
