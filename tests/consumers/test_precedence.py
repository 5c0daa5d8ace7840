"""Questions go first, and long work goes on all the same."""

import asyncio

import pytest
from consumers.handlers.reembed import reembed
from consumers.knowledge.answers import asking
from consumers.knowledge.search import precedence
from consumers.knowledge.search.aiming import aim_at
from consumers.knowledge.search.precedence import Precedence
from consumers.knowledge.upkeep import reembedding
from contracts.payloads.knowledge import StoreReembed
from contracts.tasks import TaskStatus
from pipeline.testing import assert_enqueued

from tests.support.shelves import ANIMALS, MODEL, open_shelf
from tests.support.waiting import stays_true, wait_until


@pytest.fixture
def patient(monkeypatch):
    """Work that waits for questions as long as it takes."""
    monkeypatch.setattr(precedence, "LONGEST_S", 60)


async def test_work_goes_on_at_once_where_nobody_asks():
    await asyncio.wait_for(Precedence().give_way(), 0.1)


async def test_work_waits_until_the_last_question_is_answered(patient):
    asked = Precedence()
    with asked.question():
        with asked.question():
            work = asyncio.create_task(asked.give_way())
        await stays_true(lambda: not work.done(), describe="the work waits", during=0.1)
    await asyncio.wait_for(work, 1)


async def test_a_question_that_failed_keeps_no_work_waiting(patient):
    asked = Precedence()
    with pytest.raises(ZeroDivisionError), asked.question():
        raise ZeroDivisionError
    await asyncio.wait_for(asked.give_way(), 1)


async def test_work_goes_on_however_many_ask(monkeypatch):
    monkeypatch.setattr(precedence, "LONGEST_S", 0.01)
    asked = Precedence()
    with asked.question():
        await asyncio.wait_for(asked.give_way(), 5)


@pytest.mark.parametrize("ask", ["search", "answer"])
async def test_nothing_is_embedded_anew_while_somebody_asks(
    ask, patient, monkeypatch, database_url, tmp_path
):
    async with open_shelf(database_url, tmp_path / "data") as shelf:
        await shelf.write("one", *ANIMALS)
        embedders = shelf.services.embedders
        task_id = await shelf.do(reembedding.ask_for, embedders, shelf.kb.id, MODEL, 96)
        job = await assert_enqueued(shelf.pipeline, StoreReembed, task_id=task_id)
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def aim_late(*args):
            reached.set()
            await go_on.wait()
            return await aim_at(*args)

        monkeypatch.setattr(asking, "aim_at", aim_late)
        question = (
            shelf.find("otters asleep")
            if ask == "search"
            else asking.answer(shelf.services, shelf.kb, "otters asleep")
        )
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(question)
            await reached.wait()
            work = group.create_task(reembed(job, shelf.context()))
            await stays_true(lambda: not work.done(), describe="the work waits", during=0.3)
            assert set(await shelf.generations()) == {0}
            go_on.set()
            await wait_until(work.done, describe="the work is done")
        assert asked.result()
        assert (await shelf.task(task_id)).status is TaskStatus.COMPLETED
