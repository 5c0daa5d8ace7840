"""What a person does to a document, and what comes of it: named after what users of other systems suffered."""

import pytest
from consumers.knowledge import ids
from consumers.knowledge.bases.pending import WIKI, add_if_active, lane_of
from consumers.knowledge.documents.contents import store_parsed
from consumers.knowledge.documents.documents import Begin, Entry, begin_processing, fail
from consumers.knowledge.documents.lifecycle import cancel_parse, delete, fail_delete, reparse
from consumers.knowledge.documents.slots import Finalizing, Finish, begin_finalizing, finish_slot
from consumers.knowledge.progress.overseeing import listed
from consumers.knowledge.progress.timeline import timeline
from consumers.knowledge.tables.spans import Span
from contracts.knowledge import OPEN, DocumentEffect, ParseStatus, SpanCode, SpanStatus
from contracts.payloads.documents import DocumentProcess
from contracts.payloads.maintenance import KnowledgeListDelete
from pipeline.store import pending_ops
from sqlalchemy import select

from tests.support.library import children, open_library, parsed
from tests.support.library_work import handle, work

DONE, ALREADY, REFUSED, NOT_FOUND = DocumentEffect


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


async def bring(library, status, source="/a.txt"):
    """A document in this state, on its first attempt."""
    found = await library.register(source)
    place = found.knowledge_id, 1
    if status is ParseStatus.FAILED:
        await library.do(fail, library.index, *place, "because")
    elif status is ParseStatus.CANCELLED:
        await library.stop(cancel_parse, place[0])
    elif status is ParseStatus.DELETING:
        await library.stop(delete, [place[0]])
    elif status is not ParseStatus.PENDING:
        await library.do(begin_processing, *place)
        if status is not ParseStatus.PROCESSING:
            await library.do(store_parsed, library.index, *place, parsed("ducks swim", "geese fly"))
            waits = children(library, *place) if status is ParseStatus.FINALIZING else []
            await library.do(begin_finalizing, *place, waits)
    assert await library.status(place[0]) is status
    return place[0]


@pytest.mark.parametrize("status", ParseStatus)
async def test_a_parse_is_stopped_where_it_is_under_way_and_nowhere_else(library, status):
    ident = await bring(library, status)
    before = await library.contents()
    [step] = [await library.stop(cancel_parse, ident)]
    assert step.effect is (
        DONE if status in OPEN else ALREADY if status is ParseStatus.CANCELLED else REFUSED
    )
    assert step.status is status
    if status in OPEN:
        assert await library.status(ident) is ParseStatus.CANCELLED
        assert await library.rows("SELECT id FROM slots") == []
        assert [job for job in library.queue.waiting.values() if not isinstance(job, KnowledgeListDelete)
                and job.spec.type != "knowledge:auto_tag"] == []  # fmt: skip
    else:
        assert await library.contents() == before


async def test_a_document_that_completed_meanwhile_is_not_cancelled(library):
    ident = await bring(library, ParseStatus.FINALIZING)
    for (slot,) in await library.rows("SELECT id FROM slots"):
        await library.do(finish_slot, slot, ident, 1)
    assert (await library.stop(cancel_parse, ident)).effect is REFUSED
    assert await library.status(ident) is ParseStatus.COMPLETED


async def test_what_was_written_before_a_cancel_stays(library):
    ident = await bring(library, ParseStatus.FINALIZING)
    await library.stop(cancel_parse, ident)
    assert len(await library.rows("SELECT id FROM chunks")) == 2


async def test_a_cancelled_parse_can_be_found_by_its_status(library):
    ident = await bring(library, ParseStatus.PENDING)
    await library.stop(cancel_parse, ident)
    async with library.database.read() as session:
        rows = await session.execute(listed(ParseStatus.CANCELLED, "", 7, None))
        assert [document.id for document, _ in rows] == [ident]


async def test_a_cancelled_document_has_no_open_spans_and_says_by_whom(library):
    ident = await bring(library, ParseStatus.PROCESSING)
    await library.stop(cancel_parse, ident)
    async with library.database.read() as session:
        spans = (await session.scalars(select(Span))).all()
    assert {span.status for span in spans} == {SpanStatus.CANCELLED}
    assert {span.error_code for span in spans} == {SpanCode.USER_CANCELLED}


@pytest.mark.parametrize("verb", [cancel_parse, reparse, delete])
async def test_another_tenants_document_is_as_one_that_is_not_there(library, verb):
    ident = await bring(library, ParseStatus.PROCESSING)
    before, cut = await library.contents(), await library.outbox.choose_cut()
    for tenant, named in ((8, ident), (7, "nobody")):
        found = await library.do(verb, tenant, [named] if verb is delete else named, cut)
        [step] = found if verb is delete else [found]
        assert step.effect is NOT_FOUND
    assert await library.contents() == before


@pytest.mark.parametrize("status", ParseStatus)
async def test_a_document_is_parsed_again_in_every_state_but_deleting(library, status):
    ident = await bring(library, status)
    step = await library.stop(reparse, ident)
    if status is ParseStatus.DELETING:
        assert step.effect is REFUSED
        return
    assert step.effect is DONE
    document = await library.document(ident)
    assert (document.parse_status, document.attempt, document.error_message) == (ParseStatus.PENDING, 2, "")
    job = library.queue.waiting[ids.process_job(ident, 2)]
    assert isinstance(job, DocumentProcess)
    assert (job.attempt, job.file_path, job.enable_multimodel) == (2, "one.txt", True)
    assert ids.process_job(ident, 1) not in library.queue.waiting
    await work(library)
    assert await library.status(ident) is ParseStatus.COMPLETED
    assert {attempt for (attempt,) in await library.rows("SELECT attempt FROM chunks")} == {2}


async def test_what_was_read_before_stays_findable_until_the_new_attempt_replaces_it(library):
    ident = await bring(library, ParseStatus.COMPLETED)
    await library.stop(reparse, ident)
    assert len(await library.rows("SELECT id FROM search_entries")) == 2


async def test_a_worker_of_the_old_attempt_sees_that_it_is_superseded(library):
    ident = await bring(library, ParseStatus.PROCESSING)
    await library.stop(reparse, ident)
    assert await library.do(begin_processing, ident, 1) is Begin.SUPERSEDED
    await library.do(store_parsed, library.index, ident, 1, parsed("late"))
    assert await library.rows("SELECT id FROM chunks") == []
    assert await library.status(ident) is ParseStatus.PENDING


async def test_the_spans_of_an_attempt_that_is_superseded_are_closed(library):
    ident = await bring(library, ParseStatus.PROCESSING)
    await library.stop(reparse, ident)
    told = await library.look(timeline, ident, 1)
    assert told.trace.status is SpanStatus.CANCELLED
    assert told.trace.error_code == SpanCode.TASK_SUPERSEDED
    assert told.current_stage is None


async def test_an_old_attempts_summary_does_not_touch_the_new_attempt(library):
    ident = await bring(library, ParseStatus.FINALIZING)
    late = dict(library.queue.waiting)
    await library.stop(reparse, ident)
    while library.queue.waiting:
        if not await library.rows("SELECT 1 FROM slots WHERE kind = 'summary'"):
            job_id, job = library.queue.waiting.popitem()
            await handle(library, job_id, job)
        else:
            break
    slots = await library.rows("SELECT id FROM slots ORDER BY 1")
    assert slots, "the new attempt waits"
    for job_id, job in late.items():
        await handle(library, job_id, job)
    assert await library.rows("SELECT id FROM slots ORDER BY 1") == slots
    assert (await library.document(ident)).summary == ""
    await work(library)
    assert await library.status(ident) is ParseStatus.COMPLETED


@pytest.mark.parametrize("status", [ParseStatus.FAILED, ParseStatus.CANCELLED, ParseStatus.DELETING])
async def test_post_processing_starts_nothing_for_a_failed_document(library, status):
    ident = await bring(library, status)
    library.queue.waiting.clear()
    outcome = await library.do(begin_finalizing, ident, 1, children(library, ident, 1))
    assert outcome is Finalizing.NOT_OURS
    assert library.queue.waiting == {}
    assert await library.rows("SELECT id FROM slots") == []


@pytest.mark.parametrize("verb", [cancel_parse, reparse, delete])
async def test_the_wiki_is_not_asked_for_a_document_that_was_stopped(library, verb):
    ident = await bring(library, ParseStatus.FINALIZING)
    other = await bring(library, ParseStatus.FINALIZING, "/other.txt")
    for one in (ident, other):
        await library.do(add_if_active, 7, library.kb.id, WIKI, "ingest", one)
    await library.stop(verb, [ident] if verb is delete else ident)
    left = await library.look(pending_ops.peek, lane_of(WIKI, library.kb.id), 10)
    assert [op.dedup_key for op in left if op.op == "ingest"] == [other]


async def test_a_deleted_document_takes_with_it_all_that_was_made_of_it(library):
    empty = await library.contents()
    found = await library.register()
    await work(library)
    assert {name for name, rows in (await library.contents()).items() if rows != empty[name]} >= {
        "chunks", "images", "questions", "entities", "relations", "knowledge_tags", "search_entries",
        "knowledge_processing_spans",
    }  # fmt: skip
    [step] = await library.stop(delete, [found.knowledge_id])
    assert (step.effect, step.status) == (DONE, ParseStatus.COMPLETED)
    await work(library)
    left = await library.contents()
    assert {name for name in left if left[name] != empty[name]} <= {"tags", "search_versions"}


async def test_deleted_documents_do_not_come_back(library):
    ident = await bring(library, ParseStatus.FINALIZING)
    late = dict(library.queue.waiting)
    await library.stop(delete, [ident])
    await work(library)
    for job_id, job in late.items():
        await handle(library, job_id, job)
    await work(library)
    assert await library.rows("SELECT id FROM knowledges") == []
    assert await library.rows("SELECT id FROM chunks") == []
    again = await library.register()
    assert (again.entry, again.attempt) == (Entry.CREATED, 1)
    assert again.knowledge_id != ident
    await work(library)
    assert await library.status(again.knowledge_id) is ParseStatus.COMPLETED


async def test_what_other_documents_say_stays(library):
    for source in ("/a.txt", "/b.txt"):
        await library.register(source, "ducks")
    await work(library)
    [kept, gone] = [ident for (ident,) in await library.rows("SELECT id FROM knowledges ORDER BY source")]
    entities = await library.rows("SELECT name FROM entities ORDER BY 1")
    await library.stop(delete, [gone])
    await work(library)
    assert await library.rows("SELECT name FROM entities ORDER BY 1") == entities
    assert {ident for (ident,) in await library.rows("SELECT knowledge_id FROM chunks")} == {kept}
    assert {ident for (ident,) in await library.rows("SELECT knowledge_id FROM search_entries")} == {kept}


async def test_a_file_goes_with_the_last_document_that_has_it(library):
    await library.files.put("shared.txt", b"ducks")
    first, second = [
        (await library.register(source, "shared")).knowledge_id for source in ("/a.txt", "/b.txt")
    ]
    await library.files.put(f"{first}/picture", b"png")
    for ident, there in ((first, True), (second, False)):
        await library.stop(delete, [ident])
        await work(library)
        assert await library.files.exists("shared.txt") is there
    assert not await library.files.exists(f"{first}/picture")


async def test_a_deletion_that_was_given_up_says_so_and_can_be_asked_for_again(library):
    ident = await bring(library, ParseStatus.DELETING)
    assert await library.do(fail_delete, ident, "delete task exhausted retries: the disk is gone")
    document = await library.document(ident)
    assert document.parse_status is ParseStatus.FAILED
    assert document.error_message == "delete task exhausted retries: the disk is gone"
    assert not await library.do(fail_delete, ident, "twice")
    await work(library)
    assert await library.status(ident) is ParseStatus.FAILED, "the job of the first one comes late"
    await library.stop(delete, [ident])
    await work(library)
    assert await library.rows("SELECT id FROM knowledges") == []


async def test_asking_again_for_a_deletion_whose_job_was_lost_starts_another(library):
    ident = await bring(library, ParseStatus.DELETING)
    library.queue.waiting.clear()
    [step] = await library.stop(delete, [ident, ident])
    assert step.effect is ALREADY
    await work(library)
    assert await library.rows("SELECT id FROM knowledges") == []


async def test_many_documents_are_deleted_by_one_job(library):
    named = [await bring(library, ParseStatus.COMPLETED, f"/{n}.txt") for n in range(3)]
    library.queue.waiting.clear()
    steps = await library.stop(delete, [*named, "nobody"])
    assert [step.effect for step in steps] == [DONE, DONE, DONE, NOT_FOUND]
    [job] = library.queue.waiting.values()
    assert isinstance(job, KnowledgeListDelete)
    assert job.knowledge_ids == tuple(named)


async def test_with_the_queue_away_everything_succeeds_and_is_delivered_later(library):
    ident = await bring(library, ParseStatus.PROCESSING)
    job = await library.register("/other.txt")
    library.queue.away = True
    assert (await library.stop(cancel_parse, ident)).ok
    assert (await library.stop(reparse, ident)).ok
    assert (await library.stop(delete, [job.knowledge_id]))[0].ok
    library.queue.away = False
    await work(library)
    assert await library.status(ident) is ParseStatus.COMPLETED
    assert await library.rows("SELECT id FROM knowledges") == [(ident,)]


async def test_a_document_whose_trace_is_done_is_not_called_stuck(library):
    """As long as anything is awaited, the trace says that it goes on; it is done exactly when the document is."""
    ident = await bring(library, ParseStatus.FINALIZING)
    slots = [slot for (slot,) in await library.rows("SELECT id FROM slots")]
    for slot in slots:
        told = await library.look(timeline, ident)
        assert (told.trace.status, told.current_stage) == (SpanStatus.RUNNING, "postprocess")
        await library.do(finish_slot, slot, ident, 1)
    told = await library.look(timeline, ident)
    assert (told.trace.status, told.parse_status) == (SpanStatus.DONE, ParseStatus.COMPLETED)


async def test_closing_a_slot_of_a_document_that_is_being_deleted_is_too_late(library):
    ident = await bring(library, ParseStatus.FINALIZING)
    [(slot,), *_] = await library.rows("SELECT id FROM slots")
    await library.stop(delete, [ident])
    assert await library.do(finish_slot, slot, ident, 1) is Finish.CLOSED
