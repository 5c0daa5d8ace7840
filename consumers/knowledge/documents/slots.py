"""Slots: what a document waits for before it moves on. An open slot is a row, so none is lost and none counted twice.

Closing one is what a child job does once: results are stored in the transaction that closed its slot, and only
there, so a job that runs again finds its slot closed and stores nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import bindparam, delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.bases.wiki_lane import ask_for_pages
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.tables.knowledge import Knowledge, Slot, table_of
from contracts.jobs import JobPayload
from contracts.knowledge import ParseStatus, SlotKind, Stage, SummaryStatus, sources
from contracts.payloads.documents import KnowledgePostProcess
from contracts.payloads.wiki import WikiIngest
from pipeline.store import Outbox, changed, insert_new, now_ms


@dataclass(frozen=True, slots=True)
class Child:
    """A job to start for a document, under its derived id. Without a `slot` the document does not wait for it."""

    id: str
    payload: JobPayload
    slot: SlotKind | None = None


class Finish(StrEnum):
    """What closing a slot came to."""

    COUNTED = "counted"  # closed; others are open
    LAST = "last"  # closed, and the document moved on
    CLOSED = "closed"  # it was not open (any more)

    @property
    def ours(self) -> bool:
        """Whether this call closed the slot: its results are to be stored in the same transaction."""
        return self is not Finish.CLOSED


class Finalizing(StrEnum):
    """What handing a document to its enrichments came to."""

    STARTED = "started"
    COMPLETED = "completed"  # there was nothing to wait for
    NOT_OURS = "not_ours"  # handed over before, superseded or stopped: nothing was changed


async def open_slots(
    session: AsyncSession, knowledge_id: str, attempt: int, children: Sequence[Child]
) -> None:
    """Start jobs, each with its slot; the caller's transaction has moved the document where it waits for them."""
    now = now_ms()
    rows = [
        {"id": c.id, "knowledge_id": knowledge_id, "attempt": attempt, "kind": c.slot, "created_at": now}
        for c in children
        if c.slot
    ]
    await insert_new(session, table_of(Slot), rows)
    jobs = [(child.id, child.payload) for child in children if child.slot is not SlotKind.WIKI]
    await Outbox.add_many(session, jobs)
    for child in children:
        if isinstance(
            child.payload, WikiIngest
        ):  # which works on many documents: each is an operation of its lane
            await ask_for_pages(session, child.payload, knowledge_id, attempt)


async def begin_finalizing(
    session: AsyncSession,
    knowledge_id: str,
    attempt: int,
    children: Sequence[Child],
    *,
    warnings: Sequence[str] | None = None,
) -> Finalizing:
    """Processing → finalizing with a slot for each child that has one, or → completed if none has.

    `warnings` take the place of the document's.
    """
    now = now_ms()
    kinds = {child.slot for child in children} - {None}
    values: dict[str, Any] = (
        {"parse_status": ParseStatus.FINALIZING}
        if kinds
        else {"parse_status": ParseStatus.COMPLETED, "processed_at": now}
    )
    if warnings is not None:
        values["warnings"] = list(warnings)
    if SlotKind.SUMMARY in kinds:
        values["summary_status"] = SummaryStatus.PENDING
    moved = await changed(
        session,
        update(Knowledge)
        .where(
            Knowledge.id == knowledge_id, Knowledge.attempt == attempt, Knowledge.parsed_attempt == attempt
        )
        .where(Knowledge.parse_status.in_(sources("begin_finalizing")))
        .values(updated_at=now, **values),
    )
    if not moved:
        return Finalizing.NOT_OURS
    spans = Attempt(session, knowledge_id, attempt)
    await spans.enter(Stage.POSTPROCESS, Counter(child.payload.spec.type for child in children))
    await open_slots(session, knowledge_id, attempt, children)
    if kinds:
        return Finalizing.STARTED
    await spans.complete()
    return Finalizing.COMPLETED


async def finish_slot(session: AsyncSession, slot_id: str, knowledge_id: str, attempt: int) -> Finish:
    """Close a slot; with the last one the document moves on: to post-processing, or to completed.

    Whether it moves is never decided from what was read before: the update has the condition. It is tried also when
    the slot is closed already, which is harmless.
    """
    document = {"knowledge_id": knowledge_id, "of_attempt": attempt}
    row = (await session.execute(_STANDS, document)).one_or_none()
    closed = await changed(session, _CLOSE, {"slot_id": slot_id})
    if row is None or row.attempt != attempt:
        return Finish.CLOSED
    moved = False
    if row.parse_status is ParseStatus.FINALIZING:
        moved = bool(await changed(session, _COMPLETE, {**document, "now": now_ms()}))
        if moved:
            await Attempt(session, knowledge_id, attempt).complete()
    elif row.parse_status is ParseStatus.PROCESSING and row.parsed_attempt == attempt:
        moved = not await session.scalar(_IS_OPEN, document)
        if moved:
            await Attempt(session, knowledge_id, attempt).leave()
            job = KnowledgePostProcess(
                tenant_id=row.tenant_id,
                knowledge_base_id=row.knowledge_base_id,
                knowledge_id=knowledge_id,
                attempt=attempt,
                language=row.language,
            )
            await Outbox.add(session, ids.postprocess_job(knowledge_id, attempt), job)
    if not closed:
        return Finish.CLOSED
    return Finish.LAST if moved else Finish.COUNTED


# Written once, because a statement takes as long to build as to run, and each chunk of each document closes a slot.

_knowledges, _slots = table_of(Knowledge).c, table_of(Slot).c

_OPEN = exists().where(
    _slots.knowledge_id == bindparam("knowledge_id"), _slots.attempt == bindparam("of_attempt")
)
_IS_OPEN = select(_OPEN)
_STANDS = (
    select(_knowledges.attempt, _knowledges.parse_status, _knowledges.parsed_attempt)
    .add_columns(_knowledges.tenant_id, _knowledges.knowledge_base_id, _knowledges.language)
    .where(_knowledges.id == bindparam("knowledge_id"))
    .with_for_update()  # two that close the last two slots at once must see each other
)
_CLOSE = delete(table_of(Slot)).where(_slots.id == bindparam("slot_id"))
_COMPLETE = (
    update(table_of(Knowledge))
    .where(_knowledges.id == bindparam("knowledge_id"), _knowledges.attempt == bindparam("of_attempt"))
    .where(_knowledges.parse_status.in_(sources("finish_slot")), ~_OPEN)
    .values(
        parse_status=ParseStatus.COMPLETED,
        error_message="",
        processed_at=bindparam("now"),
        updated_at=bindparam("now"),
    )
)
