"""What the routes of sources take and give."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from consumers.http.knowledge_bases import Name
from contracts.knowledge import DocumentEffect as Effect
from contracts.sources import ItemState, SourceStatus, SyncMode, SyncState
from pipeline.http.answers_knowledge import Delivery

Cron = Annotated[
    str, Field(max_length=128, description="minute hour day month weekday, or @daily; empty: never")
]
Zone = Annotated[str, Field(max_length=64, description="whose clock that is by, such as Europe/Berlin")]
Words = Annotated[dict[str, Any], Field(description="what the kind asks for; see docs/sources.md")]


class NewDataSource(BaseModel):
    """A source to make."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    kind: Annotated[str, Field(max_length=32)]
    config: Words = {}
    credentials: Words = {}
    cron: Cron = ""
    timezone: Zone = "UTC"
    mode: SyncMode = SyncMode.INCREMENTAL


class SourceChange(BaseModel):
    """What is to change of a source; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    config: Words | None = None
    credentials: Words | None = None
    cron: Cron | None = None
    timezone: Zone | None = None
    mode: SyncMode | None = None


class Source(BaseModel):
    """A source. Of its credentials it is only said which there are. Times are milliseconds since the epoch."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    tenant_id: int
    knowledge_base_id: str
    name: str
    kind: str
    config: dict[str, Any]
    credentials: Mapping[str, str]
    cron: str
    timezone: str
    mode: SyncMode
    status: SourceStatus
    next_run_at: int | None
    last_success_at: int | None
    health: dict[str, Any]
    created_at: int
    updated_at: int


class Sources(BaseModel):
    """Some sources of a base, the oldest first."""

    sources: Sequence[Source]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class Run(BaseModel):
    """A run of a source: the counts are of items, `errors` are the first hundred."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    data_source_id: str
    job_id: str
    trigger: str
    mode: SyncMode
    state: SyncState
    created: int
    changed: int
    unchanged: int
    renamed: int
    deleted: int
    failed: int
    errors: Sequence[dict[str, Any]]
    message: str
    detail: dict[str, Any]
    started_at: int
    updated_at: int
    finished_at: int | None


class Runs(BaseModel):
    """Some runs of a source, the newest first."""

    logs: Sequence[Run]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class Failed(BaseModel):
    """An item that failed at its last try."""

    id: str
    name: str
    error: str
    knowledge_id: str | None


class FailedItems(BaseModel):
    """Some items that failed."""

    items: Sequence[Failed]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class Health(BaseModel):
    """How a source is: what was found the last time, how many items it has of each state, and the run under way."""

    status: SourceStatus
    health: dict[str, Any]
    last_success_at: int | None
    next_run_at: int | None
    items: Mapping[ItemState, int]
    running: str | None


class Wanted(BaseModel):
    """What a run is to do. `selection` names what a partial one looks at: ids, or beginnings of ids that end with `/`."""

    model_config = ConfigDict(extra="forbid")

    mode: SyncMode = SyncMode.INCREMENTAL
    selection: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1000)]], Field(max_length=200)
    ] = []
    force_full: bool = False
    max_items: Annotated[int | None, Field(ge=1, le=1_000_000)] = None


class Asked(BaseModel):
    """A run that was asked for, and whether its job is with the queue already."""

    log_id: str
    delivery: Delivery


class Ended(BaseModel):
    """What became of it, and whether the jobs for that are with the queue already."""

    id: str
    effect: Effect
    delivery: Delivery
