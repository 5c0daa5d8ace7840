"""Memory over HTTP: what a tenant wants of it, and what is remembered of each person."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from pydantic import AfterValidator
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.http.callers import (
    NAME,
    PREFIX,
    AskedTenant,
    Reader,
    printable,
    services_of,
    tenant_of,
    writer,
)
from consumers.http.memory_shapes import (
    Forgotten,
    Item,
    ItemChange,
    Items,
    NewItem,
    Person,
    PersonDetail,
    Persons,
    Recall,
    Recalled,
    RecalledItem,
    Switch,
    Wanted,
    Wishes,
)
from consumers.knowledge.answers.recalling import recalled
from consumers.knowledge.bases.tenants import is_alive
from consumers.knowledge.memory import storing
from consumers.knowledge.memory.remembering import Noted
from consumers.knowledge.memory.settings import MemorySettings, change_settings, settings_of
from consumers.knowledge.memory.storing import Who
from consumers.knowledge.tables.memory import MemoryItem, MemorySubject
from consumers.services import Services
from pipeline.http.admin import PageSize, page_of
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.inspector import PAGE

router = APIRouter(prefix=f"{PREFIX}/memory", tags=["memory"], responses=documented(400, 401, 403, 404))

SUBJECT: Final = "/subjects/{subject_id}"
ITEM: Final = f"{SUBJECT}/items/{{item_id}}"

SubjectId = Annotated[str, Path(pattern=NAME, description="the tenant's own name for a person")]
ItemId = Annotated[str, Path(max_length=64), AfterValidator(printable)]
Cursor = Annotated[str, Query(max_length=128), AfterValidator(printable)]
Changer = Annotated[Principal, writer("knowledge.memory_changed")]


@router.get("/settings")
async def settings(request: Request, who: Reader, tenant_id: AskedTenant = None) -> Wanted:
    """What a tenant wants of memory."""
    services = services_of(request)
    tenant = await living(services, who, tenant_id)
    async with services.database.read() as sql:
        return _wanted(await settings_of(sql, tenant))


@router.patch("/settings")
async def change(request: Request, who: Changer, asked: Wishes, tenant_id: AskedTenant = None) -> Wanted:
    """Change what a tenant wants of memory. What people say while it is not read, never is."""
    services = services_of(request)
    tenant = await living(services, who, tenant_id)
    changes = asked.model_dump(exclude_none=True)
    async with (
        recorded(Call.of(request, who), "knowledge.memory_settings_changed", ("tenant", str(tenant))),
        services.database.transaction() as sql,
    ):
        return _wanted(await change_settings(sql, tenant, changes))


@router.get("/subjects", response_model_exclude_none=True)
async def subjects(
    request: Request,
    who: Reader,
    tenant_id: AskedTenant = None,
    cursor: Cursor = "",
    page_size: PageSize = PAGE,
) -> Persons:
    """The people of a tenant of whom anything is known."""
    services, size = services_of(request), page_of(page_size)
    tenant = await living(services, who, tenant_id)
    async with services.database.read() as sql:
        found = await storing.subjects_of(sql, tenant, cursor, size + 1)
    shown = [Person(**_person(row, count)) for row, count in found[:size]]
    more = len(found) > size
    return Persons(
        subjects=shown,
        page_size=size,
        has_more=more,
        next_cursor=shown[-1].subject_id if more else None,
    )


@router.delete("/subjects")
async def forget_everybody(request: Request, who: Changer, tenant_id: AskedTenant = None) -> Forgotten:
    """Forget all people of a tenant, and all that was said in their sessions: for one that goes for good."""
    services = services_of(request)
    tenant = tenant_of(who, tenant_id)
    async with (
        recorded(Call.of(request, who), "knowledge.memory_forgotten", ("tenant", str(tenant))),
        services.database.transaction() as sql,
    ):
        return Forgotten(forgotten=await storing.forget_tenant(sql, tenant))


@router.get(SUBJECT, response_model_exclude_none=True)
async def subject(
    request: Request, who: Reader, subject_id: SubjectId, tenant_id: AskedTenant = None
) -> PersonDetail:
    """One person."""
    services = services_of(request)
    person = Who(await living(services, who, tenant_id), subject_id)
    async with services.database.read() as sql:
        return await _detail(sql, person)


@router.patch(SUBJECT, response_model_exclude_none=True)
async def switch(
    request: Request, who: Changer, subject_id: SubjectId, asked: Switch, tenant_id: AskedTenant = None
) -> PersonDetail:
    """Remember a person, or neither read nor recall anything of theirs; what is remembered stays."""
    services = services_of(request)
    person = Who(await living(services, who, tenant_id), subject_id)
    async with (
        recorded(Call.of(request, who), "knowledge.memory_switched", ("memory_subject", subject_id)),
        services.database.transaction() as sql,
    ):
        await storing.switch(sql, person, on=asked.enabled)
        return await _detail(sql, person)


@router.delete(SUBJECT)
async def forget(
    request: Request, who: Changer, subject_id: SubjectId, tenant_id: AskedTenant = None
) -> Forgotten:
    """Forget all that is remembered of a person, and read nothing of what they said until now."""
    services = services_of(request)
    person = Who(await living(services, who, tenant_id), subject_id)
    async with (
        recorded(Call.of(request, who), "knowledge.memory_forgotten", ("memory_subject", subject_id)),
        services.database.transaction() as sql,
    ):
        return Forgotten(forgotten=await storing.forget(sql, person))


@router.get(f"{SUBJECT}/items", response_model_exclude_none=True)
async def items(
    request: Request,
    who: Reader,
    subject_id: SubjectId,
    tenant_id: AskedTenant = None,
    contains: Annotated[str, Query(max_length=200), AfterValidator(printable)] = "",
    cursor: Cursor = "",
    page_size: PageSize = PAGE,
) -> Items:
    """What is remembered of a person, in the order in which it was learned."""
    services, size = services_of(request), page_of(page_size)
    person = Who(await living(services, who, tenant_id), subject_id)
    async with services.database.read() as sql:
        found = await storing.items_of(sql, person, cursor, size + 1, contains)
    shown = [Item(**_item(row)) for row in found[:size]]
    more = len(found) > size
    return Items(items=shown, page_size=size, has_more=more, next_cursor=shown[-1].id if more else None)


@router.post(f"{SUBJECT}/items", status_code=201, responses=documented(409), response_model_exclude_none=True)
async def add(
    request: Request, who: Changer, subject_id: SubjectId, new: NewItem, tenant_id: AskedTenant = None
) -> Item:
    """Remember something; what says the same already is brought up to date."""
    services = services_of(request)
    person = Who(await living(services, who, tenant_id), subject_id)
    async with recorded(Call.of(request, who), "knowledge.memory_changed", ("memory_subject", subject_id)):
        said = await storing.said_of(services.embedder, [Noted(new.kind, new.topic, new.text)])
        async with services.database.transaction() as sql:
            most = (await settings_of(sql, person.tenant_id)).items
            await storing.hold(sql, person)
            made = await storing.remember(sql, person, said, most)
        if not made:
            raise Problem(
                409, f"{most} things are remembered of this person, which is the limit", "memory_full"
            )
    return Item(**_item(made[0]))


@router.get(ITEM, response_model_exclude_none=True)
async def one(
    request: Request, who: Reader, subject_id: SubjectId, item_id: ItemId, tenant_id: AskedTenant = None
) -> Item:
    """One remembered thing."""
    services = services_of(request)
    person = Who(await living(services, who, tenant_id), subject_id)
    async with services.database.read() as sql:
        return Item(**_item(await storing.item(sql, person, item_id) or _unknown(item_id)))


@router.patch(ITEM, response_model_exclude_none=True)
async def edit(
    request: Request,
    who: Changer,
    subject_id: SubjectId,
    item_id: ItemId,
    asked: ItemChange,
    tenant_id: AskedTenant = None,
) -> Item:
    """Write a remembered thing anew."""
    services = services_of(request)
    person = Who(await living(services, who, tenant_id), subject_id)
    async with recorded(Call.of(request, who), "knowledge.memory_changed", ("memory_item", item_id)):
        async with services.database.read() as sql:
            known = await storing.item(sql, person, item_id) or _unknown(item_id)
        noted = Noted(
            asked.kind or known.kind,
            known.topic if asked.topic is None else asked.topic,
            asked.text or known.text,
        )
        (said,) = await storing.said_of(services.embedder, [noted])
        async with services.database.transaction() as sql:
            await storing.hold(sql, person)
            return Item(**_item(await storing.edit(sql, person, item_id, said) or _unknown(item_id)))


@router.delete(ITEM)
async def delete(
    request: Request, who: Changer, subject_id: SubjectId, item_id: ItemId, tenant_id: AskedTenant = None
) -> Forgotten:
    """Delete a remembered thing; it is not read again."""
    services = services_of(request)
    person = Who(await living(services, who, tenant_id), subject_id)
    async with (
        recorded(Call.of(request, who), "knowledge.memory_changed", ("memory_item", item_id)),
        services.database.transaction() as sql,
    ):
        await storing.hold(sql, person, make=False)
        if not await storing.delete_item(sql, person, item_id):
            _unknown(item_id)
    return Forgotten(forgotten=1)


@router.post(f"{SUBJECT}/recall", response_model_exclude_none=True)
async def recall(
    request: Request, who: Reader, subject_id: SubjectId, asked: Recall, tenant_id: AskedTenant = None
) -> Recalled:
    """What is remembered of a person that fits something best."""
    services = services_of(request)
    person = Who(await living(services, who, tenant_id), subject_id)
    found = await recalled(services, person, asked.query, limit=asked.limit)
    return Recalled(items=[RecalledItem(**_item(row), score=round(score, 4)) for row, score in found])


async def living(services: Services, who: Principal, asked: int | None) -> int:
    """Return the tenant on whose behalf somebody calls. Raises Problem 400, 403, 404 for a deleted one."""
    tenant = tenant_of(who, asked)
    async with services.database.read() as sql:
        if not await is_alive(sql, tenant):
            raise Problem(404, f"no tenant {tenant} (any more)", "tenant_not_found")
    return tenant


async def _detail(sql: AsyncSession, person: Who) -> PersonDetail:
    row = await storing.subject_of(sql, person)
    if row is None:
        raise Problem(404, f"nothing is known of {person.subject_id} (any more)", "memory_subject_not_found")
    await sql.refresh(row)
    count, topics = await storing.counted(sql, person)
    return PersonDetail(**_person(row, count), topics=topics, block=row.block_text)


def _wanted(found: MemorySettings) -> Wanted:
    return Wanted.model_validate(found.model_dump())


def _person(row: MemorySubject, count: int) -> dict[str, Any]:
    names = "subject_id", "enabled", "last_extracted_at", "extract_scheduled_at", "created_at", "updated_at"
    return {name: getattr(row, name) for name in names} | {"items": count}


def _item(row: MemoryItem) -> dict[str, Any]:
    names = "id", "kind", "topic", "text", "method", "created_at", "updated_at"
    places = {"session_id": row.session_id or None, "message_id": row.message_id or None}
    return {name: getattr(row, name) for name in names} | places


def _unknown(item_id: str) -> MemoryItem:
    raise Problem(404, f"nothing {item_id[:64]} is remembered (any more)", "memory_item_not_found")
