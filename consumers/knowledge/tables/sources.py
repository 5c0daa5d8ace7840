"""Tables of sources, of their runs, and of what lies in them."""

from typing import Annotated, Any

from sqlalchemy import JSON, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Name, OfBase, Row, words
from contracts.sources import ItemState, SourceStatus, SyncMode, SyncState

RUNS = text("state = 'running'")


class DataSource(Row):
    """A place that documents come from. `credentials` are shown to nobody.

    `cursor` is where its next run goes on, in words of its kind. `generation` numbers the listings of it and whatever else
    looked through all; `listing` is the one that the cursor lies in.
    """

    __tablename__ = "data_sources"
    __table_args__ = (
        Index("data_sources_name", "knowledge_base_id", "name", unique=True),
        Index("data_sources_due", "status", "next_run_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[int]
    knowledge_base_id: Mapped[OfBase]
    name: Mapped[Name]
    kind: Mapped[str] = mapped_column(String(32))
    config: Mapped[dict[str, Any]]
    credentials: Mapped[dict[str, Any]]
    cron: Mapped[str] = mapped_column(String(128))  # empty: only when a person asks
    timezone: Mapped[str] = mapped_column(String(64))
    mode: Mapped[SyncMode] = mapped_column(words(SyncMode))  # of scheduled runs
    status: Mapped[SourceStatus] = mapped_column(words(SourceStatus))
    cursor: Mapped[str]
    generation: Mapped[int]
    listing: Mapped[int]
    next_run_at: Mapped[int | None]
    last_success_at: Mapped[int | None]
    health: Mapped[dict[str, Any]]
    created_at: Mapped[int]
    updated_at: Mapped[int]


OfSource = Annotated[str, mapped_column(String(64), ForeignKey("data_sources.id", ondelete="CASCADE"))]


class SyncLog(Row):
    """One run of a source. The counts are of items; at most one run of a source is `running`."""

    __tablename__ = "sync_logs"
    __table_args__ = (
        Index("sync_logs_running", "data_source_id", unique=True, sqlite_where=RUNS, postgresql_where=RUNS),
        Index("sync_logs_source", "data_source_id", "id"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    data_source_id: Mapped[OfSource]
    tenant_id: Mapped[int]
    job_id: Mapped[str] = mapped_column(String(128))
    trigger: Mapped[str] = mapped_column(String(16))
    mode: Mapped[SyncMode] = mapped_column(words(SyncMode))
    state: Mapped[SyncState] = mapped_column(words(SyncState))
    began: Mapped[bool]
    began_at: Mapped[str]  # the cursor that it began at
    created: Mapped[int]
    changed: Mapped[int]
    unchanged: Mapped[int]
    renamed: Mapped[int]
    deleted: Mapped[int]
    failed: Mapped[int]
    errors: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    message: Mapped[str]
    detail: Mapped[dict[str, Any]]
    started_at: Mapped[int]
    updated_at: Mapped[int]
    finished_at: Mapped[int | None]


class SourceItem(Row):
    """One thing of a source, and the document that it became. `version` is what the listing says of its content, `stamp`
    what its kind wants to be told at the next fetch, `generation` the newest listing that named it.
    """

    __tablename__ = "source_items"
    __table_args__ = (
        Index("source_items_generation", "data_source_id", "generation"),
        Index("source_items_state", "data_source_id", "state", "id"),
        Index("source_items_version", "data_source_id", "version"),
        Index("source_items_hash", "data_source_id", "file_hash"),
        Index("source_items_document", "knowledge_id"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    data_source_id: Mapped[OfSource]
    external_id: Mapped[str]
    name: Mapped[str]
    version: Mapped[str] = mapped_column(String(255))
    stamp: Mapped[str]
    file_hash: Mapped[Id]
    state: Mapped[ItemState] = mapped_column(words(ItemState))
    generation: Mapped[int]
    error: Mapped[str]
    knowledge_id: Mapped[str | None] = mapped_column(String(64))
    updated_at: Mapped[int]
