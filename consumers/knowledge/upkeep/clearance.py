"""Removing a knowledge base for good. It is hidden and stopped at once; a job then removes its documents one by one and all
that names it, a part in a transaction of its own, so that it can be killed anywhere and run again. The row of the base goes
last: while it is there, somebody will finish.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Table, delete, func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.pending import BASE
from consumers.knowledge.documents.removal import remove
from consumers.knowledge.faq.storing import space
from consumers.knowledge.files.store import FileStore
from consumers.knowledge.long_work import tasks
from consumers.knowledge.search.store import SearchStore
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, Slot, table_of
from consumers.knowledge.tables.sources import DataSource
from consumers.knowledge.tables.tasks import Task
from consumers.migrations.schema import TARGETS
from contracts.fences import coverage
from contracts.identity import new_id
from contracts.jobs import Scope
from contracts.knowledge import DocumentEffect as Effect
from contracts.knowledge import ParseStatus
from contracts.payloads.knowledge import StoreRestore
from contracts.payloads.maintenance import KnowledgeBaseDelete
from pipeline.store import Database, Outbox, changed, now_ms
from pipeline.store.pending_ops import delete_scope

AT_ONCE: Final = 1_000
"""Rows removed in one transaction."""
DOCUMENTS: Final = 100
"""Documents that are looked up at once."""
STOPPED: Final = "its knowledge base was deleted"
KIND: Final = KnowledgeBaseDelete.spec.type
TELLING: Final = frozenset({KIND, StoreRestore.spec.type})
"""Kinds of tasks that stay: they tell how a removal went, also that of what a restore had made."""
COLUMN: Final = "knowledge_base_id"
_, DOMAIN = TARGETS

Part = Callable[[AsyncSession], Awaitable[int]]
"""Removes something and says how much; it is called again until there was nothing."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What asking for the end of a base came to, and the task that removes it."""

    effect: Effect
    task_id: str = ""


async def begin(session: AsyncSession, tenant_id: int | None, kb_id: str, cut: int) -> Begun:
    """Hide a base of a tenant, None: of whatever tenant, stop all that works on it and let it be removed; its name is free
    from now on. `cut` is of `Outbox.choose_cut`. Asked again, it says which task removes it.
    """
    found = select(KnowledgeBase).where(KnowledgeBase.id == kb_id).with_for_update()
    kb = (await session.scalars(found.execution_options(populate_existing=True))).one_or_none()
    now = now_ms()
    if kb is None or tenant_id not in {None, kb.tenant_id}:
        return Begun(Effect.NOT_FOUND)
    if kb.deleted_at is not None and kb.deleted_at > now:  # it is being restored, and there for nobody yet
        return Begun(Effect.NOT_FOUND)
    if kb.deleted_at is not None:
        return Begun(Effect.ALREADY, await ask_again(session, kb))
    await session.execute(
        update(KnowledgeBase).where(KnowledgeBase.id == kb_id).values(deleted_at=now, updated_at=now),
        execution_options={"synchronize_session": False},
    )
    await tasks.stop_all(session, kb, STOPPED)
    covered = coverage("knowledge_base")
    for scope in (
        Scope("knowledge_base", kb_id),
        *[Scope("data_source", one) for one in await sources(session, kb_id)],
    ):
        await Outbox.cancel(session, scope, covered, cut)
    await delete_scope(session, BASE, kb_id)
    return Begun(Effect.DONE, await _ask(session, kb))


async def ask_again(session: AsyncSession, kb: KnowledgeBase) -> str:
    """Return the task that removes a deleted base; there is another one if the last has ended without doing it."""
    return await tasks.under_way(session, kb.id, KIND) or await _ask(session, kb)


async def _ask(session: AsyncSession, kb: KnowledgeBase) -> str:
    job = KnowledgeBaseDelete(
        tenant_id=kb.tenant_id,
        knowledge_base_id=kb.id,
        data_source_ids=tuple(await sources(session, kb.id)),
        effective_engines=(engine_of(session),),
    )
    total = await session.scalar(select(func.count()).where(Knowledge.knowledge_base_id == kb.id))
    task_id = new_id()
    await tasks.open_task(session, task_id, job, tenant_id=kb.tenant_id, kb_id=kb.id, total=total or 0)
    return task_id


def engine_of(session: AsyncSession) -> str:
    """Return what the index of a base lies in: the database itself."""
    return session.get_bind().dialect.name


async def sources(session: AsyncSession, kb_id: str) -> Sequence[str]:
    """Return the ids of the data sources of a base."""
    found = select(DataSource.id).where(DataSource.knowledge_base_id == kb_id)
    return (await session.scalars(found.order_by(DataSource.id))).all()


async def documents(session: AsyncSession, kb_id: str, limit: int | None = None) -> Sequence[str]:
    """Return the ids of the documents of a base, the oldest first."""
    found = select(Knowledge.id).where(Knowledge.knowledge_base_id == kb_id)
    return (await session.scalars(found.order_by(Knowledge.created_at, Knowledge.id).limit(limit))).all()


async def remove_base(
    database: Database, index: SearchStore, files: FileStore, kb_id: str
) -> AsyncIterator[str]:
    """Remove a base that is deleted, with all that is its own; nothing of any other one.

    Yields "document" for each one that is gone, then the name of each other part, and nothing more once the base is gone.
    Raises StoreUnavailable, FileStoreError: what was removed until then stays so.
    """
    while some := await _doomed(database, kb_id):
        for ident in some:
            async for _ in remove(database, index, files, ident):
                pass
            yield "document"
    async with database.read() as session:
        over = (await session.scalars(select(Task.id).where(Task.knowledge_base_id == kb_id))).all()
    for task_id in over:
        await files.delete(tasks.folder(task_id))
    for name, part in _parts(index, kb_id):
        more = 1
        while more:
            async with database.transaction() as session:
                if not await _is_deleted(session, kb_id):
                    return
                more = await part(session)
        yield name
    await files.delete(kb_id)
    async with database.transaction() as session:
        gone = KnowledgeBase.id == kb_id, KnowledgeBase.deleted_at.is_not(None)
        await session.execute(
            delete(KnowledgeBase).where(*gone), execution_options={"synchronize_session": False}
        )
    yield "base"


async def _doomed(database: Database, kb_id: str) -> Sequence[str]:
    """Return some documents of a deleted base that are left, as those that are to be removed."""
    async with database.transaction() as session:
        some = await documents(session, kb_id, DOCUMENTS) if await _is_deleted(session, kb_id) else ()
        await changed(
            session,
            update(Knowledge)
            .where(Knowledge.id.in_(some), Knowledge.parse_status != ParseStatus.DELETING)
            .values(parse_status=ParseStatus.DELETING, updated_at=now_ms()),
        )
        await changed(session, delete(Slot).where(Slot.knowledge_id.in_(some)))
    return some


async def _is_deleted(session: AsyncSession, kb_id: str) -> bool:
    gone = KnowledgeBase.id == kb_id, KnowledgeBase.deleted_at.is_not(None)
    return await session.scalar(select(KnowledgeBase.id).where(*gone)) is not None


def _parts(index: SearchStore, kb_id: str) -> list[tuple[str, Part]]:
    def rows(table: Table) -> Part:
        key = tuple_(*table.primary_key)
        of_it = table.c[COLUMN] == kb_id
        if table is table_of(Task):
            of_it &= table.c.kind.not_in(TELLING)
        some = select(*table.primary_key).where(of_it).limit(AT_ONCE)
        return lambda session: changed(session, delete(table).where(key.in_(some)))

    def entries(place: str) -> Part:
        return lambda session: index.drop_base(session, place, limit=AT_ONCE)

    async def operations(session: AsyncSession) -> int:
        return await delete_scope(session, BASE, kb_id)

    ours = [table for table in reversed(DOMAIN.sorted_tables) if COLUMN in table.c]
    found: list[tuple[str, Part]] = [("operations", operations), ("index", entries(kb_id))]
    found.append(("ready answers", entries(space(kb_id))))
    return found + [(table.name, rows(table)) for table in ours if table is not table_of(Knowledge)]
