"""The table of what is known of data tables: the sheets of a workbook, or a file of separated values."""

from typing import Any

from sqlalchemy import JSON, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Name, OfDocument, Row


class TableSummary(Row):
    """One data table of a document."""

    __tablename__ = "table_summaries"
    __table_args__ = (
        UniqueConstraint("knowledge_id", "attempt", "position", name="table_summaries_position"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_id: Mapped[OfDocument]
    attempt: Mapped[int]
    position: Mapped[int]
    name: Mapped[Name]
    rows: Mapped[int]
    columns: Mapped[list[dict[str, Any]]] = mapped_column(JSON())
    description: Mapped[str]
    method: Mapped[str] = mapped_column(String(32))
