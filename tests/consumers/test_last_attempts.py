"""What the last attempt of a job leaves, on both queues: its row, its document, and what a person does meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from consumers.commands.session import TENANT
from consumers.handlers.documents import fail_document
from consumers.handlers.enrichment import picture_lost, read_picture
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.contents import Parsed, Picture, store_parsed
from consumers.knowledge.documents.documents import ProcessOptions, begin_processing, register
from consumers.knowledge.documents.lifecycle import cancel_parse
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.services import Services, open_services
from contracts.knowledge import ParseStatus
from contracts.payloads.documents import DocumentProcess, ImageMultimodal, KnowledgePostProcess
from pipeline import Enqueue, Handler, Pipeline, Skip, on
from pipeline.store.dead_letters import Letter, Narrowed, listed
from pipeline.testing import Scripted, drain

from tests.support.backends import BACKENDS
from tests.support.databases import migrated
from tests.support.documents import png
from tests.support.library import file
from tests.support.waiting import wait_until

ANY = Narrowed(replayed=None)


@dataclass
class World:
    """A document that was registered, on a real queue and database; its job waits."""

    pipeline: Pipeline
    services: Services
    kb_id: str
    knowledge_id: str

    async def status(self) -> ParseStatus:
        async with self.services.database.read() as sql:
            return (await sql.get_one(Knowledge, self.knowledge_id)).parse_status

    async def letters(self) -> list[Letter]:
        async with self.services.database.read() as sql:
            return await listed(sql, ANY, 10)

    async def last(self, *handlers: Handler) -> None:
        """Run the document's job once, as its last attempt, and what that leads to."""
        await drain(self.pipeline, handlers, services=self.services)

    def job(self) -> DocumentProcess:
        return DocumentProcess(
            tenant_id=TENANT, knowledge_base_id=self.kb_id, knowledge_id=self.knowledge_id, attempt=1
        )


@pytest.fixture(params=[*BACKENDS, pytest.param("redis-postgres", marks=pytest.mark.postgres)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    queue, _, database = request.param.partition("-")
    backend = BACKENDS[queue](tmp_path)
    try:
        with migrated(database or "sqlite", tmp_path) as url:
            where = url.render_as_string(hide_password=False)
            async with (
                Pipeline.open(**backend.settings(), database_url=where) as pipeline,
                open_services(pipeline) as services,
            ):
                async with services.database.transaction() as sql:
                    kb = await ensure_base(sql, TENANT, "demo")
                    done = await register(sql, kb, file(), ProcessOptions())
                made = World(pipeline, services, kb.id, done.knowledge_id)
                await pipeline.enqueue_many([Enqueue(made.job(), max_retry=0)])
                yield made
    finally:
        await backend.close()


@pytest.mark.parametrize(
    "panic", [RecursionError("deep"), MemoryError(), SystemExit(3), BaseException("odd")]
)
async def test_a_panic_on_the_last_attempt_is_recorded_and_fails_the_document(
    world: World, panic: BaseException
) -> None:
    await world.last(on(DocumentProcess, Scripted(panic), on_archived=fail_document))
    (letter,) = await world.letters()
    assert (letter.reason, letter.related_id, letter.fail_count) == ("exhausted", world.knowledge_id, 1)
    assert type(panic).__name__ in letter.last_error
    assert await world.status() is ParseStatus.FAILED


async def test_a_handler_that_skips_has_its_row_and_no_hook(world: World) -> None:
    await world.last(on(DocumentProcess, Scripted(Skip("no use")), on_archived=fail_document))
    (letter,) = await world.letters()
    assert letter.reason == "skip"
    assert await world.status() is ParseStatus.PENDING


async def test_a_document_that_is_cancelled_during_the_last_attempt_stays_cancelled(world: World) -> None:
    started = asyncio.Event()

    async def hangs(_job: Any, _ctx: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("the model was called in vain") from None

    handler = on(DocumentProcess, hangs, on_archived=fail_document)
    async with world.pipeline.workers(
        pools=["core"], handlers=[handler], services=world.services, only={"document:process"}
    ):
        await asyncio.wait_for(started.wait(), 20)
        outbox = world.services.outbox
        cut = await outbox.choose_cut()
        async with outbox.transaction() as sql:
            assert (await cancel_parse(sql, TENANT, world.knowledge_id, cut)).ok

        async def over() -> bool:
            stats = await world.pipeline.inspector.queues()
            return {stat.name: stat.active for stat in stats}["default"] == 0

        await wait_until(over, describe="the job has ended", timeout=20)
    assert await world.letters() == []
    assert await world.status() is ParseStatus.CANCELLED


async def test_run_again_by_hand_it_has_one_attempt_and_dies_a_second_death(world: World) -> None:
    handler = Scripted(RuntimeError("no"))
    await world.last(on(DocumentProcess, handler, on_archived=fail_document))
    (first,) = await world.letters()
    await world.pipeline.inspector.run_now(first.job_id)
    await world.last(on(DocumentProcess, handler, on_archived=fail_document))
    letters = await world.letters()
    assert [letter.job_id for letter in letters] == [first.job_id] * 2
    assert [letter.fail_count for letter in letters] == [1, 1]
    assert len(handler.calls) == 2


async def test_of_three_pictures_one_is_lost_and_post_processing_starts_once(world: World) -> None:
    services, outbox = world.services, world.services.outbox
    pictures = [Picture(file_key=f"{n}.png", mime="image/png") for n in range(3)]
    for picture in pictures:
        await services.files.put(picture.file_key, png(40, 40))
    found = Parsed(passages=(), pictures=pictures)
    async with outbox.transaction() as sql:
        await begin_processing(sql, world.knowledge_id, 1)
        await store_parsed(sql, services.search, world.knowledge_id, 1, found)

    async def read(job: ImageMultimodal, ctx: Any) -> None:
        if job.image_index == 1:
            raise RuntimeError("the picture is lost")
        await read_picture(job, ctx)

    reading = on(ImageMultimodal, read, on_archived=picture_lost, retry=lambda *_: 0.0)
    seen = Scripted()
    await drain(world.pipeline, [reading, on(KnowledgePostProcess, seen)], services=services)
    (letter,) = await world.letters()
    assert (letter.task_type, letter.reason) == ("image:multimodal", "exhausted")
    assert len(seen.calls) == 1
    assert await world.status() is ParseStatus.PROCESSING
