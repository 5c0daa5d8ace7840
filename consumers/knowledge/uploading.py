"""Bringing in what is sent rather than found on a disk: known by its content, so that the same one comes in once."""

import asyncio
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import formats
from consumers.knowledge.documents import Entry, ProcessOptions, Registered, SourceFile, register_many
from consumers.knowledge.fates import UPLOADED
from consumers.knowledge.files import file_key
from consumers.knowledge.knowledge_bases import keep_base
from consumers.knowledge.parsed import UnreadableDocument
from consumers.knowledge.tables import Knowledge
from consumers.services import Services
from contracts.knowledge import DocumentKind, ParseStatus
from pipeline.store import batches

LONGEST_NAME: Final = 200
"""Characters of a file name that are kept, its extension among them."""
NAMELESS: Final = "document"

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Upload:
    """What was sent, in a file that goes soon. `name` is what its owner calls it."""

    name: str
    path: Path
    kind: DocumentKind = DocumentKind.FILE


@dataclass(frozen=True, slots=True)
class Entered:
    """A document that was sent. `status` is where it stood if its content was there before; otherwise it begins."""

    file_name: str
    registered: Registered
    status: ParseStatus = ParseStatus.PENDING

    @property
    def duplicate(self) -> bool:
        """Whether its content was there, and no new parse of it was begun."""
        return self.registered.entry not in {Entry.CREATED, Entry.CHANGED, Entry.RETRIED}


class KnowledgeBaseGone(Exception):  # noqa: N818 - a state of the world
    """The base is not there any more."""


async def take_in_uploads(
    services: Services, kb_id: str, uploads: Sequence[Upload]
) -> tuple[list[Entered], AsyncSession]:
    """Register what was sent and start its processing, unless its very content is there, under way or known as unreadable.
    Also returns the transaction, which tells whether the jobs are with the queue.

    Raises KnowledgeBaseGone, StoreUnavailable, StoreFull, FileStoreError.
    """
    files = [await _kept(services, one) for one in uploads]
    async with services.outbox.transaction() as session:
        kb = await keep_base(session, kb_id)
        if kb is None:
            raise KnowledgeBaseGone
        files = await _as_known(session, kb_id, files)
        options = ProcessOptions.of(kb, services.settings.document_process_timeout)
        registered = await register_many(session, kb, files, options)
        status = await _standing(session, [one.knowledge_id for one in registered])
    for upload, file in zip(
        uploads, files, strict=True
    ):  # a delete of another document may have taken it along
        if not await services.files.exists(file.file_key):
            await services.files.put(file.file_key, upload.path)
    entered = [
        Entered(file.file_name, one, status[one.knowledge_id])
        for file, one in zip(files, registered, strict=True)
    ]
    return entered, session


def refuse_unreadable(head: bytes) -> None:
    """Refuse what no parser reads, by how it begins. Raises UnreadableDocument."""
    if not head:
        raise UnreadableDocument("the file is empty")
    formats.glance(head)


def file_name(text: str) -> str:
    """Return what a sender calls a file as a plain name: no folders, nothing that cannot be printed, not too long."""
    name = unicodedata.normalize("NFC", re.split(r"[/\\]", text)[-1])
    name = " ".join(_UNPRINTABLE.sub(" ", name).split()).lstrip(".")
    stem, dot, suffix = name.rpartition(".")
    if len(name) > LONGEST_NAME and stem and len(suffix) < LONGEST_NAME // 2:
        name = stem[: LONGEST_NAME - len(suffix) - 1] + dot + suffix
    return name[:LONGEST_NAME] or NAMELESS


async def _kept(services: Services, upload: Upload) -> SourceFile:
    key = await asyncio.to_thread(file_key, "originals", upload.path, upload.name)
    await services.files.put(key, upload.path)
    digest = Path(key).stem
    return SourceFile(
        source=UPLOADED + digest,
        file_name=upload.name,
        file_type=formats.suffix(upload.name)[:32],
        file_hash=digest,
        file_size=(await asyncio.to_thread(upload.path.stat)).st_size,
        file_key=key,
        kind=upload.kind,
    )


async def _as_known(session: AsyncSession, kb_id: str, files: Sequence[SourceFile]) -> list[SourceFile]:
    """The files, each by the source that its content has in the base already, wherever that came from."""
    known: dict[str, Knowledge] = {}
    there = select(Knowledge).where(
        Knowledge.knowledge_base_id == kb_id,
        Knowledge.parse_status != ParseStatus.DELETING,
    )
    for some in batches([file.file_hash for file in files]):
        of_content = there.where(Knowledge.file_hash.in_(some)).order_by(Knowledge.source)
        for row in await session.scalars(of_content.with_for_update()):
            known.setdefault(row.file_hash, row)
    return [_known_as(file, known.get(file.file_hash)) for file in files]


def _known_as(file: SourceFile, row: Knowledge | None) -> SourceFile:
    if row is None:
        return file
    return SourceFile(
        source=row.source,
        file_name=row.file_name,
        file_type=row.file_type,
        file_hash=row.file_hash,
        file_size=row.file_size,
        file_key=row.file_key,
        kind=row.kind,
    )


async def _standing(session: AsyncSession, idents: Sequence[str]) -> dict[str, ParseStatus]:
    found: dict[str, ParseStatus] = {}
    for some in batches(list(dict.fromkeys(idents))):
        rows = await session.execute(
            select(Knowledge.id, Knowledge.parse_status).where(Knowledge.id.in_(some))
        )
        found.update((row.id, row.parse_status) for row in rows)
    return found
