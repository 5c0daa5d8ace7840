"""Files attached to a chat over HTTP: sent, watched, removed. `POST …/ask` answers from them, too."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel

from consumers.http.callers import PREFIX, AskedTenant, Ident, Reader, services_of, tenant_of, writer
from consumers.http.receiving import received
from consumers.knowledge.answers import attachments
from consumers.knowledge.tables.attachments import Attachment
from contracts.attachments import AttachmentStatus
from pipeline.http.audit import recorded
from pipeline.http.bodies import LONGEST_BODY, allow
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(
    prefix=f"{PREFIX}/sessions/{{session_id}}/attachments",
    tags=["sessions"],
    responses=documented(400, 401, 403),
)

SessionId = Annotated[str, Path(pattern=r"^[A-Za-z0-9._:-]{1,128}$")]
FORM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}}},
}
BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": FORM}}}
}


class Attached(BaseModel):
    """A file of a session. Times are milliseconds since the epoch; it is forgotten at `expires_at`."""

    id: str
    name: str
    size: int
    status: AttachmentStatus
    error_message: str
    warnings: list[str]
    created_at: int
    expires_at: int


class AllAttached(BaseModel):
    """The files of a session, the oldest first."""

    attachments: Sequence[Attached]


@router.post("", status_code=202, responses=documented(409, 415, 507), openapi_extra=BODY)
async def attach(
    request: Request,
    who: Annotated[Principal, writer("knowledge.attachment_sent")],
    session_id: SessionId,
    tenant_id: AskedTenant = None,
) -> AllAttached:
    """Attach files to a session; a worker reads them."""
    services, tenant = services_of(request), tenant_of(who, tenant_id)
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Problem(415, "send a form with files (multipart/form-data)", "unsupported_content_type")
    allow(request, (services.settings.max_file_mb << 20) + LONGEST_BODY)
    async with recorded(Call.of(request, who), "knowledge.attachment_sent", ("session", session_id)) as noted:
        try:
            async with received(request) as uploads:
                sent = [
                    await attachments.attach(
                        services.outbox,
                        services.files,
                        attachments.Sent(
                            tenant_id=tenant,
                            session_id=session_id,
                            name=one.name,
                            path=one.path,
                            kept_hours=services.settings.chat_attachment_ttl_hours,
                        ),
                    )
                    for one in uploads
                ]
        except attachments.TooMany:
            most = attachments.MOST_OF_SESSION
            raise Problem(409, f"a session has at most {most} files: remove some", "too_many") from None
        noted.details["documents"] = " ".join(sent)[:500]
    return await _listed(request, tenant, session_id, sent)


@router.get("")
async def listed(
    request: Request, who: Reader, session_id: SessionId, tenant_id: AskedTenant = None
) -> AllAttached:
    """The files of a session."""
    return await _listed(request, tenant_of(who, tenant_id), session_id)


@router.delete("/{id}", status_code=204, response_class=Response, responses=documented(404))
async def remove(
    request: Request,
    who: Annotated[Principal, writer("knowledge.attachment_removed")],
    session_id: SessionId,
    id: Ident,  # noqa: A002 - the name in the path
    tenant_id: AskedTenant = None,
) -> None:
    """Remove a file of a session with all that was made of it."""
    services, tenant = services_of(request), tenant_of(who, tenant_id)
    async with recorded(Call.of(request, who), "knowledge.attachment_removed", ("session", session_id)):
        if not await attachments.remove(services.outbox, services.files, tenant, session_id, id):
            raise Problem(404, f"no file {id[:64]} in this session (any more)", "attachment_not_found")


async def _listed(
    request: Request, tenant: int, session_id: str, only: Sequence[str] | None = None
) -> AllAttached:
    async with services_of(request).database.read() as sql:
        found = await attachments.of_session(sql, tenant, session_id)
    return AllAttached(attachments=[_shown(row) for row in found if only is None or row.id in only])


def _shown(row: Attachment) -> Attached:
    return Attached(
        id=row.id,
        name=row.file_name,
        size=row.file_size,
        status=row.status,
        error_message=row.error_message,
        warnings=row.warnings,
        created_at=row.created_at,
        expires_at=row.expires_at,
    )
