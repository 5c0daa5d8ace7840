"""Bringing in what is sent rather than found on a disk: known by its content, so that the same one comes in once."""

import asyncio
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.knowledge_bases import keep_base
from consumers.knowledge.documents.documents import (
    LONGEST_SOURCE,
    Entry,
    ProcessOptions,
    Registered,
    SourceFile,
    register_many,
)
from consumers.knowledge.files.store import file_key
from consumers.knowledge.progress.fates import UPLOADED
from consumers.knowledge.reading import formats
from consumers.knowledge.reading.parsed import UnreadableDocument
from consumers.knowledge.reading.passages import PASSAGES, Passages, first_line
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.outbound import AddressRefused, checked_address
from consumers.scratch import scratch
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
    files = [await _kept(services, one.path, one.name) for one in uploads]
    answer = await _enter(services, kb_id, files)
    for upload, file in zip(uploads, files, strict=True):
        await _there(services, file.file_key, upload.path)
    return answer


async def take_in_address(services: Services, kb_id: str, address: str) -> tuple[list[Entered], AsyncSession]:
    """Register what lies at an address, which the worker fetches, unless it is known already.

    Raises KnowledgeBaseGone, AddressRefused, StoreUnavailable, StoreFull.
    """
    url = checked_address(address).copy_with(fragment=None)
    source = str(url)
    if len(source) > LONGEST_SOURCE:
        raise AddressRefused(
            f"an address that is read again and again may have {LONGEST_SOURCE:,} characters"
        )
    file = SourceFile(
        source=source,
        file_name=file_name(url.path) if url.path.strip("/") else url.host,
        file_type="",
        file_hash=hashlib.sha256(f"{DocumentKind.URL}:{source}".encode()).hexdigest(),
        file_size=0,
        file_key="",
        kind=DocumentKind.URL,
    )
    return await _enter(services, kb_id, [file])


async def take_in_passages(
    services: Services, kb_id: str, given: Passages
) -> tuple[list[Entered], AsyncSession]:
    """Register passages as one document, as `take_in_uploads` does a file."""
    name = given.title or first_line(given.passages[0]) or NAMELESS
    with scratch() as folder:
        path = folder / "passages"
        await asyncio.to_thread(path.write_bytes, given.model_dump_json().encode())
        kept = await _kept(services, path, "passages.json")
        file = replace(kept, file_name=name, file_type=PASSAGES, kind=DocumentKind.PASSAGES)
        answer = await _enter(services, kb_id, [file])
        await _there(services, file.file_key, path)
    return answer


async def _enter(
    services: Services, kb_id: str, files: Sequence[SourceFile]
) -> tuple[list[Entered], AsyncSession]:
    async with services.outbox.transaction() as session:
        kb = await keep_base(session, kb_id)
        if kb is None:
            raise KnowledgeBaseGone
        known = await _as_known(session, kb_id, files)
        options = ProcessOptions.of(kb, services.settings.document_process_timeout)
        registered = await register_many(session, kb, known, options)
        status = await _standing(session, [one.knowledge_id for one in registered])
    entered = [
        Entered(file.file_name, one, status[one.knowledge_id])
        for file, one in zip(known, registered, strict=True)
    ]
    return entered, session


async def _there(services: Services, key: str, path: Path) -> None:
    """The delete of another document may have taken a file along."""
    if not await services.files.exists(key):
        await services.files.put(key, path)


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


async def _kept(services: Services, path: Path, name: str) -> SourceFile:
    key = await asyncio.to_thread(file_key, "originals", path, name)
    await services.files.put(key, path)
    digest = Path(key).stem
    return SourceFile(
        source=UPLOADED + digest,
        file_name=name,
        file_type=formats.suffix(name)[:32],
        file_hash=digest,
        file_size=(await asyncio.to_thread(path.stat)).st_size,
        file_key=key,
    )


async def _as_known(session: AsyncSession, kb_id: str, files: Sequence[SourceFile]) -> list[SourceFile]:
    """The files, each by what the base has of its source or content already, wherever that came from."""
    known: dict[str, Knowledge] = {}
    there = select(Knowledge).where(Knowledge.knowledge_base_id == kb_id)
    for some in batches(files):
        of_content = Knowledge.file_hash.in_([file.file_hash for file in some])
        of_source = Knowledge.source.in_([file.source for file in some])
        found = there.where(of_content | of_source).order_by(Knowledge.source).with_for_update()
        for row in await session.scalars(found):
            known[row.source] = row
            if row.parse_status is not ParseStatus.DELETING:
                known.setdefault(row.file_hash, row)
    return [_known_as(file, known.get(file.source) or known.get(file.file_hash)) for file in files]


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
