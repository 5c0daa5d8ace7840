"""What a knowledge base is about, over HTTP."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

from consumers.http.callers import PREFIX, Ident, Reader, base_of, services_of, writer
from consumers.http.tasks import delivery_of
from consumers.knowledge.bases.profile_asking import ask_at_once
from consumers.knowledge.tables.profiles import ProfileStatus
from consumers.knowledge.upkeep.profiling import profile_of
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(
    prefix=f"{PREFIX}/knowledge-bases/{{id}}/profile",
    tags=["knowledge bases"],
    responses=documented(401, 403, 404),
)
REQUESTED = "knowledge.profile_requested"


class ProfileState(BaseModel):
    """What a base is about, and how that was written. With `status` failed, what it said before and why it is not newer. Times
    are milliseconds since the epoch.
    """

    knowledge_base_id: str
    status: ProfileStatus
    gist: str
    topics: Sequence[str]
    typical_questions: Sequence[str]
    stats: dict[str, Any]
    error: str
    model_id: str
    method: str
    generated_at: int | None
    updated_at: int


class Requested(BaseModel):
    """The job that writes the profile, and whether it is with the queue already."""

    job_id: str
    delivery: Delivery


@router.get("")
async def profile(request: Request, who: Reader, id: Ident) -> ProfileState:  # noqa: A002 - the name in the path
    """What a base is about, once it has been written."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        found = await profile_of(sql, kb.id)
    if found is None:
        raise Problem(404, "nothing is written of this base yet: ask for it", "profile_not_found")
    return ProfileState.model_validate(found, from_attributes=True)


@router.post("")
async def request_profile(
    request: Request,
    who: Annotated[Principal, writer(REQUESTED)],
    id: Ident,  # noqa: A002 - the name in the path
) -> Requested:
    """Write what a base is about now, whether it does so by itself or not."""
    services = services_of(request)
    async with recorded(Call.of(request, who), REQUESTED, ("knowledge_base", id)):
        kb = await base_of(services, who, id)
        async with services.outbox.transaction() as sql:
            job_id = await ask_at_once(sql, kb)
    return Requested(job_id=job_id, delivery=delivery_of(sql))
