"""Documents sent into a base over HTTP."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.http.callers import PREFIX, Ident, base_of, printable, services_of, writer
from consumers.http.receiving import received
from consumers.http.tasks import delivery_of
from consumers.knowledge.documents.documents import Entry
from consumers.knowledge.documents.uploading import (
    Entered,
    KnowledgeBaseGone,
    take_in_address,
    take_in_passages,
    take_in_uploads,
)
from consumers.knowledge.reading.passages import Passages
from consumers.outbound import MAX_ADDRESS, AddressRefused
from consumers.services import Services
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


class Address(BaseModel):
    """A page or file on the web, which a worker fetches."""

    model_config = ConfigDict(extra="forbid")

    url: Annotated[str, Field(min_length=1, max_length=MAX_ADDRESS)]


CONTENT: Final[dict[str, Any]] = {
    "multipart/form-data": {"schema": FORM},
    "application/json": {"schema": {"oneOf": [Address.model_json_schema(), Passages.model_json_schema()]}},
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
    openapi_extra={"requestBody": {"required": True, "content": CONTENT}},
)
async def send(
    request: Request,
    response: Response,
    who: Annotated[Principal, writer("knowledge.document_sent")],
    id: Ident,  # noqa: A002 - the name in the path
) -> AllSent:
    """Send into a base: files, the address of a page or file, or passages of text. What it has already, by its content or
    address, is not read again: 200 if that is so of all.
    """
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with recorded(Call.of(request, who), "knowledge.document_sent", ("knowledge_base", id)) as entry:
        try:
            entered, sql = await _taken_in(request, services, kb.id)
        except KnowledgeBaseGone:
            raise Problem(404, f"no knowledge base {id} (any more)", "knowledge_base_not_found") from None
        except AddressRefused as error:
            raise Problem(400, str(error), "address_refused") from None
        entry.details["documents"] = " ".join(one.registered.knowledge_id for one in entered)[:500]
    return _answer(response, entered, delivery_of(sql))


async def _taken_in(
    request: Request, services: Services, kb_id: str
) -> tuple[Sequence[Entered], AsyncSession]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        allow(request, (services.settings.max_file_mb << 20) + LONGEST_BODY)
        async with received(request) as uploads:
            return await take_in_uploads(services, kb_id, uploads)
    if kind != "application/json":
        raise Problem(
            415, "send a form with files (multipart/form-data), or JSON", "unsupported_content_type"
        )
    given = _written(await request.body())
    if isinstance(given, Address):
        return await take_in_address(services, kb_id, given.url)
    texts = [text for one in given.passages if (text := printable(one)).strip()]
    if not texts:
        raise Problem(400, "the passages have no words", "invalid_request")
    return await take_in_passages(
        services, kb_id, Passages(passages=texts, title=" ".join(printable(given.title).split()))
    )


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


def _written(body: bytes) -> Address | Passages:
    try:
        told = from_json(body)
    except ValueError as error:
        raise Problem(422, f"this is no JSON: {error}", "invalid_request") from None
    if not isinstance(told, dict) or not {"url", "passages"} & told.keys():
        raise Problem(422, 'send {"url": "https://…"} or {"passages": ["…", …]}', "invalid_request")
    shape: type[Address | Passages] = Address if "url" in told else Passages
    try:
        return shape.model_validate(told)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from None
