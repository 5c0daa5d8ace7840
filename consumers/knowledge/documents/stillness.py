"""Documents on which nothing moves: found, and moved on in one guarded transition each.

Every transition asks once more that the document stands where it stood when it was looked at, and that nothing was
written to its timeline since: whatever moved meanwhile wins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.bases.pending import INGEST, WIKI
from consumers.knowledge.bases.tenants import of_the_living
from consumers.knowledge.documents.documents import fail
from consumers.knowledge.documents.enrichments import fail_summary
from consumers.knowledge.documents.slots import finish_slot
from consumers.knowledge.documents.verdicts import Standing, asked_again, left_out, stranded, stuck
from consumers.knowledge.progress.spans import Attempt, Ending
from consumers.knowledge.search.store import SearchStore
from consumers.knowledge.tables.knowledge import Image, Knowledge, Slot, table_of
from consumers.knowledge.tables.spans import Span
from contracts.knowledge import (
    OPEN,
    ImageStatus,
    ParseStatus,
    SlotKind,
    SpanCode,
    SpanKind,
    SpanStatus,
    Stage,
)
from contracts.payloads.maintenance import KnowledgeListDelete
from pipeline.store import Outbox, changed, now_ms
from pipeline.store.pending_ops import waiting_keys

DELETE_AGAIN: Final = "housekeeping.delete_again"
NOTHING_TO_WAIT_FOR: Final = "there was nothing left to wait for"


@dataclass(frozen=True, slots=True)
class Still:
    """A document on which nothing moves."""

    id: str
    tenant_id: int
    kb_id: str
    attempt: int
    standing: Standing


async def motionless(session: AsyncSession, cutoff: int) -> dict[str, tuple[ParseStatus, int]]:
    """Return status and last move (ms) of the documents that should move on by themselves and have not since `cutoff`, by
    id, the stillest first.
    """
    found = (
        select(Knowledge.id, Knowledge.parse_status, Knowledge.updated_at)
        .where(Knowledge.parse_status.in_({*OPEN, ParseStatus.DELETING}), Knowledge.updated_at < cutoff)
        .where(of_the_living(table_of(Knowledge).c.tenant_id))
        .order_by(Knowledge.updated_at, Knowledge.id)
    )
    return {row.id: (row.parse_status, row.updated_at) for row in await session.execute(found)}


async def standing(session: AsyncSession, knowledge_ids: Sequence[str]) -> list[Still]:
    """Return how these documents stand now. Whether one has a job in the queue is not known here."""
    of_it = Span.knowledge_id == Knowledge.id
    query = (
        select(Knowledge.id, Knowledge.tenant_id, Knowledge.knowledge_base_id, Knowledge.attempt)
        .add_columns(Knowledge.parse_status, Knowledge.updated_at, Knowledge.parsed_attempt)
        .add_columns(
            select(func.max(Span.updated_at)).where(of_it).scalar_subquery().label("span_at"),
            select(func.count())
            .where(of_it, Span.attempt == Knowledge.attempt, Span.name == DELETE_AGAIN)
            .scalar_subquery()
            .label("deletes"),
            select(func.count(Slot.id))
            .where(Slot.knowledge_id == Knowledge.id, Slot.attempt == Knowledge.attempt)
            .scalar_subquery()
            .label("slots"),
        )
        .where(Knowledge.id.in_(knowledge_ids), Knowledge.parse_status.in_({*OPEN, ParseStatus.DELETING}))
        .order_by(Knowledge.updated_at, Knowledge.id)
    )
    rows = (await session.execute(query)).all()
    held = await waiting_keys(session, WIKI, INGEST, [row.id for row in rows])
    return [_read(row, held=row.id in held) for row in rows]


def _read(row: Any, *, held: bool) -> Still:
    standing = Standing(
        status=row.parse_status,
        updated_at=row.updated_at,
        span_at=row.span_at or 0,
        held=held,
        parsed=row.parsed_attempt == row.attempt,
        slots=row.slots,
        deletes=row.deletes,
    )
    return Still(row.id, row.tenant_id, row.knowledge_base_id, row.attempt, standing)


async def give_up(session: AsyncSession, index: SearchStore, document: Still, threshold_s: float) -> str:
    """Open → failed, saying where it got stuck and since when; return that, "" if it moved meanwhile."""
    if not await _moved_on(session, document):
        return ""
    running = await Attempt(session, document.id, document.attempt).running()
    stages = [Stage(span.span_id) for span in running if span.kind is SpanKind.STAGE]
    tasks = [span.name for span in running if span.kind not in {SpanKind.STAGE, SpanKind.ROOT}]
    message = stuck(document.standing, stages, tasks, threshold_s)
    await fail(session, index, document.id, document.attempt, message, code=SpanCode.TASK_STALLED)
    return message


async def go_without(session: AsyncSession, document: Still) -> str:
    """Close the slots that nobody will close, so that a document which is usable moves on without what is lost; return
    what it says of that, "" if it moved meanwhile.
    """
    if not await _moved_on(session, document):
        return ""
    where = Slot.knowledge_id == document.id, Slot.attempt == document.attempt
    slots = {slot.id: slot for slot in await session.scalars(select(Slot).where(*where).order_by(Slot.id))}
    message = left_out([slot.kind for slot in slots.values()])
    await _note_lost(session, document, slots)
    last = next(reversed(slots), "")
    await session.execute(delete(Slot).where(*where, Slot.id != last))
    await finish_slot(session, last, document.id, document.attempt)
    return message or NOTHING_TO_WAIT_FOR


async def _note_lost(session: AsyncSession, document: Still, slots: Mapping[str, Slot]) -> None:
    place = document.id, document.attempt
    kinds = {slot.kind for slot in slots.values()}
    if SlotKind.IMAGE in kinds:
        images = select(Image).where(Image.knowledge_id == document.id, Image.attempt == document.attempt)
        for image in await session.scalars(images.where(Image.status == ImageStatus.PENDING)):
            if ids.image_job(*place, image.position) in slots:
                image.status, image.reason = ImageStatus.FAILED, "its job was lost"
    if SlotKind.SUMMARY in kinds:
        await fail_summary(session, *place)
    if rest := [slot.kind for slot in slots.values() if slot.kind is not SlotKind.IMAGE]:
        warnings = await session.scalar(select(Knowledge.warnings).where(Knowledge.id == document.id))
        await session.execute(
            update(Knowledge)
            .where(Knowledge.id == document.id)
            .values(warnings=[*(warnings or ()), left_out(rest)])
        )
    spans = Attempt(session, *place)
    for kind in kinds:
        since = min(slot.created_at for slot in slots.values() if slot.kind is kind)
        stage = Stage.MULTIMODAL if kind is SlotKind.IMAGE else Stage.POSTPROCESS
        lost = [one.kind for one in slots.values() if one.kind is kind]
        ending = Ending(status=SpanStatus.CANCELLED, code=SpanCode.TASK_STALLED, message=left_out(lost))
        await spans.record_part(stage, f"{stage}.{kind}", since, ending)


async def delete_again(session: AsyncSession, document: Still) -> str:
    """Ask once more for the removal of a document, and note it; return what is said, "" if it moved meanwhile."""
    if not await _moved_on(session, document):
        return ""
    number = document.standing.deletes + 1
    lost = Ending(status=SpanStatus.CANCELLED, code=SpanCode.TASK_STALLED, message=asked_again(number))
    spans = Attempt(session, document.id, document.attempt)
    await spans.record_part(Stage.POSTPROCESS, DELETE_AGAIN, document.standing.updated_at, lost)
    job = KnowledgeListDelete(tenant_id=document.tenant_id, knowledge_ids=(document.id,))
    await Outbox.add(session, ids.delete_again_job(document.id, document.standing.updated_at), job)
    return lost.message


async def give_up_deleting(session: AsyncSession, document: Still, threshold_s: float) -> str:
    """Deleting → failed: the removal was lost too often; return what is said, "" if it moved meanwhile."""
    message = stranded(threshold_s)
    gave_up = await _moved_on(session, document, parse_status=ParseStatus.FAILED, error_message=message)
    return message if gave_up else ""


async def _moved_on(session: AsyncSession, document: Still, **values: object) -> bool:
    """Take a document that stands as it did when it was looked at; its row is ours until the transaction ends."""
    seen = document.standing
    as_seen: Sequence[ColumnElement[bool]] = (
        Knowledge.id == document.id,
        Knowledge.attempt == document.attempt,
        Knowledge.parse_status == seen.status,
        Knowledge.updated_at == seen.updated_at,
        ~exists().where(Span.knowledge_id == document.id, Span.updated_at > seen.span_at),
    )
    return bool(
        await changed(session, update(Knowledge).where(*as_seen).values(updated_at=now_ms(), **values))
    )
