"""Stops, repeats and deletes documents, some in a transaction, so that many keep nobody from writing for long."""

import asyncio
from collections.abc import Sequence
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.documents.lifecycle import Step, cancel_parse, delete, reparse
from consumers.knowledge.documents.stages import Stages
from consumers.knowledge.files.filing import files_of
from consumers.knowledge.tables.knowledge import Knowledge
from contracts.knowledge import DocumentVerb
from contracts.payloads.maintenance import Initiator
from pipeline import Database, Outbox, Settings
from pipeline.http.documents import Deed, Done

TOGETHER: Final = 25


async def act(settings: Settings, outbox: Outbox, deed: Deed, ids: Sequence[str]) -> list[Done]:
    """Do something to each of these documents; return what became of each, in their order. Raises StoreUnavailable."""
    if deed.fresh and deed.verb is DocumentVerb.REPARSE:
        await _forget(settings, outbox.database, deed.tenant_id, ids)
    cut, done = await outbox.choose_cut(), list[Done]()
    for start in range(0, len(ids), TOGETHER):
        some = ids[start : start + TOGETHER]
        async with outbox.transaction() as session:
            # in one order, so that two requests do not wait for each other
            found = await _steps(session, settings, deed, sorted(some), cut)
        steps = {one.knowledge_id: one for one in found}
        done += [
            Done(one.knowledge_id, one.effect, one.status or "", one.attempt, Outbox.delivered(session))
            for one in map(steps.__getitem__, some)
        ]
    return done


async def _steps(
    session: AsyncSession, settings: Settings, deed: Deed, ids: Sequence[str], cut: int
) -> list[Step]:
    if deed.verb is DocumentVerb.CANCEL:
        return [await cancel_parse(session, deed.tenant_id, ident, cut) for ident in ids]
    if deed.verb is DocumentVerb.DELETE:
        asked = Initiator(user_id=deed.who, role=deed.role)
        return await delete(session, deed.tenant_id, ids, cut, asked)
    timeout = settings.document_process_timeout
    return [await reparse(session, deed.tenant_id, ident, cut, timeout) for ident in ids]


async def _forget(settings: Settings, database: Database, tenant_id: int | None, ids: Sequence[str]) -> None:
    """Remove what was kept of earlier parses of those of these documents that there are."""
    named = select(Knowledge.id).where(Knowledge.id.in_(ids))
    if tenant_id is not None:
        named = named.where(Knowledge.tenant_id == tenant_id)
    async with database.read() as session:
        found = (await session.scalars(named)).all()
    stages = Stages(database, await asyncio.to_thread(files_of, settings))
    for ident in found:
        await stages.forget(ident)
