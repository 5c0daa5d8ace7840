"""Archives of knowledge bases: one snapshot of rows, vectors and files, streamed through a local file into the file store."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import delete, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.backups.archive import BLOCK, Sink, Writer
from consumers.knowledge.backups.archive_parts import PARTS, Part
from consumers.knowledge.faq import storing
from consumers.knowledge.files.store import FileMissing, FileStore
from consumers.knowledge.long_work.store_work import begin, gone, locked
from consumers.knowledge.search.store import IndexEntry, SearchStore
from consumers.knowledge.tables.backups import Backup
from consumers.knowledge.tables.knowledge import Image, Knowledge, KnowledgeBase, table_of
from contracts.identity import new_id
from contracts.knowledge import ParseStatus
from contracts.payloads.knowledge import StoreBackup
from pipeline import Database
from pipeline.store import now_ms

PAGE: Final = 500
SPACES: Final = (("base", str), ("faq", storing.space))
"""The bases of the index in which a base lies, by the names of their entries."""

Note = Callable[[str, int], Awaitable[None]]
"""Is told what is being written, and how much of it is."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive holds, and what it is: `missing` counts files that the store had no more."""

    name: str
    tenant_id: int
    size: int
    sha256: str
    documents: int
    missing: int


def key_of(kb_id: str, backup_id: str) -> str:
    """Return where the archive of a backup lies in the file store."""
    return f"backups/{kb_id}/{backup_id}.zip"


async def ask_for(session: AsyncSession, kb_id: str) -> str:
    """Begin a backup; return its id, which is that of its task. Raises UnderWay; ConfigurationError: the base is gone."""
    kb = await locked(session, kb_id)
    if kb is None:
        raise gone(kb_id)
    backup_id = new_id()
    job = StoreBackup(tenant_id=kb.tenant_id, knowledge_base_id=kb.id, backup_id=backup_id)
    await begin(session, kb, backup_id, job)
    return backup_id


async def write_archive(
    database: Database, index: SearchStore, files: FileStore, kb_id: str, path: Path, note: Note
) -> Archived:
    """Write the archive of a base to a local file. Raises ConfigurationError: it is gone; StoreUnavailable, FileStoreError."""
    writer = await asyncio.to_thread(Writer, path)
    try:
        kb, about = await _write(database, index, files, writer, kb_id, note)
        base = {name: _plain(value) for name, value in _columns(kb).items()}
        await asyncio.to_thread(writer.finish, base, about, now_ms())
    finally:
        writer.close()
    size, digest = await asyncio.to_thread(_digest, path)
    return Archived(kb.name, kb.tenant_id, size, digest, about["rows"]["knowledges"], about["files_missing"])


async def _write(
    database: Database, index: SearchStore, files: FileStore, writer: Writer, kb_id: str, note: Note
) -> tuple[KnowledgeBase, dict[str, Any]]:
    async with database.read() as session:  # one snapshot for all of it
        kb = await session.get(KnowledgeBase, kb_id)
        if kb is None or kb.deleted_at is not None:
            raise gone(kb_id)
        counts = {part.table.name: await _rows(session, writer, part, kb_id, note) for part in PARTS}
        for name, space in SPACES:
            await _index(session, index, writer, name, space(kb_id), kb.index_generation, note)
        wanted = await _files(session, kb_id)
    missing = 0
    keys: list[dict[str, Any]] = []
    for number, key in enumerate(wanted):
        if await _file(files, writer, key, f"files/{number}"):
            keys.append({"key": key, "entry": f"files/{number}"})
        else:
            missing += 1
        if number % 20 == 0:
            await note("files", number)
    with writer.entry("rows/files.jsonl") as sink:
        for one in keys:
            sink.line(one)
    return kb, {"rows": counts, "files": len(keys), "files_missing": missing}


async def record(session: AsyncSession, kb_id: str, backup_id: str, made: Archived) -> None:
    """Say that there is this backup."""
    session.add(
        Backup(
            id=backup_id,
            tenant_id=made.tenant_id,
            base_id=kb_id,
            name=made.name,
            file_key=key_of(kb_id, backup_id),
            size=made.size,
            sha256=made.sha256,
            documents=made.documents,
            created_at=now_ms(),
        )
    )
    await session.flush()


async def find(session: AsyncSession, tenant_id: int | None, backup_id: str) -> Backup | None:
    """Return a backup of a tenant, None: of whatever tenant."""
    found = await session.get(Backup, backup_id)
    return found if found is not None and tenant_id in {None, found.tenant_id} else None


async def list_backups(
    session: AsyncSession, tenant_id: int | None, kb_id: str | None, limit: int
) -> Sequence[Backup]:
    """Return backups, the newest first: of a base, or of all that a tenant has."""
    found = select(Backup).order_by(Backup.created_at.desc(), Backup.id.desc()).limit(limit)
    if tenant_id is not None:
        found = found.where(Backup.tenant_id == tenant_id)
    if kb_id is not None:
        found = found.where(Backup.base_id == kb_id)
    return (await session.scalars(found)).all()


async def remove(database: Database, files: FileStore, backup: Backup) -> None:
    """Remove a backup with its archive; its row goes last, so that it can be repeated."""
    await files.delete(backup.file_key)
    async with database.transaction() as session:
        await session.execute(
            delete(Backup).where(Backup.id == backup.id), execution_options={"synchronize_session": False}
        )


async def keep_newest(database: Database, files: FileStore, kb_id: str, kept: int) -> int:
    """Remove all backups of a base but the newest; return how many."""
    async with database.read() as session:
        found = await list_backups(session, None, kb_id, kept + PAGE)
    for old in found[kept:]:
        await remove(database, files, old)
    return len(found[kept:])


async def _rows(session: AsyncSession, writer: Writer, part: Part, kb_id: str, note: Note) -> int:
    count, key = 0, list(part.table.primary_key)
    after: tuple[Any, ...] | None = None
    with writer.entry(part.name) as sink:
        while True:
            found = part.rows(kb_id).limit(PAGE)
            if after is not None:
                found = found.where(tuple_(*key) > tuple_(*after))
            some = (await session.execute(found)).mappings().all()
            if not some:
                return count
            await asyncio.to_thread(_lines, sink, some)
            after, count = tuple(some[-1][column.name] for column in key), count + len(some)
            await note(part.table.name, count)


async def _index(
    session: AsyncSession,
    index: SearchStore,
    writer: Writer,
    name: str,
    space: str,
    generation: int,
    note: Note,
) -> None:
    """Entries and their vectors: read twice, as an archive is written an entry after the other."""
    for kind in ("jsonl", "f32"):
        after, count = "", 0
        with writer.entry(f"index/{name}.{kind}", stored=kind == "f32") as sink:
            while some := await index.read(session, space, generation, after=after, limit=PAGE):
                await asyncio.to_thread(_entries if kind == "jsonl" else _vectors, sink, some)
                after, count = some[-1].id, count + len(some)
                await note(f"index ({kind})", count)


async def _files(session: AsyncSession, kb_id: str) -> list[str]:
    here = Knowledge.knowledge_base_id == kb_id, Knowledge.parse_status != ParseStatus.DELETING
    originals = select(Knowledge.file_key).where(*here, Knowledge.file_key != "")
    pictures = select(Image.file_key).join(Knowledge, Knowledge.id == Image.knowledge_id).where(*here)
    return sorted({*await session.scalars(originals), *await session.scalars(pictures)})


async def _file(files: FileStore, writer: Writer, key: str, name: str) -> bool:
    try:
        async with files.local(key) as path:
            await asyncio.to_thread(_copy, writer, path, name)
    except FileMissing:
        return False
    return True


def _copy(writer: Writer, path: Path, name: str) -> None:
    with path.open("rb") as source, writer.entry(name, stored=True) as sink:
        while block := source.read(BLOCK):
            sink.write(block)


def _lines(sink: Sink, rows: Sequence[Any]) -> None:
    for row in rows:
        sink.line({name: _plain(value) for name, value in row.items()})


def _entries(sink: Sink, entries: Sequence[IndexEntry]) -> None:
    for entry in entries:
        row = {name: getattr(entry, name) for name in ENTRY}
        sink.line({**row, "vector": entry.vector is not None})


def _vectors(sink: Sink, entries: Sequence[IndexEntry]) -> None:
    for entry in entries:
        if entry.vector is not None:
            sink.write(entry.vector.astype("<f4").tobytes())


ENTRY: Final = ("id", "knowledge_id", "attempt", "kind", "text", "chunk_id", "position", "heading", "model")


def _columns(kb: KnowledgeBase) -> dict[str, Any]:
    return {column.name: getattr(kb, column.name) for column in table_of(KnowledgeBase).columns}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def _digest(path: Path) -> tuple[int, str]:
    with path.open("rb") as stream:
        return path.stat().st_size, hashlib.file_digest(stream, "sha256").hexdigest()
