"""Knowledge written by hand, over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from consumers.http.callers import PREFIX, Ident, base_of, printable, services_of, writer
from consumers.http.tasks import delivery_of
from consumers.knowledge.documents import manual
from consumers.knowledge.documents.uploading import KnowledgeBaseGone
from contracts.knowledge import DocumentEffect as Effect
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(prefix=PREFIX, tags=["knowledge"], responses=documented(400, 401, 403, 404))

Writer = Annotated[Principal, writer("knowledge.manual_published")]


class Writing(BaseModel):
    """What a person wrote, in Markdown."""

    model_config = ConfigDict(extra="forbid")

    title: Annotated[str, Field(min_length=1, max_length=200)]
    content: Annotated[str, Field(min_length=1, max_length=manual.LONGEST)]


class Published(BaseModel):
    """The document that it is, and the attempt at it that now begins."""

    id: str
    attempt: int
    delivery: Delivery


@router.post("/knowledge-bases/{id}/manual", status_code=202, responses=documented(507))
async def publish(request: Request, who: Writer, id: Ident, said: Writing) -> Published:  # noqa: A002
    """Publish something as a document of a base."""
    services, writing = services_of(request), _checked(said)
    kb = await base_of(services, who, id)
    async with recorded(Call.of(request, who), "knowledge.manual_published", ("knowledge_base", id)) as noted:
        try:
            knowledge_id, sql = await manual.write(services, kb.id, writing)
        except KnowledgeBaseGone:
            raise Problem(404, f"no knowledge base {id} (any more)", "knowledge_base_not_found") from None
        noted.details["knowledge_id"] = knowledge_id
    return Published(id=knowledge_id, attempt=1, delivery=delivery_of(sql))


@router.put("/knowledge/{id}/manual", status_code=202, responses=documented(409, 507))
async def publish_again(request: Request, who: Writer, id: Ident, said: Writing) -> Published:  # noqa: A002
    """Let what was written by hand say something else; what it said stays findable until that is read."""
    services, writing = services_of(request), _checked(said)
    async with recorded(Call.of(request, who), "knowledge.manual_published", ("knowledge", id)):
        step, sql = await manual.rewrite(services, who.tenant_id, id, writing)
        if step.effect is Effect.NOT_FOUND:
            raise Problem(
                404, f"no document {id[:64]} that was written by hand (any more)", "knowledge_not_found"
            )
        if step.effect is Effect.REFUSED:
            raise Problem(
                409, f"a document that is {step.status} cannot be written anew", "action_not_allowed"
            )
    return Published(id=id, attempt=step.attempt + 1, delivery=delivery_of(sql))


def _checked(said: Writing) -> manual.Writing:
    content, title = printable(said.content), " ".join(printable(said.title).split())
    if not content.strip() or not title:
        raise Problem(400, "it has no words, or no title", "invalid_request")
    if len(content.encode()) > manual.LONGEST:
        raise Problem(400, f"it has more than {manual.LONGEST} bytes: send it as a file", "too_long")
    return manual.Writing(title, content)
