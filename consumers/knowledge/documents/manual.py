"""Knowledge written by hand: a document whose content is Markdown that a person publishes, and publishes again."""

import hashlib
from dataclasses import dataclass
from typing import Final

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.bases.knowledge_bases import keep_base
from consumers.knowledge.documents import originals
from consumers.knowledge.documents.documents import SourceFile, abandon, fresh_row, new_row
from consumers.knowledge.documents.lifecycle import PARSE, Step, locked
from consumers.knowledge.documents.uploading import KnowledgeBaseGone
from consumers.knowledge.files.store import file_key
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, table_of
from consumers.services import Services
from contracts.identity import new_id
from contracts.jobs import Scope
from contracts.knowledge import DocumentEffect as Effect
from contracts.knowledge import DocumentKind, SpanCode, sources
from contracts.payloads.documents import ManualProcess
from pipeline.store import Outbox, changed, insert_new, now_ms

LONGEST: Final = 400_000
"""Bytes of what is written; its job carries it."""
NAME: Final = "written.md"


@dataclass(frozen=True, slots=True)
class Writing:
    """What a person wrote. `content` is Markdown."""

    title: str
    content: str

    def as_file(self, knowledge_id: str) -> SourceFile:
        """Return it as the file that it will be."""
        data = self.content.encode()
        return SourceFile(
            source=f"manual:{knowledge_id}",
            file_name=self.title,
            file_type="md",
            file_hash=hashlib.sha256(data).hexdigest(),
            file_size=len(data),
            file_key=file_key("originals", data, NAME),
            kind=DocumentKind.MANUAL,
        )


async def write(services: Services, kb_id: str, writing: Writing) -> tuple[str, AsyncSession]:
    """Make a document of what a person wrote; return its id, and the transaction, which tells whether its job is with the
    queue. Raises KnowledgeBaseGone, StoreUnavailable, FileStoreError.
    """
    knowledge_id = new_id()
    file = writing.as_file(knowledge_id)
    await services.files.put(file.file_key, writing.content.encode())
    async with services.outbox.transaction() as session:
        kb = await keep_base(session, kb_id)
        if kb is None:
            raise KnowledgeBaseGone
        await insert_new(session, table_of(Knowledge), [new_row(kb, knowledge_id, file)])
        await _ask(session, kb, knowledge_id, 1, writing)
        await originals.hold(session)
    await _there(services, file, writing)
    return knowledge_id, session


async def rewrite(
    services: Services, tenant_id: int | None, knowledge_id: str, writing: Writing
) -> tuple[Step, AsyncSession]:
    """Let a document that was written by hand say something else; what it said stays until the new parse replaces it. Raises
    StoreUnavailable, FileStoreError.
    """
    file = writing.as_file(knowledge_id)
    await services.files.put(file.file_key, writing.content.encode())
    cut = await services.outbox.choose_cut()
    async with services.outbox.transaction() as session:
        step, replaced = await _replace(session, tenant_id, knowledge_id, writing, cut)
        await originals.hold(session, alone=True)
        for key in {replaced, file.file_key}:
            if key and not await originals.is_used(session, key):
                await services.files.delete(key)
    if step.ok:
        await _there(services, file, writing)
    return step, session


async def _replace(
    session: AsyncSession, tenant_id: int | None, knowledge_id: str, writing: Writing, cut: int
) -> tuple[Step, str]:
    """What it came to, and the key of the file that it no longer has."""
    row = await locked(session, tenant_id, knowledge_id)
    if row is None or row.kind is not DocumentKind.MANUAL:
        return Step(knowledge_id, Effect.NOT_FOUND), ""
    status, attempt, replaced = row.parse_status, row.attempt, row.file_key
    kb = await keep_base(session, row.knowledge_base_id)
    moved = kb is not None and await changed(
        session,
        update(Knowledge)
        .where(Knowledge.id == knowledge_id, Knowledge.attempt == attempt)
        .where(Knowledge.parse_status.in_(sources("reparse")))
        .values(fresh_row(writing.as_file(knowledge_id), attempt + 1, now_ms())),
    )
    if kb is None or not moved:
        return Step(knowledge_id, Effect.REFUSED, status, attempt), ""
    await abandon(session, kb.id, knowledge_id, attempt, SpanCode.TASK_SUPERSEDED)
    await Outbox.cancel(session, Scope("knowledge", knowledge_id), PARSE, cut)
    await _ask(session, kb, knowledge_id, attempt + 1, writing)
    return Step(knowledge_id, Effect.DONE, status, attempt), replaced


async def _ask(
    session: AsyncSession, kb: KnowledgeBase, knowledge_id: str, attempt: int, writing: Writing
) -> None:
    job = ManualProcess(
        tenant_id=kb.tenant_id,
        knowledge_base_id=kb.id,
        knowledge_id=knowledge_id,
        attempt=attempt,
        content=writing.content,
        need_cleanup=attempt > 1,
    )
    await Outbox.add(session, ids.process_job(knowledge_id, attempt), job)


async def _there(services: Services, file: SourceFile, writing: Writing) -> None:
    """The delete of another document may have taken a file along."""
    if not await services.files.exists(file.file_key):
        await services.files.put(file.file_key, writing.content.encode())
