"""What is still to be done for a knowledge base, asked for only while base and tenant live (facts 4.5)."""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.bases.tenants import is_alive
from consumers.knowledge.tables.knowledge import KnowledgeBase
from contracts.knowledge import SlotKind
from pipeline.errors import StreamlaneError
from pipeline.store.pending_ops import Lane, add, delete_key


class KnowledgeBaseGone(StreamlaneError):  # noqa: N818 - a state of the world
    """A knowledge base was deleted, or its tenant was; nothing comes into it any more."""


BASE: Final = "knowledge_base"
WIKI: Final = "wiki:ingest"
INGEST: Final = "ingest"


def lane_of(task_type: str, kb_id: str) -> Lane:
    """Return the lane of a base for a job type."""
    return Lane(task_type, BASE, kb_id)


async def base_lives(session: AsyncSession, tenant_id: int, kb_id: str) -> bool:
    """Whether a base and its tenant live; whoever deletes one of them waits for the end of this transaction."""
    live = (
        KnowledgeBase.id == kb_id,
        KnowledgeBase.tenant_id == tenant_id,
        KnowledgeBase.deleted_at.is_(None),
    )
    base = await session.scalar(select(KnowledgeBase.id).where(*live).with_for_update(read=True))
    return base is not None and await is_alive(session, tenant_id, keep=True)


async def keep_alive(session: AsyncSession, kb: KnowledgeBase) -> None:
    """Let nobody delete a base or its tenant before the end of this transaction. Raises KnowledgeBaseGone: somebody has."""
    if not await base_lives(session, kb.tenant_id, kb.id):
        raise KnowledgeBaseGone(f"the knowledge base {kb.name!r} was deleted meanwhile: name another one")


async def writes_wiki(session: AsyncSession, tenant_id: int, kb_id: str) -> bool:
    """Whether a base that lives has a wiki; whoever switches that waits for the end of this transaction."""
    return SlotKind.WIKI not in await switched_off(session, tenant_id, kb_id)


async def switched_off(session: AsyncSession, tenant_id: int, kb_id: str) -> frozenset[SlotKind]:
    """Return the stages that a base does not want; whoever switches one waits for the end of this transaction. A base that
    does not live wants no wiki, and of the others what it wanted before.
    """
    lives = await base_lives(session, tenant_id, kb_id)
    settings = await session.scalar(select(KnowledgeBase.settings).where(KnowledgeBase.id == kb_id))
    wants = KnowledgeBaseSettings.model_validate(settings or {})
    on = {
        SlotKind.IMAGE: wants.read_pictures,
        SlotKind.QUESTION: wants.ask_questions,
        SlotKind.GRAPH: wants.extract_graph,
        SlotKind.WIKI: wants.wiki and lives,
    }
    return frozenset(kind for kind, wanted in on.items() if not wanted)


async def add_if_active(
    session: AsyncSession,
    tenant_id: int,
    kb_id: str,
    task_type: str,
    op: str,
    dedup_key: str = "",
    *,
    payload: Mapping[str, Any] | None = None,
) -> bool:
    """Ask for an operation of a base; False, and nothing asked, where base or tenant is gone."""
    if not await base_lives(session, tenant_id, kb_id):
        return False
    await add(session, tenant_id, lane_of(task_type, kb_id), op, dedup_key, payload)
    return True


async def forget_ingest(session: AsyncSession, kb_id: str, knowledge_id: str) -> None:
    """Take back that a document is to be written into the wiki of its base."""
    await delete_key(session, lane_of(WIKI, kb_id), knowledge_id, INGEST)
