"""How documents fare, as people are told."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.progress.spans import current_root
from consumers.knowledge.tables.knowledge import Chunk, Image, Knowledge, Slot
from consumers.knowledge.tables.spans import Span
from contracts.knowledge import OPEN, DocumentKind, ImageStatus, ParseStatus, SlotKind
from pipeline.store import batches

UPLOADED: Final = "upload:"
"""How the source begins of what was sent; the hash of its content follows."""
HARVESTED: Final = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:")
"""How it begins of what a source brought: with the id of that source, also where the document was carried to another base."""


@dataclass(frozen=True, slots=True)
class Fate:
    """Where a document stands. Warnings name what was left out of it; `code` is that of an error of its content."""

    status: ParseStatus
    error: str = ""
    code: str = ""
    chunks: int = 0
    warnings: tuple[str, ...] = ()


async def fates(session: AsyncSession, knowledge_ids: Sequence[str]) -> Mapping[str, Fate]:
    """Return the fates of these documents by id."""
    found: dict[str, Fate] = {}
    for some in batches(knowledge_ids):
        counts = select(Chunk.knowledge_id, func.count()).where(Chunk.knowledge_id.in_(some))
        chunks = {row[0]: row[1] for row in await session.execute(counts.group_by(Chunk.knowledge_id))}
        unread = await _unread(session, some)
        for row in await session.execute(_DOCUMENTS.where(Knowledge.id.in_(some))):
            warnings = (*row.warnings, *unread.get(row.id, ()))
            found[row.id] = Fate(
                row.parse_status, row.error_message, row.error_code or "", chunks.get(row.id, 0), warnings
            )
    return found


_DOCUMENTS: Final = (
    select(Knowledge.id, Knowledge.parse_status, Knowledge.error_message, Knowledge.warnings)
    .add_columns(Span.error_code)
    .outerjoin(Span, current_root())
)


async def still_open(session: AsyncSession, knowledge_ids: Sequence[str]) -> list[tuple[str, int]]:
    """Return those of these documents that have not ended, with their attempts."""
    found: list[tuple[str, int]] = []
    for some in batches(knowledge_ids):
        open_ones = select(Knowledge.id, Knowledge.attempt).where(Knowledge.parse_status.in_(OPEN))
        rows = await session.execute(open_ones.where(Knowledge.id.in_(some)))
        found += [(row.id, row.attempt) for row in rows]
    return found


@dataclass(frozen=True, slots=True)
class Headway:
    """How many of some documents are through: `parsed`, and `handed_over` to their enrichments, ended ones included.

    `waiting` says by kind how many wait for slots, and for how many slots.
    """

    parsed: int
    handed_over: int
    waiting: Mapping[SlotKind, tuple[int, int]]


async def headway(session: AsyncSession, knowledge_ids: Sequence[str]) -> Headway:
    """Return how far these documents have come."""
    parsed = handed_over = 0
    waiting: dict[SlotKind, tuple[int, int]] = {}
    past = Knowledge.parse_status.not_in({ParseStatus.PENDING, ParseStatus.PROCESSING})
    counts = select(
        func.count().filter(or_(past, Knowledge.parsed_attempt == Knowledge.attempt)),
        func.count().filter(past),
    )
    slots = select(Slot.kind, func.count(Slot.knowledge_id.distinct()), func.count()).group_by(Slot.kind)
    for some in batches(knowledge_ids):
        read, handed = (await session.execute(counts.where(Knowledge.id.in_(some)))).one()
        parsed, handed_over = parsed + read, handed_over + handed
        for kind, documents, parts in await session.execute(slots.where(Slot.knowledge_id.in_(some))):
            before = waiting.get(kind, (0, 0))
            waiting[kind] = (before[0] + documents, before[1] + parts)
    return Headway(parsed, handed_over, waiting)


async def _unread(session: AsyncSession, knowledge_ids: Sequence[str]) -> Mapping[str, list[str]]:
    in_part = Image.status == ImageStatus.READ
    counted = (
        select(Image.knowledge_id, Image.reason, in_part.label("in_part"), func.count())
        .where(Image.knowledge_id.in_(knowledge_ids))
        .where(Image.status.in_((ImageStatus.SKIPPED, ImageStatus.FAILED)) | (in_part & (Image.reason != "")))
        .group_by(Image.knowledge_id, Image.reason, in_part)
        .order_by(Image.reason)
    )
    said: dict[str, list[str]] = {}
    for ident, reason, partly, count in await session.execute(counted):
        pictures = "1 picture was" if count == 1 else f"{count} pictures were"
        how = "read only in part" if partly else "not read"
        said.setdefault(ident, []).append(f"{pictures} {how}: {reason}")
    return said


@dataclass(frozen=True, slots=True)
class Named:
    """What a document is called, and where it came from."""

    path: str
    title: str


async def named_of(session: AsyncSession, knowledge_ids: Sequence[str]) -> Mapping[str, Named]:
    """Return by id what these documents are cited as: the name of a file that was sent, the title of what was written by hand,
    what a source calls its own.
    """
    found: dict[str, Named] = {}
    columns = select(Knowledge.id, Knowledge.source, Knowledge.title, Knowledge.file_name, Knowledge.kind)
    for some in batches(knowledge_ids):
        for row in await session.execute(columns.where(Knowledge.id.in_(some))):
            nameless = row.kind is DocumentKind.MANUAL or row.source.startswith(UPLOADED)
            path = row.file_name if nameless else HARVESTED.sub("", row.source, count=1)
            found[row.id] = Named(path, row.title or row.file_name)
    return found
