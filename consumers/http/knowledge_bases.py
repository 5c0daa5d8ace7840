"""Knowledge bases: made, listed, shown and changed."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.http.callers import PREFIX, AskedTenant, Ident, Reader, base_of, services_of, tenant_of, writer
from consumers.knowledge.bases import knowledge_bases
from consumers.knowledge.bases.settings import KnowledgeBaseSettings, checked
from consumers.knowledge.bases.tags import set_tags, tags_of
from consumers.knowledge.bases.tenants import is_alive
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.upkeep import switching
from contracts.knowledge import ParseStatus
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(
    prefix=f"{PREFIX}/knowledge-bases", tags=["knowledge bases"], responses=documented(401, 403)
)

LONGEST_NAME: Final = 255
MOST_TAGS: Final = 500


def said(text: str) -> str:
    """Return a name as it is kept: in one line, without what cannot be printed. Raises ValueError for nothing."""
    name = " ".join(text.split())
    if not name or not name.isprintable():
        raise ValueError("write a name in printable characters")
    return name


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(said)]


class TagOf(BaseModel):
    """A tag that documents of a base may be given, and when."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    name: Name
    description: Annotated[str, Field(max_length=2_000)] = ""


SETTINGS: Final = Field(description="those that are to differ from what a base has by itself")
Tags = Annotated[list[TagOf], Field(max_length=MOST_TAGS, description="all that there are to be")]


class NewKnowledgeBase(BaseModel):
    """A base to make."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    settings: Annotated[dict[str, Any], SETTINGS] = {}
    tags: Tags = []


class Change(BaseModel):
    """What is to change of a base; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    settings: Annotated[dict[str, Any], SETTINGS] = {}
    tags: Tags | None = None


class Described(BaseModel):
    """A knowledge base. Its vectors are all of one model, fixed by the first. Times are milliseconds since the epoch."""

    id: str
    name: str
    tenant_id: int
    settings: KnowledgeBaseSettings
    embedding_model: str | None = None
    embedding_dimension: int | None = None
    created_at: int
    updated_at: int


class KnowledgeBaseDetail(Described):
    """A knowledge base with its tags, and how many documents it has of each status."""

    tags: Sequence[TagOf]
    documents: Mapping[ParseStatus, int]


class KnowledgeBases(BaseModel):
    """The bases of a tenant by name."""

    knowledge_bases: Sequence[Described]


@router.post("", status_code=201, responses=documented(400, 409), response_model_exclude_none=True)
async def create(
    request: Request,
    who: Annotated[Principal, writer("knowledge.base_created")],
    new: NewKnowledgeBase,
    tenant_id: AskedTenant = None,
) -> KnowledgeBaseDetail:
    """Make a base."""
    services, tenant = services_of(request), tenant_of(who, tenant_id)
    settings = checked(new.settings)
    async with recorded(
        Call.of(request, who), "knowledge.base_created", ("knowledge_base", new.name)
    ) as entry:
        async with services.database.transaction() as sql:
            if not await is_alive(sql, tenant, keep=True):
                raise Problem(404, f"no tenant {tenant} (any more)", "tenant_not_found")
            kb = await knowledge_bases.create_base(sql, tenant, new.name, settings)
            if kb is None:
                raise _taken(new.name)
            await set_tags(sql, kb.id, {tag.name: tag.description for tag in new.tags})
            shown = await _detail(sql, kb)
        entry.details["id"] = kb.id
    return shown


@router.get("", responses=documented(400), response_model_exclude_none=True)
async def listed(
    request: Request,
    who: Reader,
    tenant_id: AskedTenant = None,
    name: Annotated[str, Query(max_length=LONGEST_NAME, description="only the one of this name")] = "",
) -> KnowledgeBases:
    """The bases of a tenant by name."""
    tenant = tenant_of(who, tenant_id)
    async with services_of(request).database.read() as sql:
        found = await knowledge_bases.list_bases(sql, tenant) if await is_alive(sql, tenant) else []
    return KnowledgeBases(knowledge_bases=[Described(**_fields(kb)) for kb in found if name in {"", kb.name}])


@router.get("/{id}", responses=documented(404), response_model_exclude_none=True)
async def shown(request: Request, who: Reader, id: Ident) -> KnowledgeBaseDetail:  # noqa: A002 - the name in the path
    """One base."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        return await _detail(sql, kb)


@router.patch("/{id}", responses=documented(400, 404, 409), response_model_exclude_none=True)
async def change(
    request: Request,
    who: Annotated[Principal, writer("knowledge.base_changed")],
    id: Ident,  # noqa: A002 - the name in the path
    asked: Change,
) -> KnowledgeBaseDetail:
    """Change a base. A stage that is switched on does what comes; for one that is switched off nothing waits any longer."""
    services = services_of(request)
    await base_of(services, who, id)
    stages: list[str] = []
    async with recorded(Call.of(request, who), "knowledge.base_changed", ("knowledge_base", id)):
        async with services.outbox.transaction() as sql:
            kb = await knowledge_bases.keep_base(sql, id, alone=True) or _gone(id)
            if asked.name and not await knowledge_bases.rename(sql, kb, asked.name):
                raise _taken(asked.name)
            if asked.settings:
                stages = await switching.change(sql, kb, checked(asked.settings, kb.settings))
            if asked.tags is not None:
                await set_tags(sql, kb.id, {tag.name: tag.description for tag in asked.tags})
        if stages:
            await switching.release(services.outbox, id, stages)
    async with services.database.read() as sql:
        return await _detail(sql, await base_of(services, who, id))


async def _detail(sql: AsyncSession, kb: KnowledgeBase) -> KnowledgeBaseDetail:
    tags = [TagOf.model_validate(tag) for tag in await tags_of(sql, kb.id)]
    return KnowledgeBaseDetail(**_fields(kb), tags=tags, documents=await knowledge_bases.counted(sql, kb.id))


def _fields(kb: KnowledgeBase) -> dict[str, Any]:
    names = ("id", "name", "tenant_id", "embedding_model", "embedding_dimension", "created_at", "updated_at")
    return {name: getattr(kb, name) for name in names} | {
        "settings": KnowledgeBaseSettings.model_validate(kb.settings)
    }


def _taken(name: str) -> Problem:
    return Problem(409, f"there is a knowledge base {name!r} already", "name_taken")


def _gone(ident: str) -> KnowledgeBase:
    raise Problem(404, f"no knowledge base {ident} (any more)", "knowledge_base_not_found")
