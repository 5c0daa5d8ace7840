"""Documents sent into a base over HTTP."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from consumers.http.callers import PREFIX, Ident, base_of, services_of, writer
from consumers.http.receiving import received
from consumers.http.tasks import delivery_of
from consumers.knowledge.documents import Entry
from consumers.knowledge.files import FileStoreError, FileStoreFull
from consumers.knowledge.uploading import Entered, KnowledgeBaseGone, take_in_uploads
from contracts.knowledge import ParseStatus
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.audit import recorded
from pipeline.http.bodies import LONGEST_BODY, allow
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(
    prefix=f"{PREFIX}/knowledge-bases/{{id}}/knowledge",
    tags=["knowledge"],
    responses=documented(401, 403, 404),
)

FORM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}}},
}


class Sent(BaseModel):
    """A document that was sent. `duplicate`: its content was there, and what is said is of the document that has it."""

    id: str
    name: str
    duplicate: bool
    parse_status: ParseStatus
    attempt: int


class AllSent(BaseModel):
    """What became of what was sent, in its order. `duplicate`: nothing was new."""

    knowledge: Sequence[Sent]
    duplicate: bool
    delivery: Delivery


@router.post(
    "",
    status_code=202,
    responses={200: {"model": AllSent}, **documented(400, 409, 415, 507)},
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM}}}},
)
async def send(
    request: Request,
    response: Response,
    who: Annotated[Principal, writer("knowledge.document_sent")],
    id: Ident,  # noqa: A002 - the name in the path
) -> AllSent:
    """Send files into a base. What it has already, by its content, is not read again: 200 if that is so of all."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    allow(request, (services.settings.max_file_mb << 20) + LONGEST_BODY)
    async with recorded(Call.of(request, who), "knowledge.document_sent", ("knowledge_base", id)) as entry:
        try:
            async with received(request) as uploads:
                entered, sql = await take_in_uploads(services, kb.id, uploads)
        except KnowledgeBaseGone:
            raise Problem(404, f"no knowledge base {id} (any more)", "knowledge_base_not_found") from None
        except FileStoreFull as error:
            raise Problem(507, str(error), "file_store_full") from None
        except FileStoreError as error:
            raise Problem(503, str(error), "store_unavailable") from None
        entry.details["documents"] = " ".join(one.registered.knowledge_id for one in entered)[:500]
    return _answer(response, entered, delivery_of(sql))


def _answer(response: Response, entered: Sequence[Entered], delivery: Delivery) -> AllSent:
    going = [one.file_name for one in entered if one.registered.entry is Entry.DELETING]
    if going:
        raise Problem(
            409, f"{', '.join(going)[:200]}: being deleted; send it again when it is gone", "being_deleted"
        )
    answer = AllSent(
        knowledge=[
            Sent(
                id=one.registered.knowledge_id,
                name=one.file_name,
                duplicate=one.duplicate,
                parse_status=one.status,
                attempt=one.registered.attempt,
            )
            for one in entered
        ],
        duplicate=all(one.duplicate for one in entered),
        delivery=delivery,
    )
    if answer.duplicate:
        response.status_code = 200
    return answer
