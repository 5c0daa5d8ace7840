"""A page or file at an address, as the original of its document: fetched by the worker, and kept like one that was sent."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.documents import originals
from consumers.knowledge.documents.uploading import file_name
from consumers.knowledge.files.store import file_key
from consumers.knowledge.reading import formats
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.outbound import Outbound
from consumers.scratch import scratch
from consumers.services import Services
from contracts.knowledge import DocumentKind
from contracts.payloads.documents import DocumentProcess
from pipeline.store import changed, now_ms

UTF_8: Final = {"", "utf-8", "utf8", "us-ascii"}


@dataclass(frozen=True, slots=True)
class Original:
    """A file in the file store, by what it is called."""

    key: str
    name: str


async def fetch_original(job: DocumentProcess, address: str, services: Services) -> Original:
    """Fetch what lies at an address and make it the original of a document, in the place of what an earlier parse fetched.

    Raises OutboundError, FileStoreError, StoreUnavailable.
    """
    with scratch() as folder:
        path = folder / "fetched"
        async with Outbound(services.settings) as outbound:
            found = await outbound.fetch(address, path)
        if found.media_type.startswith("text/") and found.charset.lower() not in UTF_8:
            await asyncio.to_thread(_as_utf_8, path, found.charset)
        name = file_name(found.name)
        key = await asyncio.to_thread(file_key, "originals", path, name)
        await services.files.put(key, path)
        async with services.database.transaction() as session:
            replaced = await _note(session, job, key, name, found.size)
            if replaced and replaced != key:
                await originals.hold(session, alone=True)
                if not await originals.is_used(session, replaced):
                    await services.files.delete(replaced)
            else:
                await originals.hold(session)
        if not await services.files.exists(key):  # the delete of another document may have taken it along
            await services.files.put(key, path)
    return Original(key, name)


async def _note(session: AsyncSession, job: DocumentProcess, key: str, name: str, size: int) -> str:
    """Write down what was fetched; return the key of what it replaces. Another attempt's document is left alone."""
    standing = Knowledge.id == job.knowledge_id, Knowledge.attempt == job.attempt
    before = await session.scalar(select(Knowledge.file_key).where(*standing).with_for_update())
    values = {"file_key": key, "file_name": name, "file_size": size, "file_type": formats.suffix(name)[:32]}
    here = update(Knowledge).where(*standing, Knowledge.kind == DocumentKind.URL)
    moved = await changed(session, here.values(updated_at=now_ms(), **values))
    return before or "" if moved else ""


def _as_utf_8(path: Path, charset: str) -> None:
    """A file does not tell what the answer said of it: written anew where it is in what it was said to be."""
    with suppress(LookupError, UnicodeError):
        path.write_bytes(path.read_bytes().decode(charset).encode())
