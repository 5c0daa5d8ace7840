"""Tenants as a whole: made, listed, put away and taken back.

One that is deleted keeps all it has, and nothing is done for it: its jobs are cancelled, its keys open nothing, its bases
are not shown, and whoever begins something for it asks first. Restored, it goes on: every document that was under way
is parsed again, every removal done, every wiki written on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases import tenants
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.bases.wiki_lane import ask_for_all
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, Tenant, table_of
from contracts.fences import Coverage
from contracts.identity import new_id
from contracts.jobs import Scope
from contracts.knowledge import OPEN, ParseStatus
from contracts.payloads.maintenance import (
    IndexDelete,
    Initiator,
    KnowledgeBaseDelete,
    KnowledgeListDelete,
    KnowledgeListReparse,
)
from pipeline.store import Outbox, changed, insert_one, now_ms

REMOVALS: Final = frozenset(
    kind.spec.type for kind in (KnowledgeBaseDelete, IndexDelete, KnowledgeListDelete)
)
"""What was deleted goes, whatever becomes of its tenant."""
GIVEN: Final = 2**53
"""Ids from here on are named by callers, and count for nothing when the next one is given."""
TOGETHER: Final = 200
"""Documents of one job (facts 1.16)."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A tenant and how many bases it has. `deleted_at` is in milliseconds, None while it lives."""

    id: int
    name: str
    created_at: int
    deleted_at: int | None
    knowledge_bases: int


async def create(session: AsyncSession, name: str, tenant_id: int | None = None) -> Tenant | None:
    """Make a tenant with this id or the next free one; None where the id is taken."""
    greatest = select(func.max(Tenant.id)).where(Tenant.id < GIVEN)
    for attempt in count():
        chosen = tenant_id or (await session.scalar(greatest) or 0) + 1 + attempt
        row = {"id": chosen, "name": name, "created_at": now_ms(), "deleted_at": None}
        if await insert_one(session, table_of(Tenant), row):
            return await session.get(Tenant, chosen)
        if tenant_id:
            break
    return None


async def listed(session: AsyncSession) -> list[Listed]:
    """Return all tenants that were ever named, by id."""
    live = KnowledgeBase.deleted_at.is_(None)
    bases = select(KnowledgeBase.tenant_id, func.count()).where(live).group_by(KnowledgeBase.tenant_id)
    counts: Mapping[int, int] = {row[0]: row[1] for row in await session.execute(bases)}
    found = await session.scalars(select(Tenant).order_by(Tenant.id))
    return [Listed(one.id, one.name, one.created_at, one.deleted_at, counts.get(one.id, 0)) for one in found]


async def known(session: AsyncSession, tenant_id: int) -> bool:
    """Whether a tenant was ever named."""
    return await session.get(Tenant, tenant_id) is not None


async def delete(session: AsyncSession, tenant_id: int, cut: int) -> bool | None:
    """Put a tenant away, with all its jobs. False if that is so already, None if there is none; `cut` is that of
    `Outbox.choose_cut`.
    """
    if not await known(session, tenant_id):
        return None
    moved = await tenants.delete_tenant(session, tenant_id)
    await Outbox.cancel(session, Scope("tenant", str(tenant_id)), Coverage(excluding=REMOVALS), cut)
    return moved


async def restore(session: AsyncSession, tenant_id: int, who: Initiator | None = None) -> int | None:
    """Take a tenant back and let it go on; return how many documents are parsed again, None if it is not deleted."""
    live = KnowledgeBase.tenant_id == tenant_id, KnowledgeBase.deleted_at.is_(None)
    bases = select(KnowledgeBase).where(*live).order_by(KnowledgeBase.id).with_for_update(read=True)
    found = (await session.scalars(bases)).all()  # locked before their tenant, as everybody does
    if not await tenants.restore_tenant(session, tenant_id):
        return None
    for kb in found:
        if KnowledgeBaseSettings.model_validate(kb.settings).wiki:
            await ask_for_all(session, kb)
    under_way = await _touched(session, tenant_id, OPEN)
    for some in _parts(under_way):
        job = KnowledgeListReparse(tenant_id=tenant_id, knowledge_ids=tuple(some), initiator=who)
        await Outbox.add(session, new_id(), job)
    return len(under_way)


async def _touched(session: AsyncSession, tenant_id: int, statuses: frozenset[ParseStatus]) -> list[str]:
    """Documents in these states, on which something moves from now on: housekeeping would take them for stuck."""
    these = Knowledge.tenant_id == tenant_id, Knowledge.parse_status.in_(statuses)
    found = list(await session.scalars(select(Knowledge.id).where(*these).order_by(Knowledge.id)))
    await changed(session, update(Knowledge).where(*these).values(updated_at=now_ms()))
    return found


def _parts(idents: Sequence[str]) -> list[Sequence[str]]:
    return [idents[start : start + TOGETHER] for start in range(0, len(idents), TOGETHER)]
