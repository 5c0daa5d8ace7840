"""The data tables of a document over HTTP: what each holds."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from sqlalchemy import select

from consumers.http.callers import PREFIX, Ident, Reader, services_of
from consumers.knowledge.tables.data import TableSummary
from consumers.knowledge.tables.knowledge import Knowledge
from pipeline.http.errors import Problem, documented

router = APIRouter(prefix=f"{PREFIX}/knowledge", tags=["knowledge"], responses=documented(401, 403, 404))


class DataTable(BaseModel):
    """One table: its columns with their types, ranges and values, and all that in words."""

    name: str
    rows: int
    columns: list[dict[str, Any]]
    description: str
    method: str


class DataTables(BaseModel):
    """The tables of a document, in its order."""

    tables: Sequence[DataTable]


@router.get("/{id}/tables")
async def tables(request: Request, who: Reader, id: Ident) -> DataTables:  # noqa: A002 - the name in the path
    """What the tables of a document hold, once they are described."""
    async with services_of(request).database.read() as sql:
        found = await sql.get(Knowledge, id)
        if found is None or who.tenant_id not in {None, found.tenant_id}:
            raise Problem(404, f"no document {id[:64]} (any more)", "knowledge_not_found")
        rows = await sql.scalars(
            select(TableSummary).where(TableSummary.knowledge_id == id).order_by(TableSummary.position)
        )
        shown = [
            DataTable(
                name=row.name,
                rows=row.rows,
                columns=row.columns,
                description=row.description,
                method=row.method,
            )
            for row in rows
        ]
    return DataTables(tables=shown)
