"""From an archive, wherever it lies, to a base that is searched, or to nothing at all."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.backups import backing_up
from consumers.knowledge.backups.archive import ArchiveRefused, Reader
from consumers.knowledge.backups.restoring import Goal, Shown, choose, restore
from consumers.knowledge.long_work import tasks
from consumers.knowledge.long_work.store_work import begin
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.upkeep.clearance import remove_base
from consumers.services import Services
from contracts.identity import new_id
from contracts.payloads.knowledge import StoreRestore
from pipeline.errors import ConfigurationError
from pipeline.store import changed, now_ms

Note = Callable[[str, int], Awaitable[None]]


@asynccontextmanager
async def opened(services: Services, path: Path) -> AsyncIterator[Reader]:
    """Check an archive, beside the event loop, and give it. Raises ArchiveRefused, OSError."""
    archive = Reader.open(path, most_bytes=services.settings.restore_max_gb << 30)
    reader = await asyncio.to_thread(archive.__enter__)
    try:
        yield reader
    finally:
        await asyncio.to_thread(archive.__exit__, None, None, None)


async def nobody(_session: AsyncSession) -> None:
    """Nobody waits for the base to be seen."""


async def recover(services: Services, reader: Reader, goal: Goal, note: Note, shown: Shown = nobody) -> None:
    """Make a base of an archive; what it cannot be made of leaves nothing. `shown` is called in the transaction that lets the
    base be seen. Raises ArchiveRefused, ConfigurationError.
    """
    store = services.database, services.search, services.files
    try:
        async for what, count in restore(*store, reader, goal, shown):
            await note(what, count)
    except (ArchiveRefused, ConfigurationError):
        await abandon(services, goal.kb_id)
        raise


async def abandon(services: Services, kb_id: str) -> None:
    """Remove what was made of a base that is not whole."""
    hidden = KnowledgeBase.id == kb_id, KnowledgeBase.deleted_at.is_not(None)
    async with services.database.transaction() as session:
        there = await changed(session, update(KnowledgeBase).where(*hidden).values(deleted_at=now_ms()))
    if there:
        async for _ in remove_base(services.database, services.search, services.files, kb_id):
            pass


async def from_file(services: Services, path: Path, tenant_id: int, name: str | None, note: Note) -> Goal:
    """Restore what an operator has at hand; return what was made. Raises ArchiveRefused, ConfigurationError, OSError."""
    async with opened(services, path) as reader:
        async with services.database.read() as session:
            goal = await choose(session, reader.manifest.base, tenant_id, name, trusted=True)
        await recover(services, reader, goal, note)
    return goal


@asynccontextmanager
async def archive_of(services: Services, backup_id: str) -> AsyncIterator[Path]:
    """Give the archive of a backup, compared with what was written. Raises ConfigurationError, ArchiveRefused, FileMissing."""
    async with services.database.read() as session:
        backup = await backing_up.find(session, None, backup_id)
    if backup is None:
        raise ConfigurationError(
            f"no file and no backup is called {backup_id[:128]}; see streamlane backup list"
        )
    async with services.files.local(backup.file_key) as path:
        if await asyncio.to_thread(_sha256, path) != backup.sha256:
            raise ArchiveRefused(f"backup {backup_id}: its SHA-256 is another than when it was made")
        yield path


def key_of(task_id: str) -> str:
    """Return where an archive lies that was sent for a restore: with the files of its task, which go with it."""
    return f"{tasks.folder(task_id)}/archive.zip"


async def ask_for(session: AsyncSession, task_id: str, tenant_id: int, file_key: str, name: str) -> str:
    """Begin a restore over HTTP as this task; return the id of the base to be."""
    kb_id = new_id()
    job = StoreRestore(
        tenant_id=tenant_id, knowledge_base_id=kb_id, task_id=task_id, file_key=file_key, name=name
    )
    base = KnowledgeBase(id=kb_id, tenant_id=tenant_id)
    await begin(session, base, task_id, job, detail={"file_key": file_key})
    return kb_id


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
