"""`kb:profile`: a knowledge base says what it is about."""

from typing import Final

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.bases.pending import base_lives
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.profiles import ProfileStatus
from consumers.knowledge.upkeep.profiling import (
    LONGEST_ERROR,
    ExtractiveWriter,
    ProfileWriter,
    gather,
    profile_of,
    store,
    store_empty,
    store_written,
)
from consumers.services import Services
from contracts.payloads.enrichment import KnowledgeBaseProfile
from pipeline import Context, DeadLetter, on


async def write_profile(job: KnowledgeBaseProfile, ctx: Context[Services]) -> None:
    """Write what a base is about, unless nothing that it is made of has changed. Run twice, it comes to the same."""
    services, kb_id = ctx.services, job.knowledge_base_id
    async with services.database.read() as session:
        kb = await session.get(KnowledgeBase, kb_id)
        before = await profile_of(session, kb_id)
    if kb is None or kb.deleted_at is not None or kb.tenant_id != job.tenant_id:
        ctx.log.info("nothing to do", reason="gone")
        return
    wanted = KnowledgeBaseSettings.model_validate(kb.settings).profile
    if not (wanted.enabled or job.force):
        ctx.log.info("nothing to do", reason="switched off")
        return
    material = await gather(services.database, kb, wanted)
    empty = not material.stats["document_count"]
    ready = ProfileStatus.EMPTY if empty else ProfileStatus.READY
    if before and (before.status, before.aggregate_hash) == (ready, material.hash):
        ctx.log.info("nothing to do", reason="unchanged")
        return
    if empty:
        async with services.outbox.transaction(ctx.job) as session:
            if await base_lives(session, job.tenant_id, kb_id):
                await store_empty(session, kb_id, material)
        return
    writer: ProfileWriter = ExtractiveWriter(services.embedder)
    await ctx.progress(0, 1, "writing")
    written = await writer.write(
        material, language=job.language, custom_instructions=wanted.custom_instructions
    )
    async with services.outbox.transaction(ctx.job) as session:
        if await base_lives(session, job.tenant_id, kb_id):
            await store_written(session, kb_id, material, written, writer.method)
    ctx.log.info("profile written", base=kb_id, documents=material.stats["document_count"])


async def profile_lost(job: KnowledgeBaseProfile, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: what was said before is kept beside why it is not newer."""
    error = f"{PHRASES[letter.reason]}: {letter.error}"[:LONGEST_ERROR]
    async with services.outbox.transaction() as session:
        if await base_lives(session, job.tenant_id, job.knowledge_base_id):
            await store(session, job.knowledge_base_id, status=ProfileStatus.FAILED, error=error)


HANDLERS: Final = (on(KnowledgeBaseProfile, write_profile, on_archived=profile_lost),)
