"""Another chance for a job that died: what it can still come to depends on the document that it worked on.

When a job dies its document goes on without it, or fails: the same job once more would find nothing left to do. Each
function decides, inside the caller's transaction, and asks for what is to be done in its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.wiki_lane import ask_for_all, ingest_lane
from consumers.knowledge.documents import lifecycle
from consumers.knowledge.documents.lifecycle import DELETE_GIVEN_UP
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, Slot
from contracts.identity import derive_id
from contracts.jobs import JobPayload
from contracts.knowledge import OPEN, ParseStatus, SummaryStatus
from contracts.payloads.documents import (
    DocumentPayload,
    DocumentProcess,
    ImageMultimodal,
    KnowledgePostProcess,
)
from contracts.payloads.enrichment import ChunkExtract, QuestionGeneration, SummaryGeneration
from contracts.payloads.maintenance import KnowledgeListDelete
from contracts.payloads.wiki import WikiIngest
from pipeline.store import Outbox, batches
from pipeline.store.pending_ops import count

WHOLE: Final = (DocumentProcess, KnowledgePostProcess)
"""Jobs without which a document fails."""
PARTS: Final = (ImageMultimodal, QuestionGeneration, ChunkExtract)
"""Jobs that store nothing once their slot is closed."""


@dataclass(frozen=True, slots=True)
class Again:
    """What another chance of a job comes to. `refusal`: to nothing, and why; `afresh`: other work was asked for in its
    place; neither: the job itself has something to do.
    """

    refusal: str = ""
    afresh: bool = False


def concerns(job: JobPayload) -> bool:
    """Whether documents have a say in another chance of this job."""
    about_one = isinstance(job, DocumentPayload | ChunkExtract) and bool(job.knowledge_id)
    return about_one or isinstance(job, KnowledgeListDelete | WikiIngest)


async def another_chance(
    session: AsyncSession, job_id: str, job: JobPayload, cut: int, timeout: float | None = None
) -> Again:
    """Decide what becomes of a job that died. `cut` is that of `Outbox.choose_cut`; `timeout` of a new parse, in seconds."""
    if isinstance(job, KnowledgeListDelete):
        return await _delete(session, job, cut)
    if isinstance(job, WikiIngest):
        return await _pages(session, job)
    if not isinstance(job, DocumentPayload | ChunkExtract) or not job.knowledge_id:
        return Again()
    found = await lifecycle.locked(session, job.tenant_id, job.knowledge_id)
    if found is None:
        return Again("its document is gone")
    if refusal := _stands(found, job.attempt):
        return Again(refusal)
    if isinstance(job, WHOLE):
        return await _whole(session, found, cut, timeout)
    if isinstance(job, SummaryGeneration):
        return await _summary(session, found, job_id, job)
    if isinstance(job, PARTS) and await session.get(Slot, job_id) is None:
        return Again("its document went on without it: parse the document again")
    return Again()


def _stands(found: Knowledge, attempt: int) -> str:
    if found.parse_status is ParseStatus.DELETING:
        return "its document is being deleted"
    if found.attempt != attempt:
        return (
            f"its document was parsed again since: attempt {found.attempt} has taken the place of {attempt}"
        )
    return ""


async def _whole(session: AsyncSession, found: Knowledge, cut: int, timeout: float | None) -> Again:
    if found.parse_status in OPEN:
        return Again()
    if found.parse_status is ParseStatus.COMPLETED:
        return Again("its document is complete")
    step = await lifecycle.reparse(session, found.tenant_id, found.id, cut, timeout)
    return Again(afresh=True) if step.ok else Again("its knowledge base is gone")


async def _summary(session: AsyncSession, found: Knowledge, job_id: str, job: SummaryGeneration) -> Again:
    """Its slot is closed, so it is written as one that replaces an older one."""
    if found.summary_status in {SummaryStatus.PENDING, SummaryStatus.PROCESSING}:
        return Again()
    if found.parse_status not in {ParseStatus.FINALIZING, ParseStatus.COMPLETED}:
        return Again(f"its document is {found.parse_status}: parse the document again")
    afresh = job.model_copy(update={"refresh": True})
    await Outbox.add(session, derive_id(job_id, found.updated_at, "again"), afresh)
    return Again(afresh=True)


async def _delete(session: AsyncSession, job: KnowledgeListDelete, cut: int) -> Again:
    left = await _still_to_delete(session, job.tenant_id, job.knowledge_ids)
    if not left:
        return Again("none of its documents waits to be deleted any more")
    await lifecycle.delete(session, job.tenant_id, left, cut, job.initiator)
    return Again(afresh=True)


async def _pages(session: AsyncSession, job: WikiIngest) -> Again:
    """Documents that were given up have no pages and wait for none: they are asked for again."""
    base = await session.get(KnowledgeBase, job.knowledge_base_id)
    if base is None or base.deleted_at is not None or base.tenant_id != job.tenant_id:
        return Again("its knowledge base is gone")
    if await ask_for_all(session, base):
        return Again(afresh=True)
    if await count(session, ingest_lane(base.id)):
        return Again()
    return Again("no document of its base waits for pages")


async def _still_to_delete(session: AsyncSession, tenant_id: int, knowledge_ids: Sequence[str]) -> list[str]:
    """Those whose removal was given up; who parsed or put one in again since wants it."""
    left: list[str] = []
    given_up = (Knowledge.parse_status == ParseStatus.FAILED) & Knowledge.error_message.startswith(
        DELETE_GIVEN_UP
    )
    for some in batches(knowledge_ids):
        query = select(Knowledge.id).where(Knowledge.id.in_(some), Knowledge.tenant_id == tenant_id)
        left += await session.scalars(
            query.where(given_up | (Knowledge.parse_status == ParseStatus.DELETING))
        )
    return sorted(left)
