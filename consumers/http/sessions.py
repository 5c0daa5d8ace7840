"""What is said in sessions between people and assistants: kept, shown, and, where a tenant wants it, read for memory."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from consumers.http.callers import NAME, PREFIX, AskedTenant, Reader, printable, services_of, writer
from consumers.http.memory import living
from consumers.http.tasks import delivery_of
from consumers.knowledge.memory import turns
from consumers.knowledge.memory.storing import Who
from consumers.knowledge.memory.turns import Message, Then
from contracts.memory import TurnRole
from pipeline.http.admin import PageSize, page_of
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.inspector import PAGE

router = APIRouter(
    prefix=f"{PREFIX}/sessions/{{session_id}}",
    tags=["sessions"],
    responses=documented(400, 401, 403, 404),
)

MOST_CHARS: Final = 100_000

SessionId = Annotated[str, Path(pattern=NAME)]
Speaker = Annotated[Principal, writer("knowledge.message_added")]


class NewMessage(BaseModel):
    """A message. `subject_id` is the tenant's own name for the person whose session it is; an `id` of one's own makes sending
    it again harmless.
    """

    model_config = ConfigDict(extra="forbid")

    subject_id: Annotated[str, Field(pattern=NAME)]
    role: TurnRole
    content: Annotated[str, Field(min_length=1, max_length=MOST_CHARS), AfterValidator(printable)]
    id: Annotated[str, Field(pattern=NAME)] | None = None
    language: Annotated[str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")] | None = None


class Added(BaseModel):
    """A message that is kept, and what comes of it for memory."""

    id: str
    session_id: str
    memory: Then
    delivery: Delivery


class SessionTurn(BaseModel):
    """A message of a session. `created_at` is in milliseconds since the epoch."""

    id: str
    subject_id: str
    role: TurnRole
    content: str
    created_at: int


class Messages(BaseModel):
    """Some messages of a session, in their order."""

    messages: Sequence[SessionTurn]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


@router.post("/messages", status_code=201)
async def add(
    request: Request, who: Speaker, session_id: SessionId, new: NewMessage, tenant_id: AskedTenant = None
) -> Added:
    """Keep a message. One of an assistant closes a turn. What people say is no deed: the audit log does not have it."""
    services = services_of(request)
    tenant = await living(services, who, tenant_id)
    message = Message(session_id, new.role, new.content, new.id or "", new.language)
    async with services.outbox.transaction() as sql:
        ident, then = await turns.add_message(sql, Who(tenant, new.subject_id), message)
    return Added(id=ident, session_id=session_id, memory=then, delivery=delivery_of(sql))


@router.get("/messages", response_model_exclude_none=True)
async def listed(
    request: Request,
    who: Reader,
    session_id: SessionId,
    tenant_id: AskedTenant = None,
    cursor: Annotated[str, Query(max_length=128), AfterValidator(printable)] = "",
    page_size: PageSize = PAGE,
) -> Messages:
    """The messages of a session in their order."""
    services, size = services_of(request), page_of(page_size)
    tenant = await living(services, who, tenant_id)
    async with services.database.read() as sql:
        found = await turns.messages_of(sql, tenant, session_id, cursor, size + 1)
    if not found and not cursor:
        raise Problem(404, f"no session {session_id}", "session_not_found")
    shown = [
        SessionTurn(
            id=row.id,
            subject_id=row.subject_id,
            role=row.role,
            content=row.content,
            created_at=row.created_at,
        )
        for row in found[:size]
    ]
    more = len(found) > size
    return Messages(messages=shown, page_size=size, has_more=more, next_cursor=shown[-1].id if more else None)
