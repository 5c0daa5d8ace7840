"""Whole bases and many documents over HTTP: deleted, or parsed again. Each is a task that is watched at `/api/v1/tasks/{id}`."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from consumers.http.callers import PREFIX, Ident, base_of, services_of, writer
from consumers.http.tasks import Started, delivery_of
from consumers.knowledge.documents import passage_removal
from consumers.knowledge.tables.graph import Tag
from consumers.knowledge.upkeep import clearance, several
from consumers.knowledge.upkeep.several import MOST, ProcessConfig, StrangeDocuments, distinct
from contracts.knowledge import DocumentEffect as Effect
from contracts.payloads.maintenance import Initiator
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(
    prefix=f"{PREFIX}/knowledge-bases/{{id}}", tags=["knowledge bases"], responses=documented(401, 403, 404)
)

BASE_DELETED = "knowledge.base_deleted"
DELETED = "knowledge.batch_deleted"
REPARSED = "knowledge.batch_reparsed"
CHUNK_DELETED = "knowledge.chunk_deleted"
AS_SENT = 400
"""Ids of a request at most, before those that are said twice are left out."""


class Named(BaseModel):
    """Which documents of the base: at most 200 different ones."""

    model_config = ConfigDict(extra="forbid")

    ids: list[Annotated[str, Field(max_length=64)]] = Field(min_length=1, max_length=AS_SENT)


class ToReparse(Named):
    """Which documents, and what their parse is to do otherwise than the base wants."""

    process_config: ProcessConfig | None = None


class KnowledgeBaseDeleted(Started):
    """The base is hidden, and its name free; the task removes what it had."""

    effect: Effect


class Deleted(Started):
    """How many documents are being deleted."""

    deleted_count: int


class TaggedDeleted(Deleted):
    """How many documents are being deleted. `more`: others have the tag; ask again."""

    more: bool


class ChunkDeleted(BaseModel):
    """The passage is deleted; `delivery` says whether the job that takes it out of the index is with the queue."""

    chunk_id: str
    delivery: Delivery


class Reparsed(Started):
    """How many documents are being parsed again."""

    reparse_count: int


@router.delete("")
async def delete_base(
    request: Request,
    who: Annotated[Principal, writer(BASE_DELETED)],
    id: Ident,  # noqa: A002 - the name in the path
) -> KnowledgeBaseDeleted:
    """Delete a knowledge base with everything in it. Asked again before it is gone, it says which task removes it."""
    outbox = services_of(request).outbox
    async with recorded(Call.of(request, who), BASE_DELETED, ("knowledge_base", id)) as entry:
        cut = await outbox.choose_cut()
        async with outbox.transaction() as sql:
            begun = await clearance.begin(sql, who.tenant_id, id, cut)
        if begun.effect is Effect.NOT_FOUND:
            raise Problem(404, f"no knowledge base {id[:64]} (any more)", "knowledge_base_not_found")
        entry.details |= {"task_id": begun.task_id, "effect": begun.effect.value}
    return KnowledgeBaseDeleted(task_id=begun.task_id, delivery=delivery_of(sql), effect=begun.effect)


@router.post("/knowledge/batch-delete", responses=documented(400))
async def delete_several(
    request: Request,
    who: Annotated[Principal, writer(DELETED)],
    id: Ident,  # noqa: A002 - the name in the path
    named: Named,
) -> Deleted:
    """Delete documents of a base with all that was made of them."""
    services = services_of(request)
    async with recorded(Call.of(request, who), DELETED, ("knowledge_base", id)) as entry:
        kb, ids = await base_of(services, who, id), _distinct(named)
        entry.details["knowledge_ids"] = " ".join(ids)
        cut = await services.outbox.choose_cut()
        try:
            async with services.outbox.transaction() as sql:
                asked = await several.delete_several(sql, kb, ids, cut, _initiator(who))
        except StrangeDocuments as strange:
            raise _strange(strange) from None
    return Deleted(task_id=asked.task_id, delivery=delivery_of(sql), deleted_count=asked.count)


@router.post("/knowledge/batch-reparse", responses=documented(400))
async def reparse_several(
    request: Request,
    who: Annotated[Principal, writer(REPARSED)],
    id: Ident,  # noqa: A002 - the name in the path
    named: ToReparse,
) -> Reparsed:
    """Parse documents of a base again; what was read of them stays until their new parses replace it."""
    services = services_of(request)
    async with recorded(Call.of(request, who), REPARSED, ("knowledge_base", id)) as entry:
        kb, ids = await base_of(services, who, id), _distinct(named)
        entry.details["knowledge_ids"] = " ".join(ids)
        try:
            async with services.outbox.transaction() as sql:
                asked = await several.reparse_several(sql, kb, ids, _initiator(who), named.process_config)
        except StrangeDocuments as strange:
            raise _strange(strange) from None
    return Reparsed(task_id=asked.task_id, delivery=delivery_of(sql), reparse_count=asked.count)


@router.delete("/tags/{tag_id}/knowledge")
async def delete_tagged(
    request: Request,
    who: Annotated[Principal, writer(DELETED)],
    id: Ident,  # noqa: A002 - the name in the path
    tag_id: Annotated[str, Path(max_length=64)],
) -> TaggedDeleted:
    """Delete the documents that have a tag, 200 at a time; the tag itself stays."""
    services = services_of(request)
    async with recorded(Call.of(request, who), DELETED, ("knowledge_base", id), tag_id=tag_id) as entry:
        kb = await base_of(services, who, id)
        cut = await services.outbox.choose_cut()
        async with services.outbox.transaction() as sql:
            tag = await sql.get(Tag, tag_id)
            if tag is None or tag.knowledge_base_id != kb.id:
                raise Problem(404, f"no tag {tag_id[:64]} in this base (any more)", "tag_not_found")
            ids = await several.tagged(sql, kb.id, tag_id, MOST + 1)
            if not ids:
                raise Problem(404, "no document has this tag (any more)", "knowledge_not_found")
            asked = await several.delete_several(sql, kb, ids[:MOST], cut, _initiator(who))
        entry.details["deleted"] = str(asked.count)
    return TaggedDeleted(
        task_id=asked.task_id, delivery=delivery_of(sql), deleted_count=asked.count, more=len(ids) > MOST
    )


@router.delete("/knowledge/{knowledge_id}/chunks/{chunk_id}", responses=documented(409))
async def delete_chunk(
    request: Request,
    who: Annotated[Principal, writer(CHUNK_DELETED)],
    id: Ident,  # noqa: A002 - the name in the path
    knowledge_id: Annotated[str, Path(max_length=64)],
    chunk_id: Annotated[str, Path(max_length=64)],
) -> ChunkDeleted:
    """Delete one passage of a document that is complete; its summary and its pages are written again without it."""
    services = services_of(request)
    async with recorded(Call.of(request, who), CHUNK_DELETED, ("knowledge", knowledge_id), chunk_id=chunk_id):
        kb = await base_of(services, who, id)
        async with services.outbox.transaction() as sql:
            effect = await passage_removal.remove_passage(sql, kb, knowledge_id, chunk_id)
        if effect is Effect.NOT_FOUND:
            raise Problem(404, f"no chunk {chunk_id[:64]} in this document (any more)", "chunk_not_found")
        if effect is Effect.REFUSED:
            raise Problem(409, "only a document that is complete loses a chunk", "action_not_allowed")
    return ChunkDeleted(chunk_id=chunk_id, delivery=delivery_of(sql))


def _distinct(named: Named) -> list[str]:
    ids = distinct(named.ids)
    if not 0 < len(ids) <= MOST:
        raise Problem(400, f"name 1 to {MOST} documents, not {len(ids)}", "too_many" if ids else "none_named")
    return ids


def _strange(strange: StrangeDocuments) -> Problem:
    ids = strange.ids
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    return Problem(
        400, f"not documents of this base: {', '.join(ids[:3])}{more}; nothing was done", "not_of_base"
    )


def _initiator(who: Principal) -> Initiator:
    return Initiator(user_id=who.id, role=who.role)
