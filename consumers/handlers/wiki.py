"""The pages of a base, written in batches and finished once a burst of changes has settled."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from consumers.knowledge import ids
from consumers.knowledge.bases.pending import base_lives
from consumers.knowledge.bases.settings import KnowledgeBaseSettings, WikiLimits
from consumers.knowledge.bases.tenants import is_alive
from consumers.knowledge.bases.wiki_lane import STALE_S, WRITE, finalize_lane, ingest_lane, trigger
from consumers.knowledge.documents.slots import finish_slot
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.wiki.batch import Batch, wake
from consumers.knowledge.wiki.finalizing import Ending
from consumers.knowledge.wiki.mapping import collapse
from consumers.knowledge.wiki.writing import ExtractiveWriter, Writer
from consumers.lasting import detached
from consumers.services import Services
from contracts.identity import derive_id, new_id
from contracts.payloads.wiki import WikiFinalize, WikiIngest
from pipeline import Context, DeadLetter, Retry, Snooze, on
from pipeline.store import now_ms
from pipeline.store.pending_ops import (
    claim_batch,
    count,
    delete_lane,
    delete_ops,
    fail_all,
    peek,
    release_all,
)

ACTIVE_TTL_S: Final = 45.0
"""How long the place of a killed batch stays taken at most."""
BUSY_S: Final = 15.0
RUN_S: Final = 30.0
"""How long one job goes on with the next batch; then other bases have their turn."""
AT_ONCE: Final = 500  # operations dropped in one transaction
WRITER: Final[Writer] = ExtractiveWriter()


class WikiIngestConcurrent(Snooze):
    """So many batches of this base are worked on already: again in 15 seconds, and no failure."""

    def __init__(self) -> None:
        super().__init__(BUSY_S, "as many batches of its knowledge base as may be are worked on")


async def write_pages(job: WikiIngest, ctx: Context[Services]) -> None:
    """Work one batch of documents into the pages of a base, and see that the next ones follow."""
    services, kb_id = ctx.services, job.knowledge_base_id
    settings = await _wiki_of(job, services)
    if settings is None or not settings.wiki:
        await _give_way(job, ctx, gone=settings is None)
    if settings is None:
        return
    limits = settings.wiki_limits
    if ctx.job.crashes:  # what kills its worker takes no other document along
        limits = limits.model_copy(update={"ingest_batch_size": 1})
    async with _place(ctx, f"wiki:active:{kb_id}", limits.ingest_max_inflight) as number:
        earlier, end = f"{derive_id(ctx.id)}:", time.monotonic() + RUN_S
        owner = f"{earlier}{number}"
        try:
            async with (
                services.database.transaction() as session
            ):  # an earlier attempt may not have been able to
                await release_all(session, ingest_lane(kb_id), owners=earlier)
            first = more = True
            while more and (first or time.monotonic() < end):
                more = await _write_batch(job, ctx, limits, owner, first=first)
                first = False
        except BaseException:
            await detached(_release(services, job, owner))
            raise


async def _write_batch(
    job: WikiIngest, ctx: Context[Services], limits: WikiLimits, owner: str, *, first: bool
) -> bool:
    """Write one batch, if there is one; whether another may follow at once."""
    services, lane = ctx.services, ingest_lane(job.knowledge_base_id)
    stale_before = now_ms() - round(STALE_S * 1000)
    async with services.database.transaction() as session:
        ops = await claim_batch(
            session, lane, limits.ingest_batch_size, owner=owner, stale_before=stale_before
        )
    if first:
        async with services.outbox.transaction(ctx.job) as session:
            if ops:
                await wake(session, job, limits, stale_before=stale_before)
            elif await count(session, lane):
                await trigger(session, job, new_id(), key="recheck", delay=STALE_S + 5)
    if not ops:
        return False
    batch = Batch(ctx, job, WRITER, limits, owner, stale_before, collapse(ops))
    await batch.work()
    return not (batch.failed or batch.waiting)


async def finish_wiki(job: WikiFinalize, ctx: Context[Services]) -> None:
    """Make the index anew, link pages to each other, and take out what leads nowhere."""
    services = ctx.services
    settings = await _wiki_of(job, services)
    if settings is None:
        async with services.outbox.transaction(ctx.job) as session:
            await delete_lane(session, finalize_lane(job.knowledge_base_id))
        return
    async with _place(ctx, f"wiki:finalize:active:{job.knowledge_base_id}", 1) as number:
        owner = f"{derive_id(ctx.id)}:{number}"
        try:
            # Who held this place before is gone: what it had claimed is free.
            await Ending(ctx, job, owner, stale_before=now_ms()).work()
        except BaseException:
            await detached(_release(services, job, owner))
            raise


async def pages_lost(job: WikiIngest, letter: DeadLetter, services: Services) -> None:
    """A batch whose job died is another job's: nothing that waits for it waits in vain. What it held has failed once more:
    a document that kills whoever reads it is given up in the end, too.
    """
    lane = ingest_lane(job.knowledge_base_id)
    async with services.outbox.transaction() as session:
        if await base_lives(session, job.tenant_id, job.knowledge_base_id):
            await fail_all(session, lane, owners=f"{derive_id(letter.job_id)}:")
            await trigger(session, job, new_id(), delay=STALE_S / 90)


HANDLERS: Final = (on(WikiIngest, write_pages, on_archived=pages_lost), on(WikiFinalize, finish_wiki))


async def _wiki_of(job: WikiIngest | WikiFinalize, services: Services) -> KnowledgeBaseSettings | None:
    """What a base wants; None where it or its tenant is gone."""
    async with services.database.read() as session:
        base = await session.get(KnowledgeBase, job.knowledge_base_id)
        alive = base is not None and base.deleted_at is None and await is_alive(session, job.tenant_id)
        return KnowledgeBaseSettings.model_validate(base.settings) if base is not None and alive else None


@asynccontextmanager
async def _place(ctx: Context[Services], name: str, width: int) -> AsyncIterator[int]:
    """Hold a place. Raises WikiIngestConcurrent."""
    async with AsyncExitStack() as held:
        try:
            number = await held.enter_async_context(ctx.lock(name, ACTIVE_TTL_S, width))
        except Retry:
            raise WikiIngestConcurrent from None
        yield number


async def _give_way(job: WikiIngest, ctx: Context[Services], *, gone: bool) -> None:
    """Drop what waits for a wiki that is switched off or gone; no document waits for it any longer. What is to be taken
    out of pages that are there still is taken out of them.
    """
    lane, dropped = ingest_lane(job.knowledge_base_id), 0
    more = True
    while more:
        async with ctx.services.outbox.transaction(ctx.job) as session:
            ops = await peek(session, lane, AT_ONCE, None if gone else WRITE)
            for op in sorted(ops, key=lambda op: op.dedup_key):
                if op.op == WRITE:
                    attempt = int(op.payload.get("attempt", 0))
                    slot = ids.enrichment_job(op.dedup_key, attempt, "wiki")
                    await finish_slot(session, slot, op.dedup_key, attempt)
            dropped += await delete_ops(session, [op.id for op in ops])
            more = bool(ops)
    ctx.log.info("nothing to write", operations=dropped, reason="gone" if gone else "switched off")


async def _release(services: Services, job: WikiIngest | WikiFinalize, owner: str) -> None:
    lane = (ingest_lane if isinstance(job, WikiIngest) else finalize_lane)(job.knowledge_base_id)
    async with services.database.transaction() as session:
        await release_all(session, lane, owners=owner)
