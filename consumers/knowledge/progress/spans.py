"""Spans: how an attempt at a document goes, stage by stage, while it goes.

The transitions of a document open and close its root and stages; handlers tell when they pass from one stage to the
next, and what parts a stage had. Entering a stage again (a retry) uses its span again; a part that starts again
closes the one that did not end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.knowledge import Knowledge, table_of
from consumers.knowledge.tables.spans import Span
from contracts.identity import derive_id, new_id
from contracts.knowledge import ROOT_SPAN, STAGE_CODES, STOPPED, SpanCode, SpanKind, SpanStatus, Stage
from contracts.wire import cut
from pipeline.store import changed, insert_new, now_ms, upsert

MAX_NAME: Final = 255
MAX_MESSAGE: Final = 1024
FIRST: Final = Stage.DOCREADER

_OPENED: Final = ("status", "input", "output", "error_code", "error_message", "error_detail", "started_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a span ended. `detail` is for operators only."""

    status: SpanStatus = SpanStatus.DONE
    output: Mapping[str, Any] = field(default_factory=dict)
    code: SpanCode | None = None
    message: str = ""
    detail: str = ""

    def columns(self) -> dict[str, Any]:
        """Return what the row says of it."""
        return {
            "status": self.status,
            "output": dict(self.output),
            "error_code": self.code or "",
            "error_message": cut(self.message, MAX_MESSAGE),
            "error_detail": cut(self.detail),
        }


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a document: what its spans belong to."""

    session: AsyncSession
    knowledge_id: str
    number: int

    async def enter(self, stage: Stage, note: Mapping[str, Any] | None = None) -> None:
        """Start a stage, or start it again; `note` is its input. What ran before it is done.

        A try that starts with the first stage again has not come to the others yet. An attempt that was superseded or
        stopped enters nothing: nobody would end it.
        """
        now = now_ms()
        if not await self._touch(now):
            return
        if stage is FIRST:
            others = Span.kind == SpanKind.STAGE, Span.span_id != stage
            await changed(self.session, delete(Span).where(*self._spans(), *others))
        else:
            await self._end([Span.kind == SpanKind.STAGE, Span.span_id != stage], Ending(), now)
        await self._open_root(now)
        row = self._row(stage, stage, ROOT_SPAN, SpanKind.STAGE, now, note)
        await upsert(self.session, table_of(Span), [row], replace=(*_OPENED, *_ENDED))

    async def leave(self, output: Mapping[str, Any] | None = None) -> None:
        """End the stage that runs, if one does."""
        now = now_ms()
        await self._end([Span.kind == SpanKind.STAGE], Ending(output=output or {}), now)
        await self._touch(now)

    async def complete(self) -> None:
        """End the stage that runs, and the attempt."""
        await self._end([Span.kind.in_((SpanKind.STAGE, SpanKind.ROOT))], Ending(), now_ms())

    async def fail(self, message: str, code: SpanCode | None = None, detail: str = "") -> None:
        """End the attempt with an error of the stage that runs; what depends on that stage is cancelled with it.

        Without a `code`, the stage names its own.
        """
        now = now_ms()
        stages = [Stage(span.span_id) for span in await self.running() if span.kind is SpanKind.STAGE]
        code = code or (STAGE_CODES[stages[0]] if stages else SpanCode.TASK_TIMEOUT)
        failed = Ending(status=SpanStatus.FAILED, code=code, message=message, detail=detail)
        await self._open_root(now)
        await self._end([Span.kind.in_((SpanKind.STAGE, SpanKind.ROOT))], failed, now)
        upstream = Ending(status=SpanStatus.CANCELLED, code=SpanCode.UPSTREAM_FAILED)
        await self._end([], upstream, now)
        after = {dependant for stage in stages for dependant in stage.dependants}
        rows = [
            self._row(stage, stage, ROOT_SPAN, SpanKind.STAGE, now, ending=upstream)
            for stage in Stage
            if stage in after
        ]
        await insert_new(self.session, table_of(Span), rows)

    async def running(self) -> list[Span]:
        """Return the spans that run, the last started first."""
        found = select(Span).where(*self._spans(), Span.status == SpanStatus.RUNNING)
        return list(await self.session.scalars(found.order_by(Span.started_at.desc(), Span.span_id)))

    async def stall(self, message: str) -> None:
        """Fail the stages that run, or else what runs innermost, because nothing of it moved any more; cancel the rest."""
        running = await self.running()
        within = {span.parent_span_id for span in running}
        at_fault = [span.span_id for span in running if span.kind is SpanKind.STAGE] or [
            span.span_id for span in running if span.kind is not SpanKind.ROOT and span.span_id not in within
        ]
        now = now_ms()
        await self._open_root(now)
        failed = Ending(status=SpanStatus.FAILED, code=SpanCode.TASK_STALLED, message=message)
        await self._end([Span.span_id.in_([ROOT_SPAN, *at_fault])], failed, now)
        await self.abandon(message)

    async def abandon(self, message: str) -> None:
        """Cancel all that still runs, because nothing of it will ever move."""
        stalled = Ending(status=SpanStatus.CANCELLED, code=SpanCode.TASK_STALLED, message=message)
        await self._end([], stalled, now_ms())

    async def cancel(self, code: SpanCode = SpanCode.USER_CANCELLED) -> None:
        """End all that runs, because a person told the document to stop, or for what `code` says."""
        stopped = Ending(status=SpanStatus.CANCELLED, code=code)
        await self._end([], stopped, now_ms())

    async def open_part(
        self,
        stage: Stage,
        name: str,
        note: Mapping[str, Any] | None = None,
        *,
        kind: SpanKind = SpanKind.SUBSPAN,
    ) -> str:
        """Start a part of a stage and return its id. One of the same name that did not end is superseded."""
        now, name = now_ms(), fit(name)
        superseded = Ending(status=SpanStatus.CANCELLED, code=SpanCode.TASK_SUPERSEDED)
        await self._end([Span.name == name], superseded, now)
        row = self._row(new_id(), name, stage, kind, now, note)
        await insert_new(self.session, table_of(Span), [row])
        return str(row["span_id"])

    async def close_part(self, span_id: str, ending: Ending = Ending()) -> None:
        """End a part; one that ended before stays as it is."""
        await self._end([Span.span_id == span_id], ending, now_ms())

    async def record_part(
        self,
        stage: Stage,
        name: str,
        started_at: int,
        ending: Ending = Ending(),
        *,
        kind: SpanKind = SpanKind.SUBSPAN,
    ) -> None:
        """Note a part that started at `started_at` (ms since the epoch) and ends now: one statement instead of three."""
        row = self._row(new_id(), fit(name), stage, kind, started_at, ending=ending)
        await insert_new(self.session, table_of(Span), [row])

    async def _open_root(self, now: int) -> None:
        root = self._row(ROOT_SPAN, ROOT_SPAN, None, SpanKind.ROOT, now)
        await insert_new(self.session, table_of(Span), [root])

    def _spans(self) -> Sequence[ColumnElement[bool]]:
        return Span.knowledge_id == self.knowledge_id, Span.attempt == self.number

    def _row(
        self,
        span_id: str,
        name: str,
        parent: str | None,
        kind: SpanKind,
        started_at: int,
        note: Mapping[str, Any] | None = None,
        *,
        ending: Ending | None = None,
    ) -> dict[str, Any]:
        now = now_ms()
        return {
            "knowledge_id": self.knowledge_id,
            "attempt": self.number,
            "span_id": span_id,
            "parent_span_id": parent,
            "name": name,
            "kind": kind,
            "input": dict(note or {}),
            "metadata": {},
            "started_at": started_at,
            "created_at": now,
            "updated_at": now,
            "finished_at": now if ending else None,
            "duration_ms": max(now - started_at, 0) if ending else None,
            **(ending or Ending(status=SpanStatus.RUNNING)).columns(),
        }

    async def _end(self, which: Sequence[ColumnElement[bool]], ending: Ending, now: int) -> None:
        """End those of these spans that run."""
        await self.session.execute(
            update(Span)
            .where(*self._spans(), Span.status == SpanStatus.RUNNING, *which)
            .values(finished_at=now, updated_at=now, duration_ms=now - Span.started_at, **ending.columns()),
            execution_options={"synchronize_session": False},
        )

    async def _touch(self, now: int) -> bool:
        """A stage is progress of the document; a part is not (facts 11.2). False for an attempt that does not go on."""
        goes_on = Knowledge.attempt == self.number, Knowledge.parse_status.not_in(STOPPED)
        document = update(Knowledge).where(Knowledge.id == self.knowledge_id, *goes_on)
        return bool(await changed(self.session, document.values(updated_at=now)))


def current_root() -> ColumnElement[bool]:
    """Return the condition under which a span is the root of the current attempt at a document, to join them by."""
    return and_(
        Span.knowledge_id == Knowledge.id, Span.attempt == Knowledge.attempt, Span.span_id == ROOT_SPAN
    )


_ENDED: Final = ("finished_at", "duration_ms", "updated_at")


def fit(name: str) -> str:
    """Return a name that the column holds; a long one is cut and told apart by eight digits of its whole."""
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 9]}-{derive_id(name)[:8]}"
