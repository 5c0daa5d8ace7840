"""What the API answers about documents. Times are milliseconds since the epoch."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

from contracts.knowledge import DocumentEffect, DocumentKind, ParseStatus, SpanKind, SpanStatus, SummaryStatus
from pipeline.http.answers import Success

Delivery = Literal["done", "pending"]
"""Whether the jobs concerned have been told, or will be once the queue is there again."""


class Document(BaseModel):
    """One document. While it is under way: the stage that runs, when something last moved, and, if that was long ago, whether
    its jobs wait (`queued`) or there are none (`stalled`).
    """

    id: str
    knowledge_base_id: str
    knowledge_base: str
    tenant_id: int
    name: str
    source: str
    kind: DocumentKind
    file_type: str
    parse_status: ParseStatus
    attempt: int
    file_size: int
    error_message: str
    created_at: int
    updated_at: int
    current_stage: str | None = None
    last_activity_at: int | None = None
    stall_state: Literal["queued", "stalled"] | None = None


class TagOn(BaseModel):
    """A tag that a document was given, and how sure that is: 0 to 1."""

    name: str
    confidence: float


class DocumentDetail(Document):
    """One document, what was left out of it, and what was made of it."""

    warnings: list[str]
    chunks: int
    questions: int
    tags: list[TagOn]
    summary: str
    summary_status: SummaryStatus
    summary_method: str
    language: str | None = None


class DocumentList(BaseModel):
    """A page of documents, those that moved last first. `counts` are of all there are, by status."""

    knowledge: list[Document]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class Span(BaseModel):
    """One stage of a parse, or a part of one, with what is within it. A stage that has not begun is `pending`."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    kind: SpanKind
    status: SpanStatus
    input: dict[str, Any]
    output: dict[str, Any]
    error_code: str
    error_message: str
    started_at: int | None
    finished_at: int | None
    duration_ms: int | None
    children: Sequence["Span"]


class LastError(BaseModel):
    """What went wrong last in a parse, and in which stage."""

    model_config = ConfigDict(from_attributes=True)

    stage: str
    name: str
    code: str
    message: str
    finished_at: int | None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def error_code(self) -> str:
        """The same as `code`."""
        return self.code

    @computed_field  # type: ignore[prop-decorator]
    @property
    def error_message(self) -> str:
        """The same as `message`."""
        return self.message


class Spans(BaseModel):
    """One parse of a document as a tree, and how the document stands."""

    model_config = ConfigDict(from_attributes=True)

    knowledge_id: str
    attempt: int
    latest_attempt: int
    parse_status: ParseStatus
    current_stage: str | None
    trace: Span
    last_error: LastError | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def current_attempt(self) -> int:
        """The attempt that is valid now."""
        return self.latest_attempt


class Acted(Success):
    """It was done to a document. `attempt` is the one that is valid now."""

    knowledge_id: str
    effect: DocumentEffect
    attempt: int
    delivery: Delivery


class Asked(BaseModel):
    """How a parse is to be done again: `fresh` uses nothing that earlier ones found out."""

    model_config = ConfigDict(extra="forbid")

    fresh: bool = False


class Selected(Asked):
    """Which documents; `fresh` is for reparse."""

    ids: list[Annotated[str, Field(min_length=1, max_length=64)]] = Field(min_length=1, max_length=10_000)


class Result(BaseModel):
    """What became of one document; why, where it was not done."""

    knowledge_id: str
    effect: DocumentEffect
    attempt: int | None = None
    error: str | None = None
    code: str | None = None


class Results(BaseModel):
    """What became of each document. `success`: all are as they were asked for."""

    success: bool
    results: list[Result]
    counts: dict[DocumentEffect, int]
    delivery: Delivery
