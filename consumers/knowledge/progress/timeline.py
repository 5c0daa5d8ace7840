"""The timeline of an attempt: its spans as a tree that always has all stages, whether they happened or not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.knowledge import Knowledge
from consumers.knowledge.tables.spans import Span
from contracts.knowledge import ROOT_SPAN, ParseStatus, SpanKind, SpanStatus, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One span with what is within it. Times are milliseconds since the epoch; None: it has not started or ended."""

    name: str
    kind: SpanKind
    status: SpanStatus = SpanStatus.PENDING
    input: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    error_code: str = ""
    error_message: str = ""
    started_at: int | None = None
    finished_at: int | None = None
    duration_ms: int | None = None
    children: Sequence["Node"] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong last in an attempt, and in which stage."""

    stage: str
    name: str
    code: str
    message: str
    finished_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """An attempt at a document, and how the document stands."""

    knowledge_id: str
    attempt: int
    latest_attempt: int
    parse_status: ParseStatus
    current_stage: str | None
    trace: Node
    last_error: Failure | None


MIRRORED: Final = {
    ParseStatus.COMPLETED: SpanStatus.DONE,
    ParseStatus.FAILED: SpanStatus.FAILED,
    ParseStatus.CANCELLED: SpanStatus.CANCELLED,
    ParseStatus.PROCESSING: SpanStatus.RUNNING,
    ParseStatus.FINALIZING: SpanStatus.RUNNING,
}
"""What a document without spans shows."""


async def timeline(session: AsyncSession, knowledge_id: str, attempt: int | None = None) -> Timeline | None:
    """Return the timeline of an attempt, the latest unless told; None for a document that is not there."""
    document = await session.get(Knowledge, knowledge_id)
    if document is None:
        return None
    number = attempt or document.attempt
    wanted = select(Span).where(Span.knowledge_id == knowledge_id, Span.attempt == number)
    spans = (await session.scalars(wanted.order_by(Span.started_at, Span.created_at, Span.span_id))).all()
    return Timeline(
        knowledge_id=knowledge_id,
        attempt=number,
        latest_attempt=document.attempt,
        parse_status=document.parse_status,
        current_stage=current_stage(spans),
        trace=tree(spans) if spans or number != document.attempt else mirror(document.parse_status),
        last_error=last_failure(spans),
    )


def tree(spans: Sequence[Span]) -> Node:
    """Return the root with every stage in order: where there is no span it is to come, or the end came without it."""
    within: dict[str, list[Span]] = {}
    for span in spans:
        within.setdefault(span.parent_span_id or "", []).append(span)
    stages = {span.span_id: span for span in within.get(ROOT_SPAN, ())}
    root = next((span for span in spans if span.kind is SpanKind.ROOT), None)
    unseen = SpanStatus.SKIPPED if root and root.status is SpanStatus.DONE else SpanStatus.PENDING
    nodes = [
        _node(stages[stage], within)
        if stage in stages
        else Node(name=stage, kind=SpanKind.STAGE, status=unseen)
        for stage in Stage
    ]
    if root is None:
        return Node(name=ROOT_SPAN, kind=SpanKind.ROOT, children=nodes)
    return _node(root, within, nodes)


def mirror(status: ParseStatus) -> Node:
    """Return the tree of a document of which only its status is known."""
    seen = MIRRORED.get(status, SpanStatus.PENDING)
    ended = seen if seen is SpanStatus.DONE else SpanStatus.PENDING
    stages = [Node(name=stage, kind=SpanKind.STAGE, status=ended) for stage in Stage]
    return Node(name=ROOT_SPAN, kind=SpanKind.ROOT, status=seen, children=stages)


def current_stage(spans: Iterable[Span]) -> str | None:
    """Return the stage that runs."""
    running = (span for span in spans if span.kind is SpanKind.STAGE and span.status is SpanStatus.RUNNING)
    return next((span.name for span in running), None)


def last_failure(spans: Sequence[Span]) -> Failure | None:
    """Return the error that ended last; of those that ended together, the innermost."""
    failed = [span for span in spans if span.status is SpanStatus.FAILED]
    if not failed:
        return None
    inner = [SpanKind.ROOT, SpanKind.STAGE, SpanKind.SUBSPAN, SpanKind.GENERATION]
    last = max(failed, key=lambda span: (span.finished_at or 0, inner.index(span.kind)))
    stage = last.name if last.kind is SpanKind.STAGE else last.parent_span_id or ""
    return Failure(
        stage=stage,
        name=last.name,
        code=last.error_code,
        message=last.error_message,
        finished_at=last.finished_at,
    )


def _node(span: Span, within: Mapping[str, list[Span]], children: Sequence[Node] | None = None) -> Node:
    if children is None:
        children = [_node(part, within) for part in within.get(span.span_id, ())]
    return Node(
        name=span.name,
        kind=span.kind,
        status=span.status,
        input=span.input,
        output=span.output,
        error_code=span.error_code,
        error_message=span.error_message,
        started_at=span.started_at,
        finished_at=span.finished_at,
        duration_ms=span.duration_ms,
        children=children,
    )
