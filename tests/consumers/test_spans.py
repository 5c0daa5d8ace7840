"""Spans and the timeline: an attempt tells how it goes, and what was not reached is shown as such."""

import pytest
from consumers.knowledge import ids
from consumers.knowledge.documents.contents import store_parsed
from consumers.knowledge.documents.documents import begin_processing, cancel, fail
from consumers.knowledge.documents.slots import begin_finalizing, finish_slot
from consumers.knowledge.progress.spans import MAX_NAME, Attempt, Ending, fit
from consumers.knowledge.progress.timeline import timeline
from contracts.knowledge import ParseStatus, SpanCode, SpanKind, SpanStatus, Stage
from pipeline.clock import now_ms

from tests.support.library import children, open_library, parsed

ALL_PENDING = dict.fromkeys(Stage, SpanStatus.PENDING)


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        yield opened


class Story:
    """One document, told step by step."""

    def __init__(self, library, knowledge_id, attempt) -> None:
        self.library = library
        self.place: tuple[str, int] = (knowledge_id, attempt)

    async def begin(self):
        await self.library.do(begin_processing, *self.place)

    async def parse(self, pictures=0):
        await self.library.do(
            store_parsed, self.library.index, *self.place, parsed("a", "b", pictures=pictures)
        )

    async def finalize(self):
        await self.library.do(begin_finalizing, *self.place, children(self.library, *self.place, parts=0))

    async def close(self, slot_id):
        await self.library.do(finish_slot, slot_id, *self.place)

    async def fail(self, message, code=None):
        await self.library.do(fail, self.library.index, *self.place, message, code=code)

    async def span(self, verb, *args, **options):
        async with self.library.database.transaction() as session:
            return await getattr(Attempt(session, *self.place), verb)(*args, **options)

    async def told(self, attempt=None):
        return await self.library.look(timeline, self.place[0], attempt)

    async def stages(self):
        return {node.name: node.status for node in (await self.told()).trace.children}


@pytest.fixture
async def story(library) -> Story:
    found = await library.register()
    return Story(library, found.knowledge_id, 1)


async def test_a_document_that_waits_shows_every_stage_as_pending(story):
    told = await story.told()
    assert (told.trace.status, told.current_stage, told.last_error) == (SpanStatus.PENDING, None, None)
    assert await story.stages() == ALL_PENDING


async def test_the_stages_of_a_document_follow_each_other(story: Story):
    await story.begin()
    assert await story.stages() == {**ALL_PENDING, Stage.DOCREADER: SpanStatus.RUNNING}
    await story.span("enter", Stage.CHUNKING, {"characters": 3})
    await story.span("enter", Stage.EMBEDDING)
    told = await story.told()
    assert told.current_stage == Stage.EMBEDDING
    assert told.trace.children[1].input == {"characters": 3}
    await story.parse(pictures=1)
    assert (await story.told()).current_stage == Stage.MULTIMODAL
    await story.close(ids.image_job(*story.place, 0))
    assert (await story.told()).current_stage is None, "post-processing waits in its queue"
    await story.finalize()
    told = await story.told()
    assert (told.current_stage, told.trace.status) == (Stage.POSTPROCESS, SpanStatus.RUNNING)
    await story.close(ids.enrichment_job(*story.place, "summary"))
    told = await story.told()
    assert (told.parse_status, told.current_stage) == (ParseStatus.COMPLETED, None)
    assert told.trace.status is SpanStatus.DONE
    assert await story.stages() == dict.fromkeys(Stage, SpanStatus.DONE)
    assert told.trace.children[2].output == {"chunks": 2, "images": 1}
    assert told.trace.duration_ms is not None


async def test_without_pictures_that_stage_is_skipped_in_the_end(story: Story):
    await story.begin()
    await story.parse()
    await story.finalize()
    assert (await story.stages())[Stage.MULTIMODAL] is SpanStatus.PENDING
    await story.close(ids.enrichment_job(*story.place, "summary"))
    assert (await story.stages())[Stage.MULTIMODAL] is SpanStatus.SKIPPED


async def test_a_second_try_uses_the_spans_again(story):
    await story.begin()
    await story.span("enter", Stage.CHUNKING)
    first = (await story.told()).trace.children[0]
    await story.begin()
    assert await story.stages() == {**ALL_PENDING, Stage.DOCREADER: SpanStatus.RUNNING}
    again = (await story.told()).trace.children[0]
    assert (again.started_at >= first.started_at, again.finished_at, again.duration_ms) == (True, None, None)
    assert await story.library.rows("SELECT count(*) FROM knowledge_processing_spans") == [(2,)]


async def test_a_failed_stage_cancels_those_that_depend_on_it(story):
    await story.begin()
    await story.span("enter", Stage.CHUNKING)
    await story.fail("too many chunks")
    told = await story.told()
    assert await story.stages() == {
        Stage.DOCREADER: SpanStatus.DONE,
        Stage.CHUNKING: SpanStatus.FAILED,
        Stage.EMBEDDING: SpanStatus.CANCELLED,
        Stage.MULTIMODAL: SpanStatus.CANCELLED,
        Stage.POSTPROCESS: SpanStatus.CANCELLED,
    }
    assert told.trace.children[4].error_code == SpanCode.UPSTREAM_FAILED
    assert told.trace.status is SpanStatus.FAILED
    error = told.last_error
    assert (error.stage, error.code, error.message) == (
        Stage.CHUNKING,
        SpanCode.CHUNKING_FAILED,
        "too many chunks",
    )


async def test_a_failure_may_name_its_own_code(story):
    await story.begin()
    await story.fail("task document:process exhausted retries", SpanCode.TASK_TIMEOUT)
    assert (await story.told()).last_error.code == SpanCode.TASK_TIMEOUT


async def test_a_document_that_fails_before_it_starts_says_so(story):
    await story.fail("its file is gone")
    told = await story.told()
    assert (told.trace.status, told.last_error.message) == (SpanStatus.FAILED, "its file is gone")
    assert await story.stages() == ALL_PENDING


async def test_a_part_that_starts_again_supersedes_the_one_that_did_not_end(story):
    await story.begin()
    lost = await story.span("open_part", Stage.POSTPROCESS, "postprocess.summary", {"chunks": 2})
    await story.finalize()
    await story.span("enter", Stage.POSTPROCESS)
    part = await story.span("open_part", Stage.POSTPROCESS, "postprocess.summary")
    assert part != lost
    await story.span("close_part", part, Ending(output={"method": "extractive"}))
    await story.span("close_part", part, Ending(status=SpanStatus.FAILED))
    parts = (await story.told()).trace.children[4].children
    assert [(node.status, node.error_code) for node in parts] == [
        (SpanStatus.CANCELLED, SpanCode.TASK_SUPERSEDED),
        (SpanStatus.DONE, ""),
    ]
    assert parts[1].output == {"method": "extractive"}


async def test_a_part_can_be_noted_when_it_has_ended(story):
    await story.begin()
    await story.span("enter", Stage.POSTPROCESS)
    await story.span(
        "record_part",
        Stage.POSTPROCESS,
        "postprocess.graph.chunk[0]",
        now_ms() - 50,
        Ending(status=SpanStatus.FAILED, code=SpanCode.GRAPH_EXTRACT_FAILED, message="m" * 2000),
    )
    [part] = (await story.told()).trace.children[4].children
    assert part.duration_ms >= 50
    assert len(part.error_message) == 1024
    error = (await story.told()).last_error
    assert (error.stage, error.name) == (Stage.POSTPROCESS, "postprocess.graph.chunk[0]")


async def test_open_parts_are_cancelled_with_the_document_that_fails(story):
    await story.begin()
    await story.span("open_part", Stage.DOCREADER, "docreader.page[1]")
    await story.fail("damaged")
    [part] = (await story.told()).trace.children[0].children
    assert (part.status, part.error_code) == (SpanStatus.CANCELLED, SpanCode.UPSTREAM_FAILED)


async def test_a_cancelled_document_cancels_what_runs(story):
    await story.begin()
    await story.library.do(cancel, story.place[0])
    told = await story.told()
    assert (told.trace.status, told.trace.error_code) == (SpanStatus.CANCELLED, SpanCode.USER_CANCELLED)
    assert await story.stages() == {**ALL_PENDING, Stage.DOCREADER: SpanStatus.CANCELLED}


async def test_only_stages_count_as_progress_of_the_document(story):
    async def touched():
        return (await story.library.document(story.place[0])).updated_at

    async def age(milliseconds):
        async with story.library.database.transaction() as session:
            (await session.get_one(type(document), document.id)).updated_at -= milliseconds

    await story.begin()
    document = await story.library.document(story.place[0])
    await age(5000)
    before = await touched()
    await story.span("open_part", Stage.DOCREADER, "docreader.page[1]")
    assert await touched() == before
    await story.span("enter", Stage.CHUNKING)
    assert await touched() >= before + 5000


async def test_each_attempt_has_its_own_timeline(story):
    await story.begin()
    await story.fail("damaged")
    await story.library.register()
    told = await story.told()
    assert (told.attempt, told.latest_attempt, told.trace.status) == (2, 2, SpanStatus.PENDING)
    old = await story.told(1)
    assert (old.attempt, old.latest_attempt, old.trace.status) == (1, 2, SpanStatus.FAILED)


async def test_the_timeline_of_a_document_that_is_gone_is_none(story):
    assert await story.library.look(timeline, "nobody") is None


@pytest.mark.parametrize(
    ("status", "root", "stages"),
    [
        (ParseStatus.COMPLETED, SpanStatus.DONE, SpanStatus.DONE),
        (ParseStatus.FAILED, SpanStatus.FAILED, SpanStatus.PENDING),
        (ParseStatus.CANCELLED, SpanStatus.CANCELLED, SpanStatus.PENDING),
        (ParseStatus.PROCESSING, SpanStatus.RUNNING, SpanStatus.PENDING),
        (ParseStatus.PENDING, SpanStatus.PENDING, SpanStatus.PENDING),
    ],
)
async def test_a_document_without_spans_mirrors_its_status(story, status, root, stages):
    async with story.library.database.transaction() as session:
        document = await story.library.document(story.place[0])
        (await session.get_one(type(document), document.id)).parse_status = status
    told = await story.told()
    assert (told.trace.kind, told.trace.status) == (SpanKind.ROOT, root)
    assert await story.stages() == dict.fromkeys(Stage, stages)


def test_long_names_are_cut_and_still_told_apart():
    long, longer = "x" * 300, "x" * 301
    assert fit("short") == "short"
    assert len(fit(long)) == MAX_NAME
    assert fit(long) != fit(longer)
