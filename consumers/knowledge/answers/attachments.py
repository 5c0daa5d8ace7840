"""Files attached to chats: taken in, read by a worker, answered from, and forgotten (facts 1.5).

Each function on a session is one guarded transition inside the caller's transaction.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from typing import Final

import numpy as np
from sqlalchemy import ColumnElement, delete, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.answers.answering import NOISE, Passage, Place, coverage
from consumers.knowledge.embedding.embedder import Embedder, Vectors
from consumers.knowledge.files.store import FileStore, file_key
from consumers.knowledge.search.store import Vector
from consumers.knowledge.tables.attachments import Attachment, AttachmentChunk
from consumers.knowledge.tables.knowledge import table_of
from contracts.attachments import UNDER_WAY, AttachmentStatus
from contracts.identity import derive_id, new_id
from contracts.payloads.documents import TemporaryDocumentProcess
from contracts.wire import cut as shortened
from pipeline.store import Database, Outbox, batches, changed, insert_new, now_ms

MOST_OF_SESSION: Final = 50
"""Files that a session may have at once."""
LONGEST_ERROR: Final = 2_000  # characters
AT_ONCE: Final = 100
HOUR_MS: Final = 3_600_000
POLL_S: Final = 0.5


class TooMany(Exception):  # noqa: N818 - named as a person would say it
    """The session has as many files as it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A file that was sent to a session, and for how many hours it is kept."""

    tenant_id: int
    session_id: str
    name: str
    path: Path
    kept_hours: float


@dataclass(frozen=True, slots=True)
class Piece:
    """A passage as it is to be stored."""

    text: str
    heading: str = ""


@dataclass(frozen=True, slots=True)
class Waited:
    """What became of files that a turn waited for: those that are ready, and how many are passed over."""

    ready: tuple[str, ...]
    skipped: int


def folder(document_id: str) -> str:
    """Return the owner of the file of an attachment."""
    return f"temporary/{document_id}"


def reading_job(document_id: str) -> str:
    """Return the id of the job that reads an attachment."""
    return derive_id(document_id, "read")


async def attach(outbox: Outbox, files: FileStore, sent: Sent) -> str:
    """Take a file into a session and let it be read; return its id. Raises TooMany, StoreUnavailable, FileStoreError."""
    document_id, now = new_id(), now_ms()
    key = await asyncio.to_thread(file_key, folder(document_id), sent.path, sent.name)
    await files.put(key, sent.path)
    row = {
        "id": document_id,
        "tenant_id": sent.tenant_id,
        "session_id": sent.session_id,
        "file_name": sent.name,
        "file_size": (await asyncio.to_thread(sent.path.stat)).st_size,
        "file_key": key,
        "status": AttachmentStatus.UPLOADED,
        "error_message": "",
        "warnings": [],
        "created_at": now,
        "updated_at": now,
        "expires_at": now + round(sent.kept_hours * HOUR_MS),
    }
    try:
        async with outbox.transaction() as session:
            if len(await of_session(session, sent.tenant_id, sent.session_id)) >= MOST_OF_SESSION:
                raise TooMany
            await insert_new(session, table_of(Attachment), [row])
            job = TemporaryDocumentProcess(tenant_id=sent.tenant_id, document_id=document_id)
            await Outbox.add(session, reading_job(document_id), job)
    except TooMany:
        await files.delete(folder(document_id))
        raise
    return document_id


async def begin(session: AsyncSession, document_id: str) -> Attachment | None:
    """Uploaded, processing → processing; None if there is nothing to read any more."""
    there = Attachment.id == document_id, Attachment.status.in_(UNDER_WAY), Attachment.expires_at > now_ms()
    moved = update(Attachment).where(*there)
    if not await changed(session, moved.values(status=AttachmentStatus.PROCESSING, updated_at=now_ms())):
        return None
    return await session.get(Attachment, document_id)


async def store_ready(
    session: AsyncSession,
    document_id: str,
    pieces: Sequence[Piece],
    vectors: Vectors,
    model: str,
    warnings: Sequence[str],
) -> bool:
    """Processing → ready, with what was read. False if the file is gone meanwhile."""
    ready = {"status": AttachmentStatus.READY, "warnings": list(warnings), "updated_at": now_ms()}
    if not await changed(session, update(Attachment).where(*_open(document_id)).values(ready)):
        return False
    rows = [
        {
            "document_id": document_id,
            "position": place,
            "text": piece.text,
            "heading": piece.heading,
            "model": model,
            "vector": np.asarray(vector, "<f4").tobytes(),
        }
        for place, (piece, vector) in enumerate(zip(pieces, vectors, strict=True))
    ]
    await insert_new(session, table_of(AttachmentChunk), rows)
    return True


async def fail(session: AsyncSession, document_id: str, error: str) -> bool:
    """Uploaded, processing → failed. `error` is one sentence for a person, cut to 2,000 characters."""
    failed = {
        "status": AttachmentStatus.FAILED,
        "error_message": shortened(error)[:LONGEST_ERROR],
        "updated_at": now_ms(),
    }
    return bool(await changed(session, update(Attachment).where(*_open(document_id)).values(failed)))


async def motionless(session: AsyncSession, cutoff: int) -> dict[str, int]:
    """Return the last move (ms) of files that are to be read and have not moved since `cutoff`, by id, the stillest first."""
    still = Attachment.status.in_(UNDER_WAY), Attachment.updated_at < cutoff, Attachment.expires_at > now_ms()
    found = select(Attachment.id, Attachment.updated_at).where(*still)
    rows = await session.execute(found.order_by(Attachment.updated_at, Attachment.id))
    return {row.id: row.updated_at for row in rows}


async def give_up(session: AsyncSession, document_id: str, moved_at: int, error: str) -> bool:
    """Uploaded, processing → failed, unless it has moved since `moved_at` (ms)."""
    as_seen = select(Attachment.id).where(*_open(document_id), Attachment.updated_at == moved_at)
    if await session.scalar(as_seen.with_for_update()) is None:
        return False
    return await fail(session, document_id, error)


async def of_session(session: AsyncSession, tenant_id: int, session_id: str) -> Sequence[Attachment]:
    """Return the files of a session, the oldest first."""
    of = Attachment.tenant_id == tenant_id, Attachment.session_id == session_id
    live = select(Attachment).where(*of, Attachment.expires_at > now_ms())
    return (await session.scalars(live.order_by(Attachment.created_at, Attachment.id))).all()


async def remove(outbox: Outbox, files: FileStore, tenant_id: int, session_id: str, document_id: str) -> bool:
    """Remove a file of a session with all that was made of it; False if there is none."""
    of = Attachment.tenant_id == tenant_id, Attachment.session_id == session_id
    async with outbox.transaction() as session:
        gone = await changed(session, delete(Attachment).where(*of, Attachment.id == document_id))
    if gone:
        await files.delete(folder(document_id))
    return bool(gone)


async def prune(database: Database, files: FileStore) -> None:
    """Remove files whose time is over, some at a time."""
    async with database.read() as session:
        old = select(Attachment.id).where(Attachment.expires_at <= now_ms()).limit(AT_ONCE)
        found = (await session.scalars(old)).all()
    for document_id in found:
        await files.delete(folder(document_id))
    async with database.transaction() as session:
        await session.execute(delete(Attachment).where(Attachment.id.in_(found)))


async def await_ready(
    database: Database, tenant_id: int, document_ids: Sequence[str], limit_s: float
) -> Waited:
    """Wait until files are read, at most `limit_s` seconds; what is not ready then, failed, or is another tenant's is passed
    over.
    """
    wanted = list(dict.fromkeys(document_ids))
    deadline = asyncio.get_running_loop().time() + limit_s
    while True:
        states = await _states(database, tenant_id, wanted)
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0 or not any(state in UNDER_WAY for state in states.values()):
            ready = tuple(one for one in wanted if states.get(one) is AttachmentStatus.READY)
            return Waited(ready, len(wanted) - len(ready))
        await asyncio.sleep(min(POLL_S, left))


async def passages(
    database: Database, embedder: Embedder, document_ids: Sequence[str], question: str, limit: int
) -> list[Passage]:
    """Return the passages of files that fit a question, best first. No more than the vectors of one file are held at once."""
    (asked,) = await embedder.embed([question])
    near: list[tuple[float, str, int]] = []
    async with database.read() as session:
        for ident in document_ids:
            scored = await _closeness(session, ident, embedder.model, asked)
            near = nlargest(4 * limit, (*near, *scored), key=itemgetter(0))
        found = await _texts(session, [place for _, *place in near])
    best = [(closeness, *found[ident, at]) for closeness, ident, at in near if (ident, at) in found]
    shares = coverage(question, [chunk.text for _, chunk, _ in best])
    fits = [
        (min(1.0, closeness + float(share) / 2), chunk, name)
        for (closeness, chunk, name), share in zip(best, shares, strict=True)
    ]
    return [
        Passage(name, chunk.text, fit, Place("", name, position=chunk.position, attachment=chunk.document_id))
        for fit, chunk, name in sorted(fits, key=lambda one: -one[0])[:limit]
        if fit >= NOISE
    ]


async def _closeness(
    session: AsyncSession, document_id: str, model: str, asked: Vector
) -> list[tuple[float, str, int]]:
    """How close each passage of a file is."""
    of_it = AttachmentChunk.document_id == document_id, AttachmentChunk.model == model
    rows = (
        await session.execute(select(AttachmentChunk.position, AttachmentChunk.vector).where(*of_it))
    ).all()
    if not rows:
        return []
    near = await asyncio.to_thread(
        lambda: np.stack([np.frombuffer(vector, "<f4") for _, vector in rows]) @ asked
    )
    return [(float(one), document_id, position) for one, (position, _) in zip(near, rows, strict=True)]


async def _texts(
    session: AsyncSession, places: Sequence[Sequence[object]]
) -> dict[tuple[str, int], tuple[AttachmentChunk, str]]:
    """Passages by file and position, each with the name of its file."""
    there = tuple_(AttachmentChunk.document_id, AttachmentChunk.position).in_(places)
    rows = await session.execute(
        select(AttachmentChunk, Attachment.file_name)
        .join(Attachment, Attachment.id == AttachmentChunk.document_id)
        .where(there)
    )
    return {(chunk.document_id, chunk.position): (chunk, name) for chunk, name in rows}


async def _states(
    database: Database, tenant_id: int, document_ids: Sequence[str]
) -> dict[str, AttachmentStatus]:
    found: dict[str, AttachmentStatus] = {}
    async with database.read() as session:
        for some in batches(document_ids):
            live = Attachment.tenant_id == tenant_id, Attachment.expires_at > now_ms()
            rows = await session.execute(
                select(Attachment.id, Attachment.status).where(*live, Attachment.id.in_(some))
            )
            found.update((row.id, row.status) for row in rows)
    return found


def _open(document_id: str) -> tuple[ColumnElement[bool], ...]:
    return Attachment.id == document_id, Attachment.status.in_(UNDER_WAY)
