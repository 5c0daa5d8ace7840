"""The table of spans: how each attempt at a document went, stage by stage (facts 11.2)."""

from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, OfDocument, Row, words
from contracts.knowledge import SpanKind, SpanStatus


class Span(Row):
    """One stage of an attempt, or a part of one. `error_detail` is for operators and never leaves by the API."""

    __tablename__ = "knowledge_processing_spans"
    __table_args__ = (Index("knowledge_processing_spans_status", "status", "started_at"),)

    knowledge_id: Mapped[OfDocument] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    span_id: Mapped[Id] = mapped_column(primary_key=True)
    parent_span_id: Mapped[Id | None]
    name: Mapped[str] = mapped_column(String(255))
    kind: Mapped[SpanKind] = mapped_column(words(SpanKind))
    status: Mapped[SpanStatus] = mapped_column(words(SpanStatus))
    input: Mapped[dict[str, Any]]
    output: Mapped[dict[str, Any]]
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata")
    error_code: Mapped[str] = mapped_column(String(64))
    error_message: Mapped[str]
    error_detail: Mapped[str]
    started_at: Mapped[int]
    finished_at: Mapped[int | None]
    duration_ms: Mapped[int | None]
    created_at: Mapped[int]
    updated_at: Mapped[int]
