"""Tenants over HTTP: made, listed, put away and taken back, by those who look after the whole platform."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, ConfigDict, Field

from consumers.http.callers import services_of
from consumers.http.knowledge_bases import Name
from consumers.http.tasks import delivery_of
from consumers.knowledge.bases import tenancy
from consumers.knowledge.bases.tenancy import Listed
from contracts.payloads.maintenance import Initiator
from contracts.rights import Capability
from pipeline.http.answers_knowledge import Delivery
from pipeline.http.audit import recorded
from pipeline.http.auth import needs
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal

router = APIRouter(prefix="/api/v1/system/admin/tenants", tags=["tenants"], responses=documented(401, 403))

MOST: Final = 2**63 - 1
TenantId = Annotated[int, Path(ge=1, le=MOST)]
Overseer = Annotated[Principal, Depends(needs(Capability.SYSTEM_TENANTS_MANAGE, platform=True))]


def overseer(deed: str) -> Any:
    """Return a dependency: whoever may change tenants."""
    return Depends(needs(Capability.SYSTEM_TENANTS_MANAGE, deed=deed, platform=True))


class NewTenant(BaseModel):
    """A tenant to make; without an id it gets the next one."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    id: Annotated[int | None, Field(ge=1, le=2**53)] = None


class TenantOf(BaseModel):
    """A tenant; `deleted_at` says since when nothing is done for it. Times are milliseconds since the epoch."""

    id: int
    name: str
    created_at: int
    deleted_at: int | None = None
    knowledge_bases: int = 0


class Tenants(BaseModel):
    """All tenants that were ever named, by id."""

    tenants: Sequence[TenantOf]


class PutAway(BaseModel):
    """A tenant that is deleted now. `already`: it was so before."""

    id: int
    already: bool
    delivery: Delivery


class TakenBack(BaseModel):
    """A tenant that lives again, and how many of its documents are parsed again."""

    id: int
    reparsed: int
    delivery: Delivery


@router.post("", status_code=201, responses=documented(409), response_model_exclude_none=True)
async def create(
    request: Request, who: Annotated[Principal, overseer("system.tenant_created")], new: NewTenant
) -> TenantOf:
    """Make a tenant."""
    target = ("tenant", str(new.id or ""))
    async with recorded(Call.of(request, who), "system.tenant_created", target, name=new.name) as entry:
        async with services_of(request).database.transaction() as sql:
            made = await tenancy.create(sql, new.name, new.id)
            if made is None:
                raise Problem(409, f"there is a tenant {new.id} already", "tenant_taken")
        entry.details["id"] = str(made.id)
    return TenantOf(id=made.id, name=made.name, created_at=made.created_at)


@router.get("", response_model_exclude_none=True)
async def listed(request: Request, _who: Overseer) -> Tenants:
    """All tenants, deleted ones too."""
    async with services_of(request).database.read() as sql:
        return Tenants(tenants=[_shown(one) for one in await tenancy.listed(sql)])


@router.delete("/{tenant}", responses=documented(404))
async def delete(
    request: Request, who: Annotated[Principal, overseer("system.tenant_deleted")], tenant: TenantId
) -> PutAway:
    """Let nothing more be done for a tenant. What it has stays, and can be taken back."""
    outbox = services_of(request).outbox
    async with recorded(Call.of(request, who), "system.tenant_deleted", ("tenant", str(tenant))):
        cut = await outbox.choose_cut()
        async with outbox.transaction() as sql:
            moved = await tenancy.delete(sql, tenant, cut)
            if moved is None:
                raise _unknown(tenant)
    return PutAway(id=tenant, already=not moved, delivery=delivery_of(sql))


@router.post("/{tenant}/restore", responses=documented(404, 409))
async def restore(
    request: Request, who: Annotated[Principal, overseer("system.tenant_restored")], tenant: TenantId
) -> TakenBack:
    """Take a tenant back: what was under way for it is done anew."""
    services, initiator = services_of(request), Initiator(user_id=who.id, role=who.role)
    async with (
        recorded(Call.of(request, who), "system.tenant_restored", ("tenant", str(tenant))),
        services.outbox.transaction() as sql,
    ):
        again = await tenancy.restore(sql, tenant, initiator)
        if again is None and await tenancy.known(sql, tenant):
            raise Problem(409, f"tenant {tenant} is not deleted", "not_deleted")
        if again is None:
            raise _unknown(tenant)
    return TakenBack(id=tenant, reparsed=again, delivery=delivery_of(sql))


def _shown(one: Listed) -> TenantOf:
    return TenantOf(**asdict(one))


def _unknown(tenant: int) -> Problem:
    return Problem(404, f"no tenant {tenant}", "tenant_not_found")
