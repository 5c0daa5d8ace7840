"""The handlers of the document pipeline together: what a document gets, run once, run twice, and run on bad input."""

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from consumers.commands.acting import act_on_one
from consumers.commands.ingest import Watch, bring_in
from consumers.commands.session import TENANT, Session
from consumers.desk import by_hand
from consumers.knowledge.bases.knowledge_bases import ensure_base, fix_embedding
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.documents.documents import Entry
from consumers.lanes import HANDLERS
from consumers.services import open_services
from contracts.knowledge import ParseStatus
from contracts.outcomes import Retry
from contracts.states import JobState
from pipeline import Handler, Pipeline
from pipeline.actions import Action
from sqlalchemy import event

from tests.support.databases import BOTH, migrated
from tests.support.documents import png
from tests.support.end_state import end_state
from tests.support.platform import ingest, write

GUIDE = """# Worker pools

A worker pool is a set of queues with its own concurrency. The Core Pool serves the Default Queue.

## How do I scale a pool?

Multiply the arrival rate by the mean duration and divide by 0.7. The Core Pool and the Wiki Pool never share slots.
"""
NOTE = """# Заметка о повторах

Повтор — это новая попытка задачи после ошибки. Пауза между попытками растёт линейно.
Если попытки исчерпаны, задача уходит в архив с указанием причины.
"""


on_both = pytest.mark.usefixtures("either_database")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def test_a_document_gets_chunks_vectors_a_summary_questions_and_a_graph(
    tmp_path: Path, data_dir: Path, either_database: str
) -> None:
    outcomes = await ingest(*write(tmp_path / "in", guide_md=GUIDE, note_md=NOTE))
    assert [(o.fate.status, o.entry) for o in outcomes] == [(ParseStatus.COMPLETED, Entry.CREATED)] * 2
    state = end_state(data_dir, either_database)
    assert [state[left] for left in ("open slots", "outbox", "open spans", "jobs")] == [[], [], [], []]
    assert all("completed" in row for row in state["documents"])
    assert {kind for _, kind, *_ in state["index"]} == {"text", "summary", "question"}
    assert state["mentions"]


def twice(handler: Handler) -> Handler:
    """The handler, run again after it has run."""
    run: Callable[[Any, Any], Awaitable[Any]] = handler.run  # type: ignore[assignment]

    async def again(job: Any, ctx: Any) -> Any:
        await run(job, ctx)
        return await run(job, ctx)

    return replace(handler, run=again)


def failing_first(handler: Handler) -> Handler:
    """The handler, whose first attempt does its work and then fails all the same."""
    run: Callable[[Any, Any], Awaitable[Any]] = handler.run  # type: ignore[assignment]

    async def fail(job: Any, ctx: Any) -> Any:
        said = await run(job, ctx)
        if ctx.retried == 0:
            raise Retry(after=0, reason="the reply was lost")
        return said

    return replace(handler, run=fail)


@pytest.mark.parametrize("change", [twice, failing_first])
@pytest.mark.parametrize("kind", BOTH)
async def test_every_handler_may_run_twice(
    change: Callable[[Handler], Handler], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write(tmp_path / "in", guide_md=GUIDE, note_md=NOTE)

    async def end(folder: Path, handlers: Sequence[Handler]) -> dict[str, Any]:
        with migrated(kind, folder) as url:
            where = url.render_as_string(hide_password=False)
            monkeypatch.setenv("STREAMLANE_DATA_DIR", str(folder))
            monkeypatch.setenv("STREAMLANE_DATABASE_URL", where)
            await ingest(*paths, handlers=handlers)
            return end_state(folder, where)

    once = await end(tmp_path / "once", HANDLERS)
    assert await end(tmp_path / "again", [change(handler) for handler in HANDLERS]) == once


async def test_an_unchanged_file_is_left_alone_and_a_changed_one_replaces_what_was_read_of_it(
    tmp_path: Path, data_dir: Path, either_database: str
) -> None:
    paths = write(tmp_path / "in", guide_md=GUIDE, note_md=NOTE)
    await ingest(*paths)
    paths[0].write_text("# Worker pools\n\nA worker pool is now something else: a Closed Lane.\n")
    outcomes = await ingest(*paths)
    assert [outcome.entry for outcome in outcomes] == [Entry.CHANGED, Entry.UNCHANGED]
    texts = [text for _, kind, _, text, _ in end_state(data_dir, either_database)["index"] if kind == "text"]
    assert not any("mean duration" in text for text in texts)
    assert any("Closed Lane" in text for text in texts)


@on_both
async def test_a_bad_document_fails_at_once_and_leaves_its_siblings_alone(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    paths = write(folder, empty_txt="", blank_md=" \n\t\n", guide_md=GUIDE)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\n" + bytes(range(256)))
    (folder / "program.bin").write_bytes(b"\x7fELF" + bytes(4096))
    os.mkfifo(folder / "pipe.txt")
    (folder / "self.txt").symlink_to(folder / "self.txt")
    bad = [folder / name for name in ("broken.pdf", "program.bin", "pipe.txt", "self.txt")]
    outcomes = await ingest(*paths, *bad)
    assert [o.fate.status for o in outcomes] == [ParseStatus.FAILED] * 2 + [ParseStatus.COMPLETED] + [
        ParseStatus.FAILED
    ] * 4
    assert all(o.fate.error and o.fate.chunks == 0 for o in outcomes if o.fate.status is ParseStatus.FAILED)


@pytest.mark.parametrize("content", ["[" * 5000 + "]" * 5000, "----- ***** !!!", "\U0001f389"])
async def test_a_document_without_a_word_fails_instead_of_completing_with_nothing(
    tmp_path: Path, content: str
) -> None:
    (outcome,) = await ingest(*write(tmp_path / "in", deep_json=content))
    assert outcome.fate.status is ParseStatus.FAILED
    assert "holds no readable text" in outcome.fate.error


async def test_a_document_of_pictures_that_its_base_does_not_read_fails_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "page.png").write_bytes(png(200, 200))
    blind = KnowledgeBaseSettings(read_pictures=False).model_dump()
    async with (
        Pipeline.open() as pipeline,
        open_services(pipeline) as services,
        services.database.transaction() as sql,
    ):
        await ensure_base(sql, TENANT, "test", blind)
    (outcome,) = await ingest(tmp_path / "page.png")
    assert outcome.fate.status is ParseStatus.FAILED
    assert "only pictures" in outcome.fate.error


@on_both
async def test_what_failed_for_its_content_is_tried_again_when_it_changed(tmp_path: Path) -> None:
    (path,) = write(tmp_path / "in", note_md="")
    (first,) = await ingest(path)
    (again,) = await ingest(path)
    path.write_text(NOTE)
    (mended,) = await ingest(path)
    assert (first.fate.status, again.entry, again.fate) == (ParseStatus.FAILED, Entry.HOPELESS, first.fate)
    assert (mended.fate.status, mended.entry) == (ParseStatus.COMPLETED, Entry.CHANGED)


async def test_what_failed_for_another_reason_is_tried_again_when_it_is_ingested_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = write(tmp_path / "in", note_md=NOTE)
    monkeypatch.setenv("STREAMLANE_PARSER_TIMEOUT_S", "0.001")
    (late,) = await ingest(path)
    monkeypatch.delenv("STREAMLANE_PARSER_TIMEOUT_S")
    (again,) = await ingest(path)
    assert "raise STREAMLANE_PARSER_TIMEOUT_S" in late.fate.error
    assert (again.fate.status, again.entry) == (ParseStatus.COMPLETED, Entry.RETRIED)


@on_both
async def test_a_document_for_a_base_of_another_embedding_model_fails_at_once_and_says_so(
    tmp_path: Path,
) -> None:
    async with (
        Pipeline.open() as pipeline,
        open_services(pipeline) as services,
        services.database.transaction() as session,
    ):
        kb = await ensure_base(session, TENANT, "test")
        await fix_embedding(session, kb.id, "another-model", 3)
    (path,) = write(tmp_path / "in", guide_md=GUIDE)
    (outcome,) = await ingest(path)
    assert outcome.fate.status is ParseStatus.FAILED
    assert "was embedded with another-model" in outcome.fate.error


@on_both
async def test_cancelling_a_job_that_a_document_waits_for_cancels_the_document(tmp_path: Path) -> None:
    (path,) = write(tmp_path / "in", guide_md=GUIDE)
    async with Pipeline.open() as pipeline, open_services(pipeline) as services:
        opened = Session(pipeline, services)
        (waiting,) = await bring_in(opened, "test", [path], wait=False, limit=1, quiet=True)
        page = await pipeline.inspector.tasks("default", JobState.PENDING)
        async with by_hand("jobs cancel") as call:
            said = await act_on_one(call, Action.CANCEL, page.records[0].job.id)
    assert (waiting.fate.status, said) == (ParseStatus.PENDING, "cancelled")
    (again,) = await ingest(path)
    assert (again.entry, again.fate.status) == (Entry.RETRIED, ParseStatus.COMPLETED)


@on_both
async def test_a_document_whose_jobs_are_gone_is_failed_and_taken_up_by_the_next_ingest(
    tmp_path: Path, data_dir: Path
) -> None:
    (path,) = write(tmp_path / "in", guide_md=GUIDE)
    async with Pipeline.open() as pipeline, open_services(pipeline) as services:
        await bring_in(Session(pipeline, services), "test", [path], wait=False, limit=1, quiet=True)
        page = await pipeline.inspector.tasks("default", JobState.PENDING)
        await pipeline.inspector.cancel(page.records[0].job.id)
    (stranded,) = await ingest(path)
    (again,) = await ingest(path)
    assert (stranded.fate.status, again.fate.status) == (ParseStatus.FAILED, ParseStatus.COMPLETED)
    assert "ingest it again" in stranded.fate.error


@on_both
async def test_waiting_for_thousands_of_documents_asks_for_none_of_them_while_jobs_are_queued(
    tmp_path: Path,
) -> None:
    (path,) = write(tmp_path / "in", guide_md=GUIDE)
    asked: list[str] = []
    async with Pipeline.open() as pipeline, open_services(pipeline) as services:
        opened = Session(pipeline, services)
        await bring_in(opened, "test", [path], wait=False, limit=1, quiet=True)
        async with services.database.transaction() as sql:
            kb = await ensure_base(sql, TENANT, "test")

        @event.listens_for(services.database._engines.reader.sync_engine, "before_cursor_execute")
        def ask(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            asked.append(statement)

        watch = Watch(opened, kb, [f"document-{n}" for n in range(5_000)])
        assert not await watch.over()
        assert len(asked) == 1, asked
