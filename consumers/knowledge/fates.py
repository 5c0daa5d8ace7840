"""How documents fare, as people are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables import Chunk, Image, Knowledge
from contracts.knowledge import OPEN, ImageStatus, ParseStatus
from pipeline.store import batches


@dataclass(frozen=True, slots=True)
class Fate:
    """Where a document stands. Warnings name what was left out of it."""

    status: ParseStatus
    error: str = ""
    chunks: int = 0
    warnings: tuple[str, ...] = ()


async def fates(session: AsyncSession, knowledge_ids: Sequence[str]) -> Mapping[str, Fate]:
    """Return the fates of these documents by id."""
    found: dict[str, Fate] = {}
    for some in batches(knowledge_ids):
        counts = select(Chunk.knowledge_id, func.count()).where(Chunk.knowledge_id.in_(some))
        chunks = {row[0]: row[1] for row in await session.execute(counts.group_by(Chunk.knowledge_id))}
        unread = await _unread(session, some)
        documents = select(Knowledge.id, Knowledge.parse_status, Knowledge.error_message, Knowledge.warnings)
        for row in await session.execute(documents.where(Knowledge.id.in_(some))):
            warnings = (*row.warnings, *unread.get(row.id, ()))
            found[row.id] = Fate(row.parse_status, row.error_message, chunks.get(row.id, 0), warnings)
    return found


async def still_open(session: AsyncSession, knowledge_ids: Sequence[str]) -> list[tuple[str, int]]:
    """Return those of these documents that have not ended, with their attempts."""
    found: list[tuple[str, int]] = []
    for some in batches(knowledge_ids):
        open_ones = select(Knowledge.id, Knowledge.attempt).where(Knowledge.parse_status.in_(OPEN))
        rows = await session.execute(open_ones.where(Knowledge.id.in_(some)))
        found += [(row.id, row.attempt) for row in rows]
    return found


async def _unread(session: AsyncSession, knowledge_ids: Sequence[str]) -> Mapping[str, list[str]]:
    counted = (
        select(Image.knowledge_id, Image.reason, func.count())
        .where(
            Image.knowledge_id.in_(knowledge_ids), Image.status.in_((ImageStatus.SKIPPED, ImageStatus.FAILED))
        )
        .group_by(Image.knowledge_id, Image.reason)
        .order_by(Image.reason)
    )
    said: dict[str, list[str]] = {}
    for ident, reason, count in await session.execute(counted):
        pictures = "1 picture was" if count == 1 else f"{count} pictures were"
        said.setdefault(ident, []).append(f"{pictures} not read: {reason}")
    return said


async def sources_of(session: AsyncSession, knowledge_ids: Sequence[str]) -> Mapping[str, str]:
    """Return where each of these documents came from, by id."""
    rows = await session.execute(
        select(Knowledge.id, Knowledge.source).where(Knowledge.id.in_(knowledge_ids))
    )
    return {row[0]: row[1] for row in rows}
