"""Slots: a document moves on exactly when the last slot of its attempt closes, whoever closes it and how often."""

import asyncio

import pytest
from consumers.knowledge import ids
from consumers.knowledge.documents.contents import Reading, Stored, store_parsed, store_picture
from consumers.knowledge.documents.documents import begin_processing
from consumers.knowledge.documents.slots import Finalizing, Finish, begin_finalizing, finish_slot
from contracts.knowledge import ImageStatus, ParseStatus, SummaryStatus
from contracts.payloads.documents import ImageMultimodal, KnowledgePostProcess
from pipeline.store import Database, Outbox

from tests.support.library import children, open_library, parsed


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


async def started(library, pictures=0, content="one") -> tuple[str, int]:
    found = await library.register(content=content)
    place = found.knowledge_id, found.attempt
    await library.do(begin_processing, *place)
    await library.do(store_parsed, library.index, *place, parsed("a", "b", pictures=pictures))
    return place


async def test_each_picture_to_be_read_gets_a_job_with_a_slot(library):
    place = await started(library, pictures=2)
    jobs = [library.queue.waiting[ids.image_job(*place, number)] for number in range(2)]
    assert [(type(job), job.image_index, job.image_url) for job in jobs] == [
        (ImageMultimodal, 0, "picture-0"),
        (ImageMultimodal, 1, "picture-1"),
    ]
    assert sorted(await library.rows("SELECT id FROM slots")) == sorted(
        (ids.image_job(*place, number),) for number in range(2)
    )
    assert ids.postprocess_job(*place) not in library.queue.known


async def test_the_last_picture_starts_post_processing_once(library):
    place = await started(library, pictures=2)
    first, last = (ids.image_job(*place, number) for number in range(2))
    assert await library.do(finish_slot, first, *place) is Finish.COUNTED
    assert await library.do(finish_slot, first, *place) is Finish.CLOSED
    assert ids.postprocess_job(*place) not in library.queue.known
    assert await library.do(finish_slot, last, *place) is Finish.LAST
    assert await library.do(finish_slot, last, *place) is Finish.CLOSED
    job = library.queue.waiting[ids.postprocess_job(*place)]
    assert isinstance(job, KnowledgePostProcess)
    assert (job.attempt, job.language) == (1, "en")


async def test_without_pictures_post_processing_follows_at_once(library):
    place = await started(library)
    assert ids.postprocess_job(*place) in library.queue.waiting
    assert await library.rows("SELECT count(*) FROM slots") == [(0,)]


async def test_neither_text_nor_pictures_is_completed_at_once(library):
    found = await library.register()
    await library.do(begin_processing, found.knowledge_id, 1)
    stored = await library.do(store_parsed, library.index, found.knowledge_id, 1, parsed())
    assert stored is Stored.EMPTY
    assert await library.status(found.knowledge_id) is ParseStatus.COMPLETED


async def test_what_is_parsed_twice_is_stored_once(library):
    place = await started(library, pictures=1)
    before = await library.contents()
    assert await library.do(store_parsed, library.index, *place, parsed("other")) is Stored.NOT_OURS
    assert await library.contents() == before


async def test_what_an_older_attempt_parsed_is_not_stored(library):
    found = await library.register(content="one")
    await library.do(begin_processing, found.knowledge_id, 1)
    await library.register(content="two")
    before = await library.contents()
    assert (
        await library.do(store_parsed, library.index, found.knowledge_id, 1, parsed("x")) is Stored.NOT_OURS
    )
    assert await library.contents() == before


async def test_finalizing_waits_for_every_child_with_a_slot_and_no_other(library):
    place = await started(library)
    kids = children(library, *place)
    assert await library.do(begin_finalizing, *place, kids) is Finalizing.STARTED
    assert {kid.id for kid in kids} <= set(library.queue.waiting)
    assert (await library.document(place[0])).summary_status is SummaryStatus.PENDING
    waited_for = [kid.id for kid in kids if kid.slot]
    assert len(waited_for) == 3
    outcomes = [await library.do(finish_slot, kid, *place) for kid in waited_for]
    assert outcomes == [Finish.COUNTED, Finish.COUNTED, Finish.LAST]
    document = await library.document(place[0])
    assert document.parse_status is ParseStatus.COMPLETED
    assert document.processed_at is not None


async def test_finalizing_twice_opens_no_slot_again(library):
    place = await started(library)
    kids = children(library, *place)
    await library.do(begin_finalizing, *place, kids)
    await library.do(finish_slot, kids[0].id, *place)
    before = await library.contents()
    assert await library.do(begin_finalizing, *place, kids) is Finalizing.NOT_OURS
    assert await library.contents() == before


async def test_nothing_to_wait_for_completes_the_document(library):
    place = await started(library)
    assert await library.do(begin_finalizing, *place, []) is Finalizing.COMPLETED
    assert await library.status(place[0]) is ParseStatus.COMPLETED


async def test_an_older_attempt_cannot_finalize_the_newer_one(library):
    old = await started(library)
    new = await started(library, content="two")
    assert new[1] == 2
    before = await library.contents()
    assert await library.do(begin_finalizing, *old, children(library, *old)) is Finalizing.NOT_OURS
    assert await library.contents() == before


async def test_a_slot_of_an_older_attempt_closes_without_moving_the_newer_one(library):
    old = await started(library)
    late = children(library, *old)[0]
    await library.do(begin_finalizing, *old, children(library, *old))
    new = await started(library, content="two")
    await library.do(begin_finalizing, *new, children(library, *new))
    before = await library.contents()
    assert await library.do(finish_slot, late.id, *old) is Finish.CLOSED
    assert await library.contents() == before
    assert await library.status(new[0]) is ParseStatus.FINALIZING


async def test_a_picture_of_an_older_attempt_starts_no_post_processing(library):
    old = await started(library, pictures=1)
    await library.register(content="two")
    await library.do(begin_processing, old[0], 2)
    assert await library.do(finish_slot, ids.image_job(*old, 0), *old) is Finish.CLOSED
    assert not any(isinstance(job, KnowledgePostProcess) for job in library.queue.waiting.values())


async def test_slots_closed_at_once_by_two_processes_complete_the_document_once(library):
    place = await started(library)
    kids = children(library, *place, parts=20)
    await library.do(begin_finalizing, *place, kids)
    other = Database.open(library.database.url)
    boxes = [library.outbox, Outbox(other, library.queue.enqueue_many)]

    async def close(number, kid):
        async with boxes[number % 2].transaction() as session:
            return await finish_slot(session, kid.id, *place)

    slotted = [kid for kid in kids if kid.slot]
    outcomes = await asyncio.gather(*(close(number, kid) for number, kid in enumerate(slotted * 2)))
    await other.close()
    assert outcomes.count(Finish.LAST) == 1
    assert outcomes.count(Finish.COUNTED) == len(slotted) - 1
    assert await library.status(place[0]) is ParseStatus.COMPLETED


async def test_what_was_read_in_a_picture_is_found(library):
    place = await started(library, pictures=2)
    words = parsed("storks walk", "herons stand").passages

    async def read(session, number, words):
        if (await finish_slot(session, ids.image_job(*place, number), *place)).ours:
            reading = Reading(number, ImageStatus.READ, words=words, model="test-model")
            await store_picture(session, library.index, *place, reading)

    for _ in range(2):
        await library.do(read, 0, words)
        await library.do(read, 1, ())
    rows = await library.rows(
        "SELECT kind, position, text FROM chunks WHERE kind <> 'text' ORDER BY position"
    )
    assert rows == [("ocr", 0, "storks walk"), ("ocr", 1, "herons stand")]
    [hit] = await library.index.search([library.kb.id], "herons", None, model="", limit=1)
    assert hit.chunk_id == ids.chunk(*place, "ocr", 1)
    assert await library.rows("SELECT status FROM images") == [("read",), ("read",)]


async def test_a_picture_that_is_not_to_be_read_keeps_its_reason_and_no_slot(library):
    found = await library.register()
    place = found.knowledge_id, 1
    await library.do(begin_processing, *place)
    contents = parsed("text", pictures=1)
    [picture] = contents.pictures
    skipped = type(picture)(file_key="k", mime="image/png", skipped="no reader for pictures is installed")
    stored = await library.do(
        store_parsed,
        library.index,
        *place,
        type(contents)(passages=contents.passages, pictures=[skipped], model="m"),
    )
    assert stored is Stored.POSTPROCESSES
    assert await library.rows("SELECT status, reason FROM images") == [("skipped", skipped.skipped)]
