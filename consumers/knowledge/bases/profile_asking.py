"""When a base says anew what it is about: what changed within half a minute is one change."""

from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.tables.knowledge import KnowledgeBase
from contracts.identity import new_id
from contracts.payloads.enrichment import KnowledgeBaseProfile
from pipeline.store import Outbox, now_ms

WINDOW_S: Final = 30
"""What is asked for within the same window is asked for once, and written when that window is over (facts 1.17)."""


async def ask_for_profile(session: AsyncSession, kb_id: str, language: str | None = None) -> bool:
    """Let a base say anew what it is about, if it wants to; False if it does not, or is gone."""
    live = KnowledgeBase.id == kb_id, KnowledgeBase.deleted_at.is_(None)
    columns = select(KnowledgeBase.tenant_id, KnowledgeBase.settings).where(*live)
    row = (await session.execute(columns)).one_or_none()
    if row is None or not KnowledgeBaseSettings.model_validate(row.settings).profile.enabled:
        return False
    job = KnowledgeBaseProfile(tenant_id=row.tenant_id, knowledge_base_id=kb_id, language=language)
    # the name of the window: a job of an earlier one that was given up keeps nobody from this one
    name = f"kb-profile:{kb_id}:{now_ms() // (WINDOW_S * 1000)}"
    await Outbox.add(session, name, job, delay=WINDOW_S)
    return True


async def ask_at_once(session: AsyncSession, kb: KnowledgeBase) -> str:
    """Let a base say anew what it is about, whether it wants to or not: a person asked. Return the id of the job."""
    job_id = new_id()
    job = KnowledgeBaseProfile(tenant_id=kb.tenant_id, knowledge_base_id=kb.id, force=True)
    await Outbox.add(session, job_id, job)
    return job_id
