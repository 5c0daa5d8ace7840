"""A base embedded anew: the old index serves until the new one is whole, whatever happens meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from consumers.handlers import reembed as handlers
from consumers.handlers.reembed import reembed, reembed_lost
from consumers.knowledge.embedding.hashing import HashingEmbedder
from consumers.knowledge.long_work import tasks
from consumers.knowledge.long_work.store_work import UnderWay
from consumers.knowledge.search.sides import held
from consumers.knowledge.upkeep import reembedding
from consumers.ks import HANDLERS
from contracts.knowledge import DocumentEffect
from contracts.outcomes import Skip, Snooze
from contracts.payloads.knowledge import StoreReembed
from contracts.states import ArchiveReason
from contracts.tasks import TaskStatus
from pipeline.errors import NotAllowed
from pipeline.testing import assert_enqueued, drain

from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.library import Killed
from tests.support.shelves import ANIMALS, DIMENSION, MODEL, TENANT, Shelf, open_shelf
from tests.support.waiting import wait_until

NEW = 96


@pytest.fixture
async def shelf(database_url, tmp_path) -> AsyncIterator[Shelf]:
    async with open_shelf(database_url, tmp_path / "data") as opened:
        for name in ("one", "two", "three"):
            await opened.write(name, *(f"{words} Said by {name}." for words in ANIMALS))
        yield opened


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as opened:
        yield opened


async def asked(shelf: Shelf, dimension: int = NEW, model: str = MODEL, **how: Any) -> StoreReembed:
    embedders, kb_id = shelf.services.embedders, shelf.kb.id
    task_id = await shelf.do(reembedding.ask_for, embedders, kb_id, model, dimension, **how)
    return await assert_enqueued(shelf.pipeline, StoreReembed, task_id=task_id)


async def test_all_is_embedded_anew_and_found_as_before_and_the_old_vectors_go(shelf):
    before = await found(shelf)
    job = await asked(shelf)
    await drain(shelf.pipeline, HANDLERS, services=shelf.services)
    base, task = await shelf.base(), await shelf.task(job.task_id)
    assert (base.embedding_dimension, base.index_generation) == (NEW, 1)
    assert (task.status, task.processed, task.total, task.failed) == (TaskStatus.COMPLETED, 18, 18, 0)
    assert await shelf.generations() == {1: 18}
    assert await found(shelf) == before
    assert len(before) > 1


async def found(shelf: Shelf) -> list[str]:
    """What fits, in no order: these passages differ in a word that nobody asked for."""
    return sorted(hit.text for hit in (await shelf.find("otters asleep")).passages)


async def test_what_is_embedded_anew_is_what_was_embedded(shelf):
    """With the same model again, every vector is the one that parsing made."""
    vectors = "SELECT id, vector FROM search_vectors ORDER BY id"
    before = await shelf.rows(vectors)
    job = await asked(shelf, DIMENSION, again=True)
    await reembed(job, shelf.context())
    after = await shelf.rows(vectors)
    for (ident, one), (same, other) in zip(before, after, strict=True):
        assert ident == same
        assert np.allclose(read(one), read(other), atol=1e-6)


def read(vector: Any) -> Any:
    if isinstance(vector, bytes):
        return np.frombuffer(vector, "<f4")
    return np.array([float(number) for number in str(vector).strip("[]").split(",")])


async def test_a_base_without_vectors_gets_the_model_at_once(database_url, tmp_path):
    async with open_shelf(database_url, tmp_path / "data") as shelf:
        await reembed(await asked(shelf), shelf.context())
        assert (await shelf.base()).embedding_dimension == NEW
        await shelf.write("one", *ANIMALS)
        assert await shelf.generations() == {1: 6}


async def test_run_twice_it_comes_to_the_same(shelf):
    job = await asked(shelf)
    await reembed(job, shelf.context())
    once = await shelf.rows("SELECT id, generation FROM search_vectors ORDER BY id")
    await reembed(job, shelf.context())
    assert await shelf.rows("SELECT id, generation FROM search_vectors ORDER BY id") == once
    assert (await shelf.task(job.task_id)).status is TaskStatus.COMPLETED


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """How many texts each call embedded; the page is small, so that there are many."""
    calls: list[int] = []
    embed = HashingEmbedder.embed

    async def counting(self: HashingEmbedder, texts: Any) -> Any:
        calls.append(len(texts))
        return await embed(self, texts)

    monkeypatch.setattr(handlers, "PAGE", 4)
    monkeypatch.setattr(HashingEmbedder, "embed", counting)
    return calls


@pytest.mark.parametrize("step", range(1, 6))
async def test_killed_after_any_batch_it_goes_on_from_there_and_the_old_index_serves_meanwhile(
    shelf, counted, monkeypatch, step
):
    job = await asked(shelf)
    store, left = handlers._Work._store, iter(range(step))

    async def dying(self: Any, *args: Any) -> None:
        if next(left, None) is None:
            raise Killed
        await store(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(handlers._Work, "_store", dying)
        with suppress(Killed):
            await reembed(job, shelf.context())
    done = (await shelf.generations()).get(1, 0)
    assert (await shelf.base()).index_generation == (1 if step > 4 else 0)
    assert "Otters" in (await shelf.find("otters asleep")).passages[0].text
    counted.clear()
    await reembed(job, shelf.context())
    assert sum(counted) == 18 - done
    assert await shelf.generations() == {1: 18}


async def test_killed_while_old_vectors_are_removed_the_rest_goes_when_it_runs_again(shelf, monkeypatch):
    job = await asked(shelf)
    monkeypatch.setattr(reembedding, "DROPPED", 5)
    drop, left = reembedding.drop_left_over, iter(range(2))

    async def dying(*args: Any) -> int:
        if next(left, None) is None:
            raise Killed
        return await drop(*args)

    with monkeypatch.context() as patched:
        patched.setattr(reembedding, "drop_left_over", dying)
        with suppress(Killed):
            await reembed(job, shelf.context())
    assert await shelf.generations() == {0: 8, 1: 18}
    assert "Otters" in (await shelf.find("otters asleep")).passages[0].text
    await reembed(job, shelf.context())
    assert await shelf.generations() == {1: 18}


async def test_what_is_written_meanwhile_is_caught_up_with_before_the_swap(shelf, counted, monkeypatch):
    job = await asked(shelf)
    embedded, written = handlers._Work._embedded, iter(("four", "five"))

    async def beside(self: Any, texts: Any) -> Any:
        made = await embedded(self, texts)
        if name := next(written, None):
            await shelf.write(name, *ANIMALS)
        return made

    monkeypatch.setattr(handlers._Work, "_embedded", beside)
    await reembed(job, shelf.context())
    assert await shelf.generations() == {1: 30}


async def test_a_passage_that_says_something_else_by_now_keeps_no_vector_of_what_it_said(shelf, monkeypatch):
    job = await asked(shelf)
    embedded, index = handlers._Work._embedded, shelf.services.search
    changed: list[str] = []

    async def rewritten(self: Any, texts: Any) -> Any:
        made = await embedded(self, texts)
        if not changed:
            side = await shelf.services.side(shelf.kb.id)
            async with shelf.services.outbox.transaction() as sql:
                (first, *_) = await index.read(sql, shelf.kb.id, 0, after="", limit=1)
                changed.append(first.id)
                (vector,) = await side.embedder.embed(["Whales sing."])
                await index.put(sql, [replace(first, text="Whales sing.", vector=vector)])
        return made

    monkeypatch.setattr(handlers._Work, "_embedded", rewritten)
    await reembed(job, shelf.context())
    async with shelf.services.database.read() as sql:
        (first, *_) = await index.read(sql, shelf.kb.id, 1, after="", limit=1)
    assert first.id == changed[0]
    assert first.text == "Whales sing."
    assert first.vector is not None
    assert await shelf.generations() == {1: 18}


async def test_a_document_that_began_before_the_swap_and_ends_after_it_begins_again(shelf):
    side = await shelf.services.side(shelf.kb.id)
    job = await asked(shelf)
    await reembed(job, shelf.context())
    assert not await shelf.do(held, side)
    assert await shelf.do(held, await shelf.services.side(shelf.kb.id))


async def test_a_cancel_keeps_the_old_index_serving_and_removes_the_new_one(shelf, counted, monkeypatch):
    job = await asked(shelf)
    embedded = handlers._Work._embedded

    async def cancelling(self: Any, texts: Any) -> Any:
        if len(counted) == 2:
            cut = await shelf.services.outbox.choose_cut()
            assert await shelf.do(tasks.cancel, TENANT, job.task_id, cut) is DocumentEffect.DONE
        return await embedded(self, texts)

    monkeypatch.setattr(handlers._Work, "_embedded", cancelling)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(handlers, "_drop", drop_nothing)  # as if the process had been killed by the cancel
        await reembed(job, shelf.context())
    assert await shelf.generations() == {0: 18, 1: 8}
    await drain(shelf.pipeline, HANDLERS, services=shelf.services)
    assert await shelf.generations() == {0: 18}
    assert ((await shelf.base()).index_generation, (await shelf.task(job.task_id)).status) == (0, "cancelled")
    assert "Otters" in (await shelf.find("otters asleep")).passages[0].text
    await reembed(await asked(shelf), shelf.context())
    assert await shelf.generations() == {2: 18}, "the number of a generation is given once"


async def drop_nothing(*_: Any) -> None:
    """Do nothing."""


async def test_after_the_swap_it_is_too_late_to_cancel(shelf):
    job = await asked(shelf)
    await reembed(job, shelf.context())
    cut = await shelf.services.outbox.choose_cut()
    assert await shelf.do(tasks.cancel, TENANT, job.task_id, cut) is DocumentEffect.REFUSED


async def test_of_two_at_once_the_second_is_told_of_the_first(shelf):
    job = await asked(shelf)
    with pytest.raises(UnderWay, match=job.task_id):
        await asked(shelf, 32)
    with pytest.raises(NotAllowed, match="already"):
        await asked(shelf, DIMENSION)


async def test_searches_meanwhile_are_all_answered_by_one_whole_index(shelf, counted):
    """Each finds what it would have found before: never nothing, never by words alone."""
    job = await asked(shelf)
    wanted = [hit.text for hit in (await shelf.find("a heron and its frogs")).passages][:3]
    running = asyncio.create_task(reembed(job, shelf.context()))
    answers = 0
    while not running.done() or answers < 3:
        found = await shelf.find("a heron and its frogs")
        assert found.notice == ""
        assert sorted(hit.text for hit in found.passages[:3]) == sorted(wanted)
        answers += 1
    await running


async def test_a_service_that_is_away_is_waited_for_and_then_it_goes_on(database_url, tmp_path, server):
    server.models["large"] = NEW
    async with open_shelf(database_url, tmp_path / "data", **server.settings()) as shelf:
        await shelf.write("one", *ANIMALS)
        job = await asked(shelf, NEW, "large")
        server.down = True
        with pytest.raises(Snooze) as told:
            await reembed(job, shelf.context())
        assert told.value.delay == handlers.AWAY_S
        assert "waits:" in (await shelf.task(job.task_id)).message
        assert "words alone" in (await shelf.find("otters asleep")).notice
        assert "Otters" in (await shelf.find("otters asleep")).passages[0].text
        server.down = False
        server.faults.append((429, {"retry-after": "0.3"}, "slow down"))
        with pytest.raises(Snooze) as told:
            await reembed(job, shelf.context())
        assert told.value.delay == 0.3
        server.models.pop("small")

        async def through() -> bool:
            try:
                await reembed(job, shelf.context())
            except Snooze:
                return False
            return True

        await wait_until(through, describe="the service is called again")
        assert (await shelf.base()).embedding_model == "large"
        assert (await shelf.find("otters asleep")).notice == ""


async def test_a_text_that_the_model_refuses_is_found_by_its_words_and_counted(
    database_url, tmp_path, server
):
    server.refuses = "octopus"
    async with open_shelf(database_url, tmp_path / "data", **server.settings()) as shelf:
        server.refuses = ""
        await shelf.write("one", *ANIMALS)
        server.refuses = "octopus"
        job = await asked(shelf, 256, "large")
        await reembed(job, shelf.context())
        task = await shelf.task(job.task_id)
        assert (task.status, task.failed) == (TaskStatus.COMPLETED, 1)
        assert "octopus" in (await shelf.find("octopus jars")).passages[0].text


async def test_a_model_that_nobody_has_fails_the_task_and_changes_nothing(database_url, tmp_path, server):
    async with open_shelf(database_url, tmp_path / "data", **server.settings()) as shelf:
        await shelf.write("one", *ANIMALS)
        job = await asked(shelf, 8, "unheard-of")
        with pytest.raises(Skip):
            await reembed(job, shelf.context())
        task = await shelf.task(job.task_id)
        assert task.status is TaskStatus.FAILED
        assert "is 'unheard-of' a model" in task.error
        assert await shelf.generations() == {0: 6}


async def test_a_job_that_died_fails_its_task_and_what_it_made_is_removed(shelf, counted, monkeypatch):
    job = await asked(shelf)
    letter: Any = type("Letter", (), {"reason": ArchiveReason.EXHAUSTED, "error": "boom"})()

    async def boom(*_: Any) -> bool:
        raise RuntimeError("boom")

    with monkeypatch.context() as patched:
        patched.setattr(reembedding, "swap", boom)
        with pytest.raises(RuntimeError):
            await reembed(job, shelf.context())
    await reembed_lost(job, letter, shelf.services)
    assert await shelf.generations() == {0: 18}
    assert "exhausted retries: boom" in (await shelf.task(job.task_id)).error


async def test_a_job_without_a_task_says_so(shelf):
    job = StoreReembed(tenant_id=7, knowledge_base_id=shelf.kb.id, task_id="none", model=MODEL, dimension=8)
    with pytest.raises(Skip, match="there is no task none"):
        await reembed(job, shelf.context())
