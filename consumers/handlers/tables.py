"""Descriptions of data tables (facts 1.9)."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import delete, select

from consumers.knowledge import ids
from consumers.knowledge.files.store import FileMissing
from consumers.knowledge.reading.sheet_words import described
from consumers.knowledge.reading.sheets import Sheet, UnreadableSheet, read_sheets
from consumers.knowledge.search.sides import hold_place
from consumers.knowledge.search.store import EntryKind, IndexEntry
from consumers.knowledge.tables.data import TableSummary
from consumers.knowledge.tables.knowledge import Knowledge, table_of
from consumers.services import Services
from contracts.knowledge import EXTRACTIVE, KEEPS_RESULTS
from contracts.payloads.enrichment import DataTableSummary
from pipeline import Context, Skip, on, run_in_child
from pipeline.store import insert_new

APART: Final = 10
"""Between the places of tables in the index: what stands side by side is read as one passage."""


async def describe_tables(job: DataTableSummary, ctx: Context[Services]) -> None:
    """Say what each table of a document holds, and let it be found by that. What is no table fails without retries."""
    services = ctx.services
    async with services.database.read() as session:
        found = await session.get(Knowledge, job.knowledge_id)
    if found is None or job.attempt not in {0, found.attempt} or found.parse_status not in KEEPS_RESULTS:
        ctx.log.info("nothing to do", reason="gone, stopped or superseded")
        return
    try:
        sheets = await _sheets(found, services)
    except (UnreadableSheet, FileMissing) as problem:
        raise Skip(str(problem)) from problem
    texts = [described(sheet, found.language) for sheet in sheets]
    side = await services.side(found.knowledge_base_id)
    vectors = await services.embedder_for(found.id, side).embed(texts)
    async with services.outbox.transaction(ctx.job) as session:
        await hold_place(session, side, found.id)
        standing = select(Knowledge.attempt, Knowledge.parse_status).where(Knowledge.id == found.id)
        row = (await session.execute(standing.with_for_update())).one_or_none()
        if row is None or row.attempt != found.attempt or row.parse_status not in KEEPS_RESULTS:
            return
        await session.execute(delete(TableSummary).where(TableSummary.knowledge_id == found.id))
        await services.search.drop(session, found.id, kinds={EntryKind.TABLE})
        rows = [
            _row(found, at, sheet, text) for at, (sheet, text) in enumerate(zip(sheets, texts, strict=True))
        ]
        await insert_new(session, table_of(TableSummary), rows)
        await services.search.put(
            session,
            [
                IndexEntry(
                    id=str(row["id"]),
                    kb_id=found.knowledge_base_id,
                    knowledge_id=found.id,
                    attempt=found.attempt,
                    kind=EntryKind.TABLE,
                    text=text,
                    chunk_id=str(row["id"]),
                    position=at * APART,
                    heading=sheets[at].name,
                    vector=vectors[at],
                    model=side.model,
                    generation=side.generation,
                )
                for at, (row, text) in enumerate(zip(rows, texts, strict=True))
            ],
        )
    ctx.log.info("described tables", tables=len(sheets))


HANDLERS: Final = (on(DataTableSummary, describe_tables),)


async def _sheets(found: Knowledge, services: Services) -> Sequence[Sheet]:
    settings = services.settings
    async with services.reading, services.files.local(found.file_key) as path:
        try:
            sheets: Sequence[Sheet] = await run_in_child(
                read_sheets,
                path,
                found.file_name,
                timeout=settings.parser_timeout_s,
                memory_mb=settings.parser_memory_mb,
            )
        except (TimeoutError, MemoryError):
            raise UnreadableSheet("its tables take too long or too much memory to read: split it") from None
    return sheets


def _row(found: Knowledge, position: int, sheet: Sheet, text: str) -> dict[str, object]:
    return {
        "id": ids.table(found.id, found.attempt, position),
        "knowledge_id": found.id,
        "attempt": found.attempt,
        "position": position,
        "name": sheet.name,
        "rows": sheet.rows,
        "columns": list(sheet.columns),
        "description": text,
        "method": EXTRACTIVE,
    }
