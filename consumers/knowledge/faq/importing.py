"""How an import of questions begins: what is imported is stored, one import runs for a base at a time."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.files.store import FileStore, file_key
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import KnowledgeBase
from contracts.identity import new_id
from contracts.payloads.maintenance import FAQImport, Initiator
from contracts.tasks import TASK_OPEN
from pipeline.store import Outbox, now_ms

MOST_CARRIED: Final = 200
"""Entries that the job itself carries (facts 1.15)."""
MOST_CARRIED_BYTES: Final = 50_000
KIND: Final = FAQImport.spec.type


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an import is to do, and who asked."""

    task_id: str
    mode: Literal["append", "replace"] = "append"
    dry_run: bool = False
    user: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What is imported: a few entries, or a file of the file store."""

    entries: tuple[dict[str, Any], ...] | None = None
    url: str | None = None


class Start(StrEnum):
    """What asking for an import came to."""

    STARTED = "started"
    THERE = "there"  # the same task runs already
    BUSY = "busy"  # another import of the base runs
    FOREIGN = "foreign"  # the id is that of other work


async def stored(files: FileStore, task_id: str, entries: Sequence[Mapping[str, Any]]) -> Source:
    """Return entries as an import takes them: many of them go to the file store. Raises FileStoreError."""
    data = json.dumps(entries, ensure_ascii=False).encode(errors="replace")
    if len(entries) <= MOST_CARRIED and len(data) <= MOST_CARRIED_BYTES:
        return Source(entries=tuple(dict(one) for one in entries))
    key = file_key(tasks.folder(task_id), data, "entries.json")
    await files.put(key, data)
    return Source(url=key)


async def stored_file(files: FileStore, task_id: str, path: Path, name: str) -> Source:
    """Put a file of CSV, XLSX or JSON where the import finds it. Raises FileStoreError, OSError."""
    key = file_key(tasks.folder(task_id), path, name)
    await files.put(key, path)
    return Source(url=key)


async def begin(
    outbox: Outbox, files: FileStore, kb: KnowledgeBase, plan: Plan, source: Source
) -> tuple[Start, AsyncSession]:
    """Start an import of a base, or start one that has ended anew; what else is asked with the same id changes nothing. Also
    returns the transaction, which tells whether its job is with the queue.
    """
    async with outbox.transaction() as session:
        started = await _begin(session, kb, plan, source)
    if started is Start.BUSY and source.url is not None:  # nobody will ever read it
        await files.delete(source.url)
    return started, session


async def _begin(session: AsyncSession, kb: KnowledgeBase, plan: Plan, source: Source) -> Start:
    await session.execute(select(KnowledgeBase.id).where(KnowledgeBase.id == kb.id).with_for_update())
    there = await tasks.find(session, None, plan.task_id)
    if there is not None and (there.kind, there.knowledge_base_id) != (KIND, kb.id):
        return Start.FOREIGN
    if there is not None and there.status in TASK_OPEN:
        return Start.THERE
    if await tasks.under_way(session, kb.id, KIND) is not None:
        return Start.BUSY
    instance = new_id()
    job = FAQImport(
        tenant_id=kb.tenant_id,
        task_id=plan.task_id,
        kb_id=kb.id,
        entries=source.entries,
        entries_url=source.url,
        entry_count=len(source.entries) if source.entries is not None else None,
        mode=plan.mode,
        dry_run=plan.dry_run,
        enqueued_at=now_ms() // 1000,
        instance_id=instance,
        initiator=Initiator(user_id=plan.user, role=plan.role),
    )
    job_id, about = f"{plan.task_id}:{instance}", {"mode": plan.mode, "dry_run": plan.dry_run}
    if there is not None:
        await tasks.reopen(session, plan.task_id, job, job_id, about)
    else:
        await tasks.open_task(
            session, plan.task_id, job, tenant_id=kb.tenant_id, kb_id=kb.id, detail=about, job_id=job_id
        )
    return Start.STARTED
