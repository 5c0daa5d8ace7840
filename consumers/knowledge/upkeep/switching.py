"""Stages of a base are switched: on, they do what comes; off, no document waits for them any longer.

The settings are changed first and the slots released afterwards, some documents in a transaction. Whatever is killed in
between leaves slots whose jobs still run: nothing waits for ever. A fence covers one document alone, which will have no
more jobs of that stage in this attempt; one over the base would also cover those that come if it is switched on again.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases import wiki_lane
from consumers.knowledge.bases.knowledge_bases import change_settings
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.documents.lifecycle import locked
from consumers.knowledge.documents.slots import finish_slot
from consumers.knowledge.tables.knowledge import Image, Knowledge, KnowledgeBase, Slot
from contracts.fences import Coverage
from contracts.jobs import Scope
from contracts.knowledge import ImageStatus, SlotKind
from contracts.payloads.documents import ImageMultimodal
from contracts.payloads.enrichment import ChunkExtract, QuestionGeneration
from pipeline.store import Outbox, changed

STAGES: Final[Mapping[str, tuple[SlotKind, str]]] = {
    "read_pictures": (SlotKind.IMAGE, ImageMultimodal.spec.type),
    "ask_questions": (SlotKind.QUESTION, QuestionGeneration.spec.type),
    "extract_graph": (SlotKind.GRAPH, ChunkExtract.spec.type),
}
"""Settings that switch a stage, the slots that wait for it, and the type of its jobs."""
TOGETHER: Final = 25
"""Documents of one transaction."""
NOT_READ: Final = "its knowledge base was set not to read pictures"


async def change(session: AsyncSession, kb: KnowledgeBase, changes: Mapping[str, Any]) -> list[str]:
    """Change the settings of a base; return those stages whose slots are to be released then."""
    before = KnowledgeBaseSettings.model_validate(kb.settings)
    await change_settings(session, kb, **changes)
    wiki = changes.get("wiki", before.wiki)
    if wiki != before.wiki:
        await wiki_lane.switch(session, kb, on=wiki)
    return [name for name in STAGES if getattr(before, name) and not changes.get(name, True)]


async def release(outbox: Outbox, kb_id: str, stages: Collection[str]) -> int:
    """Let no document of a base wait for these stages; return how many did. Raises StoreUnavailable."""
    cut, released = await outbox.choose_cut(), 0
    for stage in stages:
        kind, job_type = STAGES[stage]
        after = ""
        while True:
            async with outbox.transaction() as session:
                some = await _waiting(session, kb_id, kind, after)
                for ident in some:
                    released += await _release(session, ident, kind, job_type, cut)
            if len(some) < TOGETHER:
                break
            after = some[-1]
    return released


async def _waiting(session: AsyncSession, kb_id: str, kind: SlotKind, after: str) -> list[str]:
    """Documents of a base that wait for a stage."""
    waits = exists().where(Slot.knowledge_id == Knowledge.id, Slot.kind == kind)
    found = select(Knowledge.id).where(Knowledge.knowledge_base_id == kb_id, Knowledge.id > after, waits)
    return list(await session.scalars(found.order_by(Knowledge.id).limit(TOGETHER)))


async def _release(session: AsyncSession, ident: str, kind: SlotKind, job_type: str, cut: int) -> bool:
    row = await locked(session, None, ident)
    open_ones = Slot.knowledge_id == ident, Slot.kind == kind
    slots = list(await session.scalars(select(Slot.id).where(*open_ones).order_by(Slot.id)))
    if row is None or not slots:
        return False
    if kind is SlotKind.IMAGE:
        waits = Image.knowledge_id == ident, Image.attempt == row.attempt, Image.status == ImageStatus.PENDING
        await changed(
            session, update(Image).where(*waits).values(status=ImageStatus.SKIPPED, reason=NOT_READ)
        )
    await session.execute(delete(Slot).where(*open_ones, Slot.id != slots[-1]))
    await Outbox.cancel(session, Scope("knowledge", ident), Coverage(only=frozenset({job_type})), cut)
    await finish_slot(session, slots[-1], ident, row.attempt)
    return True
