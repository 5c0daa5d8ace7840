"""Work on a complete document that is moved to another base meanwhile: nothing of it comes into the base that it left."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from consumers.handlers import enrichment, moving, tables
from consumers.knowledge.bases.knowledge_bases import change_settings, ensure_base
from consumers.knowledge.bases.tags import ensure_tags, tags_on
from consumers.knowledge.embedding.summarising import Summary
from consumers.knowledge.reading.sheets import Sheet
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.upkeep.carrying import move_document
from contracts.knowledge import ParseStatus
from contracts.outcomes import Snooze
from contracts.payloads.enrichment import DataTableSummary, KnowledgeAutoTag, SummaryGeneration
from contracts.payloads.maintenance import KnowledgeMove
from contracts.tasks import TaskStatus
from pipeline.errors import StoreUnavailable
from sqlalchemy import update

from tests.support.shelves import ANIMALS, TENANT, Shelf, open_shelf


@pytest.fixture
async def shelf(database_url, tmp_path) -> AsyncIterator[Shelf]:
    async with open_shelf(database_url, tmp_path / "data") as opened:
        yield opened


@pytest.fixture
async def move(shelf: Shelf) -> Callable[[], Awaitable[str]]:
    """Move the one complete document of a base to another one."""
    ident = await shelf.write("one", *ANIMALS)
    other: KnowledgeBase = await shelf.do(ensure_base, TENANT, "other")
    async with shelf.services.database.transaction() as sql:
        await sql.execute(update(Knowledge).values(parse_status=ParseStatus.COMPLETED))

    async def move() -> str:
        assert await shelf.do(move_document, shelf.services.search, ident, shelf.kb, other) == ""
        return other.id

    return move


async def only(shelf: Shelf) -> dict[str, Any]:
    ((ident,),) = await shelf.rows("SELECT id FROM knowledges")
    return {"tenant_id": TENANT, "knowledge_base_id": shelf.kb.id, "knowledge_id": ident, "attempt": 1}


async def test_tags_are_of_the_base_where_the_document_is(shelf, move):
    fields = await only(shelf)
    for base, tag in (
        (shelf.kb, "frogs and herons"),
        (await shelf.do(ensure_base, TENANT, "other"), "otters"),
    ):
        await shelf.do(change_settings, base, auto_tag=True)
        await shelf.do(ensure_tags, base.id, {tag: "animals in wet meadows"})
    await move()
    await enrichment.tag_document(KnowledgeAutoTag(**fields), shelf.context())
    async with shelf.services.database.read() as sql:
        assert {name for name, _ in await tags_on(sql, fields["knowledge_id"])} <= {"otters"}


async def test_a_summary_that_is_refreshed_meanwhile_is_written_again_where_the_document_is(
    shelf, move, monkeypatch
):
    async def moving(*_: object) -> Summary:
        monkeypatch.setattr(enrichment, "summarise", plain)
        await move()
        return Summary("All about animals.", "extractive", 1)

    async def plain(*_: object) -> Summary:
        return Summary("All about animals.", "extractive", 1)

    monkeypatch.setattr(enrichment, "summarise", moving)
    job = SummaryGeneration(**await only(shelf), refresh=True)
    with pytest.raises(Snooze, match="moved"):
        await enrichment.write_summary(job, shelf.context())
    await enrichment.write_summary(job, shelf.context())
    assert await entries(shelf, "summary") == [("other", "All about animals.")]


async def test_tables_that_are_described_meanwhile_are_described_again_where_the_document_is(
    shelf, move, monkeypatch
):
    async def moving(*_: object) -> list[Sheet]:
        monkeypatch.setattr(tables, "_sheets", plain)
        await move()
        return [Sheet("Orders", 3, ())]

    async def plain(*_: object) -> list[Sheet]:
        return [Sheet("Orders", 3, ())]

    monkeypatch.setattr(tables, "_sheets", moving)
    job = DataTableSummary(**await only(shelf))
    with pytest.raises(Snooze, match="moved"):
        await tables.describe_tables(job, shelf.context())
    await tables.describe_tables(job, shelf.context())
    assert [base for base, _ in await entries(shelf, "table")] == ["other"]


async def entries(shelf: Shelf, kind: str) -> list[tuple[str, str]]:
    return await shelf.rows(
        "SELECT b.name, e.text FROM search_entries e JOIN knowledge_bases b ON b.id = e.kb_id WHERE e.kind = :kind",
        kind=kind,
    )


async def test_a_store_that_is_away_refuses_no_document_its_move_also_on_the_last_attempt(
    shelf, move, monkeypatch
):
    fields = await only(shelf)
    other: KnowledgeBase = await shelf.do(ensure_base, TENANT, "other")
    job = KnowledgeMove(
        tenant_id=TENANT,
        task_id="t",
        knowledge_ids=(fields["knowledge_id"],),
        source_kb_id=shelf.kb.id,
        target_kb_id=other.id,
    )

    async def away(*_: object) -> str:
        raise StoreUnavailable("the database is away")

    ctx = shelf.context()
    ctx.final = True
    with monkeypatch.context() as patched:
        patched.setattr(moving, "move_document", away)
        with pytest.raises(StoreUnavailable):
            await moving.move_documents(job, ctx)
    await moving.move_documents(job, ctx)
    assert (await shelf.task("t")).status is TaskStatus.COMPLETED
