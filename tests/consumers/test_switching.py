"""A stage of a base is switched off while its documents wait for it."""

import pytest
from consumers.knowledge.documents.contents import store_parsed
from consumers.knowledge.documents.documents import begin_processing
from consumers.knowledge.documents.slots import begin_finalizing, finish_slot
from consumers.knowledge.progress.fates import fates
from consumers.knowledge.upkeep.switching import change, release
from contracts.knowledge import ParseStatus, SlotKind
from contracts.payloads.documents import KnowledgePostProcess
from contracts.payloads.enrichment import ChunkExtract

from tests.support.library import children, open_library, parsed


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


async def switch_off(library, *stages):
    named = await library.do(change, library.kb, dict.fromkeys(stages, False))
    assert named == list(stages)
    return await release(library.outbox, library.kb.id, named)


async def finalizing(library, source="/a.txt", parts=2, kept=slice(None)):
    found = await library.register(source, source)
    place = found.knowledge_id, found.attempt
    await library.do(begin_processing, *place)
    await library.do(store_parsed, library.index, *place, parsed("a swan swims", "a crow flies"))
    await library.do(begin_finalizing, *place, children(library, *place, parts)[kept])
    return place


async def test_documents_that_waited_for_it_alone_are_complete(library):
    only_graph = await finalizing(library, "/a.txt", kept=slice(1, 3))
    more = await finalizing(library, "/b.txt")
    assert await switch_off(library, "extract_graph") == 2
    assert await library.status(only_graph[0]) is ParseStatus.COMPLETED
    assert await library.status(more[0]) is ParseStatus.FINALIZING
    assert await library.rows("SELECT kind FROM slots") == [(SlotKind.SUMMARY,)]
    left = {job.spec.type for job in library.queue.waiting.values()}
    assert "chunk:extract" not in left
    assert "summary:generation" in left


async def test_a_job_that_runs_all_the_same_finds_its_slot_closed(library):
    place = await finalizing(library, kept=slice(1, 3))
    (first, *_) = children(library, *place)[1:]
    await switch_off(library, "extract_graph")
    assert not (await library.do(finish_slot, first.id, *place)).ours
    assert await library.status(place[0]) is ParseStatus.COMPLETED


async def test_pictures_that_nobody_reads_any_more_are_said_and_the_rest_goes_on(library):
    found = await library.register()
    place = found.knowledge_id, found.attempt
    await library.do(begin_processing, *place)
    await library.do(store_parsed, library.index, *place, parsed("a swan swims", pictures=3))
    assert await switch_off(library, "read_pictures") == 1
    jobs = list(library.queue.waiting.values())
    assert [type(job) for job in jobs if job.spec.queue != "default"] == [KnowledgePostProcess]
    fate = (await library.look(fates, [place[0]]))[place[0]]
    assert fate.warnings == ("3 pictures were not read: its knowledge base was set not to read pictures",)


async def test_what_was_switched_off_and_on_again_serves_who_comes_later(library):
    """Their jobs are children of roots that are older than the cancel: no fence may lie over the whole base."""
    await finalizing(library, "/a.txt")
    early = await library.register("/b.txt", "two")
    await switch_off(library, "extract_graph")
    await library.do(change, library.kb, {"extract_graph": True})
    place = early.knowledge_id, early.attempt
    await library.do(begin_processing, *place)
    await library.do(store_parsed, library.index, *place, parsed("a swan swims", "a crow flies"))
    await library.do(begin_finalizing, *place, children(library, *place))
    waiting = [job for job in library.queue.waiting.values() if isinstance(job, ChunkExtract)]
    assert [job.knowledge_id for job in waiting] == [place[0]] * 2
    assert {scope.kind for scope in library.queue.cuts} == {"knowledge"}


async def test_many_documents_are_released_in_several_transactions(library, monkeypatch):
    monkeypatch.setattr("consumers.knowledge.upkeep.switching.TOGETHER", 2)
    places = [await finalizing(library, f"/{n}.txt", kept=slice(1, 3)) for n in range(5)]
    assert await switch_off(library, "extract_graph") == 5
    assert {await library.status(ident) for ident, _ in places} == {ParseStatus.COMPLETED}


async def test_a_stage_that_was_off_has_nothing_to_release(library):
    await library.do(change, library.kb, {"extract_graph": False})
    assert await library.do(change, library.kb, {"extract_graph": False, "auto_tag": True}) == []


async def test_a_queue_that_is_away_is_told_later(library):
    place = await finalizing(library, kept=slice(1, 3))
    named = await library.do(change, library.kb, {"extract_graph": False})
    library.queue.away = True
    await release(library.outbox, library.kb.id, named)
    assert await library.status(place[0]) is ParseStatus.COMPLETED
    library.queue.away = False
    await library.outbox.relay(older_than_ms=0)
    assert not [job for job in library.queue.waiting.values() if isinstance(job, ChunkExtract)]
