"""Tenants: whose bases these are. One that was never registered is alive; one that is deleted can be restored."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, exists, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.knowledge import Tenant, table_of
from pipeline.store import changed, insert_new, now_ms


async def register_tenant(session: AsyncSession, tenant_id: int) -> None:
    """Give a tenant a row, by which others can keep it from being deleted meanwhile."""
    row = {"id": tenant_id, "name": str(tenant_id), "created_at": now_ms(), "deleted_at": None}
    await insert_new(session, table_of(Tenant), [row])


async def delete_tenant(session: AsyncSession, tenant_id: int) -> bool:
    """Let nothing of a tenant be worked on any more; what it has stays. False if that is so already."""
    await register_tenant(session, tenant_id)
    alive = Tenant.id == tenant_id, Tenant.deleted_at.is_(None)
    return bool(await changed(session, update(Tenant).where(*alive).values(deleted_at=now_ms())))


async def restore_tenant(session: AsyncSession, tenant_id: int) -> bool:
    """Take a deleted tenant back; False if it is not deleted."""
    gone = Tenant.id == tenant_id, Tenant.deleted_at.is_not(None)
    return bool(await changed(session, update(Tenant).where(*gone).values(deleted_at=None)))


async def is_alive(session: AsyncSession, tenant_id: int, *, keep: bool = False) -> bool:
    """Whether a tenant is not deleted; with `keep`, whoever deletes it waits for the end of this transaction."""
    row = select(Tenant.deleted_at).where(Tenant.id == tenant_id)
    return (await session.scalars(row.with_for_update(read=True) if keep else row)).one_or_none() is None


async def deleted_tenants(session: AsyncSession) -> Collection[int]:
    """Return the ids of the tenants that are deleted."""
    return (await session.scalars(select(Tenant.id).where(Tenant.deleted_at.is_not(None)))).all()


def of_the_living(tenant_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a row belongs to no tenant that is deleted."""
    return ~exists().where(Tenant.id == tenant_id, Tenant.deleted_at.is_not(None))
