"""Documents: what registering means, who may start, and that giving up leaves nothing findable."""

import pytest
from consumers.knowledge import ids
from consumers.knowledge.documents.contents import store_parsed
from consumers.knowledge.documents.documents import (
    Begin,
    Entry,
    begin_processing,
    cancel,
    decide_begin,
    decide_entry,
    fail,
)
from consumers.knowledge.documents.slots import Finalizing, begin_finalizing, finish_slot
from contracts.knowledge import ParseStatus, SummaryStatus
from contracts.payloads.documents import DocumentProcess

from tests.support.library import children, open_library, parsed


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


async def completed(library, content="one", *texts):
    found = await library.register(content=content)
    place = found.knowledge_id, found.attempt
    await library.do(begin_processing, *place)
    await library.do(store_parsed, library.index, *place, parsed(*(texts or ("ducks swim",))))
    await library.do(begin_finalizing, *place, [])
    assert await library.status(found.knowledge_id) is ParseStatus.COMPLETED
    return found


@pytest.mark.parametrize(
    ("status", "same", "entry"),
    [
        (None, False, Entry.CREATED),
        (ParseStatus.COMPLETED, True, Entry.UNCHANGED),
        (ParseStatus.COMPLETED, False, Entry.CHANGED),
        (ParseStatus.PENDING, True, Entry.RESUMED),
        (ParseStatus.PROCESSING, True, Entry.RESUMED),
        (ParseStatus.FINALIZING, True, Entry.RESUMED),
        (ParseStatus.FINALIZING, False, Entry.CHANGED),
        (ParseStatus.FAILED, True, Entry.RETRIED),
        (ParseStatus.FAILED, False, Entry.CHANGED),
        (ParseStatus.CANCELLED, True, Entry.RETRIED),
        (ParseStatus.DELETING, True, Entry.DELETING),
        (ParseStatus.DELETING, False, Entry.DELETING),
    ],
)
def test_registering_depends_on_the_state_and_on_the_content(status, same, entry):
    assert decide_entry(status, same_content=same) is entry


@pytest.mark.parametrize(
    ("status", "parsed_attempt", "attempt", "begin"),
    [
        (ParseStatus.PROCESSING, 1, 2, Begin.AGAIN),
        (ParseStatus.PROCESSING, 2, 2, Begin.PARSED),
        (ParseStatus.FINALIZING, 2, 2, Begin.PARSED),
        (ParseStatus.COMPLETED, 2, 2, Begin.PARSED),
        (ParseStatus.FAILED, 1, 2, Begin.STOPPED),
        (ParseStatus.CANCELLED, 1, 2, Begin.STOPPED),
        (ParseStatus.DELETING, 1, 2, Begin.STOPPED),
        (ParseStatus.PENDING, 0, 1, Begin.SUPERSEDED),
    ],
)
def test_a_second_start_learns_what_is_left_to_do(status, parsed_attempt, attempt, begin):
    assert decide_begin(status, 2, parsed_attempt, attempt) is begin


async def test_a_new_source_is_registered_and_its_processing_enqueued(library):
    found = await library.register()
    assert (found.entry, found.attempt) == (Entry.CREATED, 1)
    job = library.queue.waiting[ids.process_job(found.knowledge_id, 1)]
    assert isinstance(job, DocumentProcess)
    assert (job.knowledge_id, job.attempt, job.file_path, job.tenant_id) == (
        found.knowledge_id,
        1,
        "one.txt",
        7,
    )
    assert await library.status(found.knowledge_id) is ParseStatus.PENDING
    assert await library.outbox.waiting() == (0, 0)


async def test_registering_twice_is_one_document_and_one_job(library):
    first = await library.register()
    again = await library.register()
    assert again.entry is Entry.RESUMED
    assert (again.knowledge_id, again.attempt) == (first.knowledge_id, 1)
    assert len(library.queue.known) == 1


async def test_unchanged_content_that_is_there_is_left_alone(library):
    found = await completed(library)
    before = await library.contents()
    assert (await library.register()).entry is Entry.UNCHANGED
    assert await library.contents() == before
    assert len(library.queue.known) == 2, "processing and post-processing of the first time"
    assert (await library.document(found.knowledge_id)).processed_at


async def test_changed_content_is_a_new_attempt_and_the_old_stays_findable_until_it_is_replaced(library):
    old = await completed(library, "one", "ducks swim")
    new = await library.register(content="two")
    assert (new.knowledge_id, new.attempt, new.entry) == (old.knowledge_id, 2, Entry.CHANGED)
    assert await library.status(new.knowledge_id) is ParseStatus.PENDING
    assert await hits(library, "ducks") == ["ducks swim"]
    await library.do(begin_processing, new.knowledge_id, 2)
    await library.do(store_parsed, library.index, new.knowledge_id, 2, parsed("geese fly"))
    assert await hits(library, "ducks") == []
    assert await hits(library, "geese") == ["geese fly"]
    assert await library.rows("SELECT attempt, text FROM chunks") == [(2, "geese fly")]


async def test_a_failed_document_is_tried_again_when_it_is_registered_again(library):
    first = await library.register()
    assert await library.do(fail, library.index, first.knowledge_id, 1, "the file is empty")
    again = await library.register()
    assert (again.attempt, again.entry) == (2, Entry.RETRIED)
    assert (await library.document(first.knowledge_id)).error_message == ""


async def test_starting_twice_starts_again_until_something_is_stored(library):
    found = await library.register()
    place = found.knowledge_id, 1
    assert await library.do(begin_processing, *place) is Begin.STARTED
    assert await library.do(begin_processing, *place) is Begin.AGAIN
    await library.do(store_parsed, library.index, *place, parsed("text"))
    assert await library.do(begin_processing, *place) is Begin.PARSED


async def test_an_older_attempt_cannot_start_nor_fail_the_document(library):
    found = await library.register(content="one")
    await library.register(content="two")
    before = await library.contents()
    assert await library.do(begin_processing, found.knowledge_id, 1) is Begin.SUPERSEDED
    assert not await library.do(fail, library.index, found.knowledge_id, 1, "too late")
    assert await library.contents() == before


async def test_a_document_that_is_gone_cannot_start(library):
    assert await library.do(begin_processing, "nobody", 1) is Begin.GONE


@pytest.mark.parametrize("stage", ["pending", "processing", "parsed", "finalizing"])
async def test_failing_leaves_nothing_findable_and_no_open_slot(library, stage):
    found = await library.register()
    place = found.knowledge_id, 1
    if stage != "pending":
        await library.do(begin_processing, *place)
    if stage in {"parsed", "finalizing"}:
        await library.do(store_parsed, library.index, *place, parsed("ducks swim"))
    if stage == "finalizing":
        await library.do(begin_finalizing, *place, children(library, *place))
    assert await library.do(fail, library.index, *place, "because")
    assert not await library.do(fail, library.index, *place, "because of something else")
    document = await library.document(found.knowledge_id)
    assert (document.parse_status, document.error_message) == (ParseStatus.FAILED, "because")
    assert await hits(library, "ducks") == []
    for table in ("chunks", "slots", "search_entries"):
        assert await library.rows(f"SELECT count(*) FROM {table}") == [(0,)]


async def test_a_completed_document_cannot_fail(library):
    found = await completed(library)
    assert not await library.do(fail, library.index, found.knowledge_id, 1, "too late")
    assert await library.status(found.knowledge_id) is ParseStatus.COMPLETED


@pytest.mark.parametrize("stage", ["pending", "processing", "finalizing"])
async def test_a_cancelled_document_keeps_what_was_written_and_waits_for_nothing(library, stage):
    found = await library.register()
    place = found.knowledge_id, 1
    if stage != "pending":
        await library.do(begin_processing, *place)
    if stage == "finalizing":
        await library.do(store_parsed, library.index, *place, parsed("ducks swim"))
        await library.do(begin_finalizing, *place, children(library, *place))
    assert await library.do(cancel, found.knowledge_id)
    assert not await library.do(cancel, found.knowledge_id)
    document = await library.document(found.knowledge_id)
    assert document.parse_status is ParseStatus.CANCELLED
    assert document.summary_status is (SummaryStatus.FAILED if stage == "finalizing" else SummaryStatus.NONE)
    assert await hits(library, "ducks") == (["ducks swim"] if stage == "finalizing" else [])
    assert await library.rows("SELECT * FROM slots") == []
    assert await library.do(begin_processing, *place) is Begin.STOPPED
    assert not await library.do(fail, library.index, *place, "too late")
    assert (await library.register()).entry is Entry.RETRIED


async def test_a_completed_document_cannot_be_cancelled(library):
    found = await completed(library)
    assert not await library.do(cancel, found.knowledge_id)
    assert await library.status(found.knowledge_id) is ParseStatus.COMPLETED


async def test_a_long_error_is_cut_to_eight_kilobytes(library):
    found = await library.register()
    await library.do(fail, library.index, found.knowledge_id, 1, "ж" * 9000)
    message = (await library.document(found.knowledge_id)).error_message
    assert len(message.encode()) <= 8192
    assert message.endswith("...(truncated)")


async def test_results_that_come_after_a_failure_are_refused(library):
    found = await library.register()
    place = found.knowledge_id, 1
    await library.do(begin_processing, *place)
    await library.do(store_parsed, library.index, *place, parsed("text"))
    kids = children(library, *place)
    await library.do(begin_finalizing, *place, kids)
    await library.do(fail, library.index, *place, "because")
    assert not (await library.do(finish_slot, kids[0].id, *place)).ours
    assert await library.do(begin_finalizing, *place, kids) is Finalizing.NOT_OURS
    assert await library.status(found.knowledge_id) is ParseStatus.FAILED


async def hits(library, words):
    found = await library.index.search([library.kb.id], words, None, model="")
    return [hit.text for hit in found]
