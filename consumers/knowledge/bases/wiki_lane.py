"""What waits to be written into a wiki: operations on documents, changes of pages, and the jobs that work on them.

An operation and the trigger that wakes a job for it are asked for in one transaction. Triggers of one name coalesce
until one of them starts: whatever was committed before that is seen by it, and what comes later makes the next one.
"""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases import pending
from consumers.knowledge.bases.knowledge_bases import change_settings
from consumers.knowledge.bases.pending import add_if_active, base_lives, lane_of
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.tables.wiki import WikiPageSource
from contracts.identity import derive_id, new_id
from contracts.jobs import Unique
from contracts.knowledge import ParseStatus
from contracts.payloads.wiki import WikiFinalize, WikiIngest
from pipeline.store import Outbox, now_ms
from pipeline.store.pending_ops import Lane, add, waiting_keys, waits_since

INGEST: Final = WikiIngest.spec.type
FINALIZE: Final = WikiFinalize.spec.type

WRITE: Final = pending.INGEST
RETRACT: Final = "retract"
"""Operations on a document: what it says is to be written into the pages, or taken out of them."""
SLUG, PRUNE, FORGET = "slug", "folder_prune", "forget"
"""Operations of the end: a page came, changed or went; folders may have become empty; former indexes name what is gone."""
ADDED, REMOVED = "added", "removed"

MAX_FAILS: Final = 5
"""Failures after which a document is given up."""
STALE_S: Final = 90 * 60.0
"""Age of a claim that nobody holds any more; longer than a job may run."""

FOLLOW_UP_S: Final = 5.0
"""When a document whose pages were held by another batch is tried again; the others follow at once."""
FAILED_S: Final = 60.0
"""When a batch of which nothing succeeded is tried again."""
UPLOAD_S: Final = 30.0
"""How long documents of one burst gather before they are written about together."""
RETRACT_S: Final = 5.0
DEBOUNCE_S: Final = 20.0
"""How long pages have to rest before the index is made anew …"""
LONGEST_WAIT_S: Final = 80.0
"""… and how long it waits at most while they do not."""


def ingest_lane(kb_id: str) -> Lane:
    """Return the lane of the documents that wait for their pages."""
    return lane_of(INGEST, kb_id)


def finalize_lane(kb_id: str) -> Lane:
    """Return the lane of the pages that changed since the index was made."""
    return lane_of(FINALIZE, kb_id)


async def ask_for_pages(session: AsyncSession, job: WikiIngest, knowledge_id: str, attempt: int) -> bool:
    """Let an attempt at a document be written about. False, and nothing asked, where its base or tenant is gone."""
    payload = {"attempt": attempt, "language": job.language}
    asked = await add_if_active(
        session, job.tenant_id, job.knowledge_base_id, INGEST, WRITE, knowledge_id, payload=payload
    )
    if asked:
        name = derive_id("wiki", knowledge_id, attempt)
        await trigger(session, job, name, delay=UPLOAD_S)
    return asked


async def ask_anew_for_pages(session: AsyncSession, document: Knowledge) -> bool:
    """Let a document that is complete be written about in the wiki of the base where it is now, once more if it was before.
    False where that base has none.
    """
    if not await pending.writes_wiki(session, document.tenant_id, document.knowledge_base_id):
        return False
    payload = {"attempt": document.attempt, "language": document.language}
    await add(
        session, document.tenant_id, ingest_lane(document.knowledge_base_id), WRITE, document.id, payload
    )
    job = WikiIngest(
        tenant_id=document.tenant_id, knowledge_base_id=document.knowledge_base_id, language=document.language
    )
    await trigger(session, job, new_id(), delay=UPLOAD_S)
    return True


async def switch(session: AsyncSession, base: KnowledgeBase, *, on: bool) -> int:
    """Switch the wiki of a base on or off. On: its documents are written about; off: none waits for its pages any longer,
    and the pages stay. Says how many documents are to be written about.
    """
    await change_settings(session, base, wiki=on)
    if on:
        return await ask_for_all(session, base)
    await trigger(session, WikiIngest(tenant_id=base.tenant_id, knowledge_base_id=base.id), new_id())
    return 0


async def ask_for_all(session: AsyncSession, base: KnowledgeBase) -> int:
    """Let every document of a base be written about that is not yet: its wiki was just switched on. Says how many."""
    if not await base_lives(session, base.tenant_id, base.id):
        return 0
    lane = ingest_lane(base.id)
    said = exists().where(
        WikiPageSource.knowledge_base_id == base.id, WikiPageSource.knowledge_id == Knowledge.id
    )
    documents = select(Knowledge.id, Knowledge.attempt, Knowledge.language).where(
        Knowledge.knowledge_base_id == base.id,
        Knowledge.parse_status.in_((ParseStatus.FINALIZING, ParseStatus.COMPLETED)),
        Knowledge.parsed_attempt > 0,
        ~said,
    )
    found = {
        row.id: row for row in await session.execute(documents.order_by(Knowledge.created_at, Knowledge.id))
    }
    waiting = await waiting_keys(session, INGEST, WRITE, found)
    for ident in found.keys() - waiting:
        row = found[ident]
        payload = {"attempt": row.attempt, "language": row.language}
        await add(session, base.tenant_id, lane, WRITE, ident, payload)
    if len(found) > len(waiting):
        job = WikiIngest(tenant_id=base.tenant_id, knowledge_base_id=base.id)
        await trigger(session, job, new_id(), delay=0)
    return len(found) - len(waiting)


async def retract(session: AsyncSession, tenant_id: int, kb_id: str, knowledge_id: str) -> bool:
    """Take what a document says out of the wiki, in the transaction that has moved its row to where it says nothing.

    False where it never said anything, or its base is gone.
    """
    said = exists().where(
        WikiPageSource.knowledge_base_id == kb_id, WikiPageSource.knowledge_id == knowledge_id
    )
    if not await session.scalar(select(said)):
        return False
    asked = await add_if_active(session, tenant_id, kb_id, INGEST, RETRACT, knowledge_id)
    if asked:
        job = WikiIngest(tenant_id=tenant_id, knowledge_base_id=kb_id)
        await trigger(session, job, new_id(), key="retract", delay=RETRACT_S)
    return asked


async def trigger(
    session: AsyncSession, job: WikiIngest, name: str, *, key: str = "", delay: float = 0
) -> None:
    """Wake a job for the lane in `delay` seconds, unless one with this `key` is about to wake anyway."""
    unique = Unique(f"{job.knowledge_base_id}:{key}" if key else job.knowledge_base_id, until="started")
    await Outbox.add(session, name, job, delay=delay, unique=unique)


async def trigger_place(session: AsyncSession, job: WikiIngest, place: int, *, delay: float) -> None:
    """Let the job that works at a place of a base work in `delay` seconds, or once more if it does so now."""
    unique = Unique(f"{job.knowledge_base_id}:{place}", on_conflict="debounce")
    await Outbox.add(session, new_id(), job, delay=delay, unique=unique)


async def note_changes(
    session: AsyncSession, job: WikiIngest, changes: Mapping[str, str], *, forget: bool
) -> None:
    """Let the index, the links and the folders follow pages that changed: slug → `ADDED` or `REMOVED`; `forget`: of the
    index only what it will be is kept.
    """
    lane = finalize_lane(job.knowledge_base_id)
    for slug, change in sorted(changes.items()):
        await add(session, job.tenant_id, lane, SLUG, slug, {"change": change})
    if REMOVED in changes.values():
        await add(session, job.tenant_id, lane, PRUNE)
    if forget:
        await add(session, job.tenant_id, lane, FORGET)
    if changes or forget:
        since = await waits_since(session, lane)
        waited = (now_ms() - since) / 1000 if since is not None else 0.0
        await finalize_soon(session, job, delay=max(0.0, min(DEBOUNCE_S, LONGEST_WAIT_S - waited)))


async def finalize_soon(session: AsyncSession, job: WikiIngest | WikiFinalize, *, delay: float) -> None:
    """Make the index anew in `delay` seconds; a newcomer moves the waiting one, and makes a running one run again."""
    payload = WikiFinalize(
        tenant_id=job.tenant_id, knowledge_base_id=job.knowledge_base_id, language=job.language
    )
    unique = Unique(job.knowledge_base_id, on_conflict="debounce")
    await Outbox.add(session, new_id(), payload, delay=delay, unique=unique)
