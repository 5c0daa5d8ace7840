"""Knowledge bases: found by name, made when first named, each tied to one embedding model."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.tenants import is_alive, register_tenant
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, table_of
from contracts.identity import new_id
from contracts.knowledge import ParseStatus
from pipeline.store import insert_one, now_ms


async def find_base(session: AsyncSession, tenant_id: int, name: str) -> KnowledgeBase | None:
    """Return the base of this name, or None."""
    return (await session.scalars(_named(tenant_id, name))).one_or_none()


async def ensure_base(
    session: AsyncSession, tenant_id: int, name: str, settings: Mapping[str, Any] | None = None
) -> KnowledgeBase:
    """Return the base of this name, made with `settings` if there is none."""
    if found := await find_base(session, tenant_id, name):
        return found
    await create_base(session, tenant_id, name, settings)
    return (await session.scalars(_named(tenant_id, name))).one()


async def create_base(
    session: AsyncSession, tenant_id: int, name: str, settings: Mapping[str, Any] | None = None
) -> KnowledgeBase | None:
    """Make a base; None where the tenant has one of this name."""
    now = now_ms()
    row = {
        "id": new_id(),
        "tenant_id": tenant_id,
        "name": name,
        "settings": dict(settings or {}),
        "created_at": now,
        "updated_at": now,
    }
    await register_tenant(session, tenant_id)
    made = await insert_one(session, table_of(KnowledgeBase), row)
    return await session.get(KnowledgeBase, row["id"]) if made else None


async def shown_base(session: AsyncSession, kb_id: str, tenant_id: int | None = None) -> KnowledgeBase | None:
    """Return a base of a tenant, None: of whatever tenant, that lives, as does its tenant."""
    kb = await session.get(KnowledgeBase, kb_id)
    if kb is None or kb.deleted_at is not None or tenant_id not in {None, kb.tenant_id}:
        return None
    return kb if await is_alive(session, kb.tenant_id) else None


async def rename(session: AsyncSession, kb: KnowledgeBase, name: str) -> bool:
    """Give a base another name; False where its tenant has another one of this name."""
    try:
        async with session.begin_nested():
            await session.execute(
                update(KnowledgeBase).where(KnowledgeBase.id == kb.id).values(name=name, updated_at=now_ms())
            )
    except IntegrityError:
        return False
    return True


async def keep_base(session: AsyncSession, kb_id: str, *, alone: bool = False) -> KnowledgeBase | None:
    """Return a base that lives, as does its tenant; whoever deletes one of them waits for the end of this transaction, and,
    `alone`, whoever else changes something of the base.
    """
    live = KnowledgeBase.id == kb_id, KnowledgeBase.deleted_at.is_(None)
    query = select(KnowledgeBase).where(*live).with_for_update(read=not alone)
    kb = (await session.scalars(query)).one_or_none()
    return kb if kb is not None and await is_alive(session, kb.tenant_id, keep=True) else None


async def change_settings(session: AsyncSession, kb: KnowledgeBase, **changes: Any) -> None:
    """Change what a base wants from now on; what was done stays."""
    now = select(KnowledgeBase.settings).where(KnowledgeBase.id == kb.id).with_for_update()
    kb.settings = {**(await session.scalar(now) or {}), **changes}
    await session.execute(
        update(KnowledgeBase)
        .where(KnowledgeBase.id == kb.id)
        .values(settings=kb.settings, updated_at=now_ms())
    )


async def list_bases(session: AsyncSession, tenant_id: int) -> list[KnowledgeBase]:
    """Return the bases of a tenant by name."""
    live = KnowledgeBase.tenant_id == tenant_id, KnowledgeBase.deleted_at.is_(None)
    return list(await session.scalars(select(KnowledgeBase).where(*live).order_by(KnowledgeBase.name)))


async def counted(session: AsyncSession, kb_id: str) -> Mapping[ParseStatus, int]:
    """Return how many documents a base has of each status, those of none left out."""
    rows = await session.execute(
        select(Knowledge.parse_status, func.count())
        .where(Knowledge.knowledge_base_id == kb_id)
        .group_by(Knowledge.parse_status)
    )
    found = {row[0]: row[1] for row in rows}
    return {status: found[status] for status in ParseStatus if status in found}


async def fix_embedding(session: AsyncSession, kb_id: str, model: str, dimension: int) -> tuple[str, int]:
    """Tie a base to the model of its first vectors; return the model and dimension that it is tied to.

    Vectors of two models cannot be compared: a caller that gets another model back must not add its own.
    """
    await session.execute(
        update(KnowledgeBase)
        .where(KnowledgeBase.id == kb_id, KnowledgeBase.embedding_model.is_(None))
        .values(embedding_model=model, embedding_dimension=dimension, updated_at=now_ms())
    )
    tied = await session.execute(
        select(KnowledgeBase.embedding_model, KnowledgeBase.embedding_dimension).where(
            KnowledgeBase.id == kb_id
        )
    )
    found_model, found_dimension = tied.one()
    return found_model or model, found_dimension or dimension


def _named(tenant_id: int, name: str) -> Select[KnowledgeBase]:
    return select(KnowledgeBase).where(
        KnowledgeBase.tenant_id == tenant_id, KnowledgeBase.name == name, KnowledgeBase.deleted_at.is_(None)
    )
