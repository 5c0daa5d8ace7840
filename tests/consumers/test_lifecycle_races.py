"""Several people and workers at one document at once, and removals killed at any statement: on one writer and on many."""

import asyncio
import random

import pytest
from consumers.knowledge.documents.lifecycle import cancel_parse, delete, reparse
from consumers.knowledge.documents.slots import finish_slot

from tests.support.library import open_library
from tests.support.library_work import handle, killed_at, surviving, work

STRIDE = 4
ROUNDS = 12
ENDED = {"completed", "failed", "cancelled"}


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


async def test_a_removal_killed_at_any_statement_is_finished_by_the_next_worker(tmp_path):
    async with open_library(tmp_path / "whole") as library:
        empty = await library.contents()
        await library.register("/a.txt", "ducks")
        await work(library)
        [(ident,)] = await library.rows("SELECT id FROM knowledges")
        with killed_at(0) as statements:
            await library.stop(delete, [ident])
            await work(library)
        left = await library.contents()
        assert {name for name in left if left[name] != empty[name]} <= {"tags", "search_versions"}
    for number in range(1, len(statements), STRIDE):
        async with open_library(tmp_path / str(number)) as library:
            await library.register("/a.txt", "ducks")
            await work(library)
            [(ident,)] = await library.rows("SELECT id FROM knowledges")
            with killed_at(number) as ran:
                await surviving(library, library.stop, delete, [ident])
                await work(library)
            assert len(ran) > number, "it was killed, and went on"
            ended = await library.contents()
            different = {name for name in left if ended[name] != left[name]} - {"search_versions"}
            assert not different, f"killed before statement {number}"


async def at_once(library, chance):
    """Let people and workers do at once, in any order, what they may do to the document there is."""
    [(ident, attempt)] = await library.rows("SELECT id, attempt FROM knowledges") or [("nobody", 1)]
    slots = [slot for (slot,) in await library.rows("SELECT id FROM slots")]
    waiting = list(library.queue.waiting.items())
    acts = [
        library.stop(cancel_parse, ident),
        library.stop(reparse, ident),
        library.register("/a.txt", chance.choice(["ducks", "geese"])),
        *(library.do(finish_slot, slot, ident, attempt) for slot in slots[:3]),
        *(handle(library, job_id, job) for job_id, job in waiting[:4]),
    ]
    if chance.random() < 0.3:
        acts.append(library.stop(delete, [ident]))
    chance.shuffle(acts)
    await asyncio.gather(*acts)


async def test_whoever_acts_at_once_leaves_a_document_that_ends(library):
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        await library.register("/a.txt", "ducks")
        await at_once(library, chance)
        if chance.random() < 0.5:
            await work(library)
    await work(library)
    stands = await library.rows("SELECT parse_status, attempt, parsed_attempt FROM knowledges")
    assert {status for status, *_ in stands} <= ENDED, seed
    assert await library.rows("SELECT id FROM slots") == [], seed
    assert await library.rows("SELECT id FROM outbox") == [], seed
    chunks = {attempt for (attempt,) in await library.rows("SELECT attempt FROM chunks")}
    assert chunks <= {parsed for _, _, parsed in stands}, seed
