"""Documents that got stuck are put into order, and none that moves, waits or cannot be told of is touched."""

import asyncio
import re
from contextlib import ExitStack

import pytest
from consumers.knowledge import ids
from consumers.knowledge.bases.pending import add_if_active
from consumers.knowledge.documents.contents import store_parsed
from consumers.knowledge.documents.slots import finish_slot
from consumers.knowledge.documents.verdicts import Why
from contracts.knowledge import OPEN, ParseStatus, Stage, SummaryStatus
from contracts.payloads.documents import KnowledgePostProcess
from contracts.payloads.wiki import WikiIngest
from pipeline.store import rows

from tests.support.hand import Hand
from tests.support.house import HOUR_S, LONG_S, PLACES, open_house
from tests.support.library import parsed

PENDING, PROCESSING, FINALIZING = ParseStatus.PENDING, ParseStatus.PROCESSING, ParseStatus.FINALIZING
UNDER_WAY = sorted(OPEN)


@pytest.fixture(params=PLACES)
async def house(request, tmp_path):
    async with open_house(tmp_path, request.param) as opened:
        yield opened


async def told(house, document):
    return (await house.library.document(document.id)).error_message


@pytest.mark.parametrize("status", [PENDING, PROCESSING])
async def test_a_document_whose_job_was_lost_is_failed_and_says_where_and_since_when(house, status):
    document = await house.document(status)
    await house.lose_jobs()
    await house.age()
    swept = await house.sweep()
    assert [(deed.document, deed.verdict) for deed in swept.deeds] == [(document.id, "fail")]
    assert await house.library.status(document.id) is ParseStatus.FAILED
    stage = " at docreader stage" if status is PROCESSING else ""
    message = await told(house, document)
    assert re.fullmatch(
        rf"task stuck in {status}{stage}: no progress since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(> 2h10m0s\),"
        r" recovered by housekeeping",
        message,
    )
    assert {(span[1], span[2]) for span in await house.spans(document)} == {("failed", "TASK_STALLED")}
    assert await house.library.rows("SELECT count(*) FROM slots") == [(0,)]
    again = await house.sweep()
    assert (again.deeds, again.deferred) == ([], {})
    assert await told(house, document) == message


async def test_the_timeline_of_a_stuck_document_has_its_stage_failed_and_its_parts_cancelled(house):
    document = await house.document(PROCESSING)
    await house.enter(document, Stage.EMBEDDING)
    for part in range(4):
        await house.open_part(document, Stage.EMBEDDING, f"embedding.batch[{part}]")
    await house.lose_jobs()
    await house.age()
    await house.sweep()
    stalled = "TASK_STALLED"
    assert await house.spans(document) == [
        ("docreader", "done", "", 1),
        ("embedding", "failed", stalled, 1),
        *[(f"embedding.batch[{part}]", "cancelled", stalled, 1) for part in range(4)],
        ("knowledge_processing", "failed", stalled, 1),
    ]
    assert " at embedding stage (embedding.batch[" in await told(house, document)
    assert ", ...): no progress since" in await told(house, document)


async def test_a_summary_that_was_open_fails_with_its_document(house):
    document = await house.document(PROCESSING)
    await house.set(document, summary_status=SummaryStatus.PROCESSING)
    await house.lose_jobs()
    await house.age()
    await house.sweep()
    assert (await house.library.document(document.id)).summary_status is SummaryStatus.FAILED


@pytest.mark.parametrize("status", UNDER_WAY)
async def test_tasks_that_are_still_queued_are_backpressure_and_not_stuck(house, status):
    document = await house.document(status)
    await house.age()
    swept = await house.sweep()
    assert (swept.deeds, dict(swept.deferred)) == ([], {Why.QUEUED: 1})
    assert swept.queued_ms >= LONG_S * 1000
    assert await house.library.status(document.id) is status


async def test_a_job_that_still_lies_in_the_outbox_counts_as_queued(house):
    with house.backend.faults.away():
        document = await house.document(PENDING)
    await house.age()
    assert dict((await house.sweep()).deferred) == {Why.QUEUED: 1}
    assert await house.library.status(document.id) is PENDING


async def test_a_job_that_runs_counts_as_queued_however_long_it_runs(house):
    document = await house.document(PENDING)
    await Hand(house.pipeline.broker).take_one()
    await house.age(100 * HOUR_S)
    assert dict((await house.sweep()).deferred) == {Why.QUEUED: 1}
    assert await house.library.status(document.id) is PENDING


async def test_a_fresh_span_protects_a_document_whose_row_is_old(house):
    document = await house.document(PROCESSING)
    await house.lose_jobs()
    await house.age()
    await house.open_part(document, Stage.DOCREADER, "docreader.page[1]")
    assert dict((await house.sweep()).deferred) == {Why.MOVED: 1}
    assert await house.library.status(document.id) is PROCESSING


async def test_a_death_whose_hook_is_yet_to_come_protects_its_document(house):
    document = await house.document(PENDING)
    await Hand(house.pipeline.broker).run(RuntimeError("no use"))
    while not await house.pipeline.broker.dead_letters(["default"], 1):
        hand = Hand(house.pipeline.broker)
        await hand.settle(await hand.take_when_due(), RuntimeError("no use"))
    await house.age()
    assert dict((await house.sweep()).deferred) == {Why.QUEUED: 1}
    assert await house.library.status(document.id) is PENDING


async def test_progress_that_is_made_while_it_is_looked_at_wins(house, monkeypatch):
    document = await house.document(PENDING)
    await house.lose_jobs()
    await house.age()
    keeper = house.pipeline.inspector
    asked = keeper.has_queued

    async def and_meanwhile(*args):
        answer = await asked(*args)
        await house.enter(document, Stage.CHUNKING)
        return answer

    monkeypatch.setattr(keeper, "has_queued", and_meanwhile)
    swept = await house.sweep()
    assert (swept.deeds, dict(swept.deferred)) == ([], {Why.MOVED: 1})
    assert await house.library.status(document.id) is PENDING


async def test_a_document_that_waits_for_the_wiki_is_held_and_the_wiki_told_once_a_threshold(house):
    library, document = house.library, await house.document(FINALIZING)
    await library.do(
        add_if_active, 7, library.kb.id, "wiki:ingest", "ingest", document.id, payload={"language": "de"}
    )
    await house.lose_jobs()
    await house.age(1000 * HOUR_S)
    for _ in range(3):
        swept = await house.sweep()
        assert (swept.deeds, dict(swept.deferred)) == ([], {Why.HELD: 1})
        assert await library.status(document.id) is FINALIZING
    (job,) = await house.waiting(WikiIngest)
    assert WikiIngest.decode(job.data) == WikiIngest(
        tenant_id=7, knowledge_base_id=library.kb.id, language="de"
    )
    hand = Hand(house.pipeline.broker)
    await hand.run(queue="wiki")
    assert (await house.sweep()).wikis == 0, "it was told within this threshold, and found nothing to do"
    assert not await house.waiting(WikiIngest)
    await house.age(LONG_S)
    assert (await house.sweep()).wikis == 1
    assert len(await house.waiting(WikiIngest)) == 1


async def test_a_document_whose_last_slot_was_lost_completes(house):
    library, document = house.library, await house.document(FINALIZING)
    await house.lose_jobs()
    await house.age()
    swept = await house.sweep()
    assert [deed.verdict for deed in swept.deeds] == ["go_on"]
    done = await library.document(document.id)
    assert (done.parse_status, done.summary_status) == (ParseStatus.COMPLETED, SummaryStatus.FAILED)
    assert done.warnings == [swept.deeds[0].message]
    assert done.warnings[0].startswith("left out: ")
    assert "2 parts of the graph" in done.warnings[0]
    assert await library.rows("SELECT count(*) FROM slots") == [(0,)]
    assert await library.rows("SELECT count(*) FROM search_entries") != [(0,)], "it is found as before"
    assert (await house.sweep()).deeds == []


async def test_a_document_whose_pictures_were_lost_goes_on_to_its_enrichments(house):
    library, document = house.library, await house.document(PROCESSING)
    place = document.id, document.attempt
    await library.do(store_parsed, library.index, *place, parsed("a", pictures=2))
    await library.do(finish_slot, ids.image_job(*place, 0), *place)
    await house.lose_jobs()
    await house.age()
    assert [deed.verdict for deed in (await house.sweep()).deeds] == ["go_on"]
    assert await library.rows("SELECT position, status, reason FROM images ORDER BY 1") == [
        (0, "pending", ""),
        (1, "failed", "its job was lost"),
    ]
    assert len(await house.waiting(KnowledgePostProcess)) == 1
    assert await library.status(document.id) is PROCESSING


async def test_a_post_processing_that_was_lost_is_asked_for_again(house):
    library, document = house.library, await house.document(PROCESSING)
    await library.do(store_parsed, library.index, document.id, document.attempt, parsed("a"))
    await house.lose_jobs()
    await house.age()
    assert [deed.verdict for deed in (await house.sweep()).deeds] == ["go_on"]
    assert len(await house.waiting(KnowledgePostProcess)) == 1


@pytest.mark.parametrize("status", [*UNDER_WAY, ParseStatus.DELETING])
async def test_an_outage_of_the_queue_never_fails_documents(house, status):
    document = await house.document(PENDING)
    await house.lose_jobs()
    await house.set(document, parse_status=status)
    await house.age(100 * HOUR_S)
    with house.backend.faults.away():
        swept = await house.looks()
    assert (swept.deeds, dict(swept.deferred)) == ([], {Why.UNKNOWN: 1})
    assert await house.library.status(document.id) is status


@pytest.mark.parametrize("asks", [1, 2])
async def test_an_outage_that_begins_while_it_is_asked_never_fails_a_document(house, asks, monkeypatch):
    library, document = house.library, await house.document(PROCESSING)
    await library.do(store_parsed, library.index, document.id, document.attempt, parsed("a"))
    await house.lose_jobs()
    await house.age()
    answers = house.pipeline.inspector.has_queued
    with ExitStack() as outage:

        async def and_then_it_is_away(*args):
            found = await answers(*args) if asks > 1 else None
            outage.enter_context(house.backend.faults.away())
            return await answers(*args) if asks == 1 else found

        monkeypatch.setattr(house.pipeline.inspector, "has_queued", and_then_it_is_away)
        swept = await house.looks()
    assert (swept.deeds, dict(swept.deferred)) == ([], {Why.UNKNOWN: 1})
    assert await library.status(document.id) is PROCESSING


async def test_what_would_be_done_is_told_and_not_done(house):
    document = await house.document(PENDING)
    await house.lose_jobs()
    await house.age()
    swept = await house.sweep(dry=True)
    assert [(deed.document, deed.verdict) for deed in swept.deeds] == [(document.id, "fail")]
    assert await house.library.status(document.id) is PENDING


async def test_many_documents_are_looked_at_some_at_a_time(house, monkeypatch):
    monkeypatch.setattr(rows, "BATCH", 2)
    documents = [await house.document(PENDING, f"doc{n}") for n in range(5)]
    await house.lose_jobs()
    await house.age()
    assert len((await house.sweep()).deeds) == 5
    for document in documents:
        assert await house.library.status(document.id) is ParseStatus.FAILED


async def test_two_sweeps_and_the_last_jobs_of_documents_at_once_end_each_document_once(house):
    library = house.library
    documents = [await house.document(FINALIZING, f"doc{n}") for n in range(12)]
    lost = [await house.document(PENDING, f"lost{n}") for n in range(6)]
    slots = await library.rows("SELECT id, knowledge_id, attempt FROM slots")
    await house.lose_jobs()
    await house.age()
    finishing = [library.do(finish_slot, *slot) for slot in slots[::2]]
    one, other, *_ = await asyncio.gather(house.looks(), house.looks(), *finishing)
    while await library.rows(
        "SELECT 1 FROM slots LIMIT 1"
    ):  # what moved meanwhile was left to the next sweep
        await house.age()
        await house.looks()
    failed = [deed.document for swept in (one, other) for deed in swept.deeds if deed.verdict == "fail"]
    assert sorted(failed) == sorted(document.id for document in lost)
    assert {await library.status(document.id) for document in documents} == {ParseStatus.COMPLETED}
    assert await library.rows("SELECT count(*) FROM knowledge_processing_spans WHERE status = 'running'") == [
        (0,)
    ]
