"""What the handlers do to documents, without models: each job by the same transitions, so that any may be killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from consumers.knowledge.bases.tags import Pick, ensure_tags, store_tags, tags_of
from consumers.knowledge.documents.contents import (
    Reading,
    chunks_by_id,
    chunks_of,
    store_parsed,
    store_picture,
)
from consumers.knowledge.documents.documents import begin_processing, fail
from consumers.knowledge.documents.enrichments import Asked, Summary, store_questions, store_summary
from consumers.knowledge.documents.lifecycle import fail_delete
from consumers.knowledge.documents.removal import remove
from consumers.knowledge.documents.slots import begin_finalizing, finish_slot
from consumers.knowledge.graph.storing import store_graph
from consumers.knowledge.language.extraction import Named, Related
from contracts.jobs import JobPayload
from contracts.knowledge import ChunkKind, ImageStatus
from contracts.payloads.documents import (
    DocumentPayload,
    DocumentProcess,
    ImageMultimodal,
    KnowledgePostProcess,
)
from contracts.payloads.enrichment import (
    ChunkExtract,
    KnowledgeAutoTag,
    KnowledgeBaseProfile,
    SummaryGeneration,
)
from contracts.payloads.maintenance import KnowledgeListDelete
from pipeline.store.visits import VisitedConnection
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_connection, AsyncAdapt_asyncpg_cursor

from tests.support.library import MODEL, Killed, Library, children, parsed, vector

STEPS: Final = (
    (VisitedConnection, "visit"),
    (VisitedConnection, "commit"),
    (AsyncAdapt_asyncpg_cursor, "_prepare_and_execute"),
    (AsyncAdapt_asyncpg_cursor, "_executemany"),
    (AsyncAdapt_asyncpg_connection, "commit"),
)
"""What a database is asked, on SQLite and on PostgreSQL."""


async def handle(library: Library, job_id: str, job: JobPayload) -> None:
    """Do a job as its handler would."""
    if isinstance(job, KnowledgeListDelete):
        for ident in job.knowledge_ids:
            async for _ in remove(library.database, library.index, library.files, ident):
                pass
        return
    if isinstance(job, KnowledgeBaseProfile):
        library.profiled.append(job)
        return
    assert isinstance(job, DocumentPayload | ChunkExtract)
    place = job.knowledge_id or "", job.attempt
    match job:
        case DocumentProcess():
            if (await library.do(begin_processing, *place)).proceed:
                contents = parsed(f"{job.file_path} swims", f"{job.file_path} flies", pictures=1)
                await library.do(store_parsed, library.index, *place, contents)
        case KnowledgePostProcess():
            await library.do(begin_finalizing, *place, children(library, *place))
        case KnowledgeAutoTag():
            await library.do(_tag, library, place)
        case _:
            await library.do(_close, library, job_id, job, place)


async def give_up(library: Library, job_id: str, job: JobPayload) -> None:
    """Do what follows when a job was archived: a document does not wait for it, or fails with it."""
    if isinstance(job, KnowledgeListDelete):
        for ident in job.knowledge_ids:
            await library.do(fail_delete, ident, "delete task exhausted retries")
        return
    assert isinstance(job, DocumentPayload | ChunkExtract)
    place = job.knowledge_id or "", job.attempt
    if isinstance(job, DocumentProcess | KnowledgePostProcess):
        await library.do(fail, library.index, *place, "task exhausted retries")
    elif not isinstance(job, KnowledgeAutoTag):
        await library.do(finish_slot, job_id, *place)


async def work(library: Library, *, times: int = 1) -> None:
    """Do all jobs and those that follow from them, each so many times; a kill starts the process again."""
    while library.queue.waiting or (await library.outbox.waiting())[0]:
        for job_id, job in list(library.queue.waiting.items()):
            await surviving(library, handle, library, job_id, job, times=times)
            library.queue.waiting.pop(job_id, None)
        await surviving(library, _relay, library)


async def surviving(library: Library, step: Any, *args: Any, times: int = 1) -> Any:
    """Do a step, again from its start after each kill, as a redelivery would."""
    done, answer = 0, None
    while done < times:
        try:
            answer = await step(*args)
            done += 1
        except Killed:
            await library.reopen()
    return answer


@contextmanager
def killed_at(number: int) -> Iterator[list[int]]:
    """Kill the process once, before its statement or commit of this number. Yields the list of those that ran."""
    ran: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        for kind, name in STEPS:
            patch.setattr(kind, name, _mortal(getattr(kind, name), ran, number))
        yield ran


def _mortal(method: Any, ran: list[int], number: int) -> Any:
    def run(where: Any, *args: Any) -> Any:
        connection = getattr(where, "_adapt_connection", where)
        reads = (
            getattr(connection, "readonly", False) or getattr(connection, "_begin", "") == "BEGIN DEFERRED"
        )
        if not reads:
            ran.append(len(ran) + 1)
            if len(ran) == number:
                raise Killed
        return method(where, *args)

    return run


async def _relay(library: Library) -> None:
    await library.outbox.relay(older_than_ms=0)


async def _tag(session: Any, library: Library, place: tuple[str, int]) -> None:
    await ensure_tags(session, library.kb.id, {"birds": "with wings", "ships": "with sails"})
    tags = await tags_of(session, library.kb.id)
    await store_tags(session, library.kb.id, *place, [Pick(tags[0].id, 0.9)], method="extractive")


async def _close(
    session: Any, library: Library, job_id: str, job: JobPayload, place: tuple[str, int]
) -> None:
    if not (await finish_slot(session, job_id, *place)).ours:
        return
    match job:
        case ImageMultimodal():
            read = parsed("sails").passages
            reading = Reading(job.image_index, ImageStatus.READ, words=read, model=MODEL)
            await store_picture(session, library.index, *place, reading)
        case SummaryGeneration():
            text = Summary(text="It moves.", method="extractive", vector=vector(0), model=MODEL)
            document = await library.document(place[0])
            await store_summary(session, library.index, document, place[1], text)
            chunks = await chunks_of(session, *place, ChunkKind.TEXT)
            asked = [
                Asked(chunk=chunk, text=f"Who is in {chunk.position}?", vector=vector(1)) for chunk in chunks
            ]
            await store_questions(session, library.index, asked, method="extractive", model=MODEL)
        case ChunkExtract():
            [chunk] = (await chunks_by_id(session, [job.chunk_id])).values()
            words = chunk.text.split()
            entities = [Named(word, "word") for word in words]
            await store_graph(
                session, library.kb.id, chunk, entities, [Related(words[0], words[-1], "before", chunk.text)]
            )
