"""Tags: a base's own list, and which of them its documents got."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.tables.graph import KnowledgeTag, Tag
from consumers.knowledge.tables.knowledge import Knowledge, table_of
from contracts.knowledge import KEEPS_RESULTS
from pipeline.store import batches, insert_new, upsert


@dataclass(frozen=True, slots=True)
class Pick:
    """A tag chosen for a document. `confidence` is within 0..1."""

    tag_id: str
    confidence: float


async def ensure_tags(session: AsyncSession, kb_id: str, tags: Mapping[str, str]) -> None:
    """Put tags, as name → description, on the list of a base; a known name gets the new description."""
    rows = {
        ids.tag(kb_id, name): {"knowledge_base_id": kb_id, "name": name, "description": description}
        for name, description in tags.items()
    }
    await upsert(
        session,
        table_of(Tag),
        [{"id": key, **row} for key, row in sorted(rows.items(), key=itemgetter(0))],
        replace=["description"],
    )


async def set_tags(session: AsyncSession, kb_id: str, tags: Mapping[str, str]) -> None:
    """Make these tags, as name → description, the list of a base: documents lose those that are no longer on it."""
    named = {ids.tag(kb_id, name) for name in tags}
    there = await session.scalars(select(Tag.id).where(Tag.knowledge_base_id == kb_id))
    for some in batches(sorted(set(there) - named)):
        await session.execute(delete(Tag).where(Tag.id.in_(some)))
    await ensure_tags(session, kb_id, tags)


async def tags_of(session: AsyncSession, kb_id: str, limit: int = 500) -> Sequence[Tag]:
    """Return the list of a base by name."""
    listed = select(Tag).where(Tag.knowledge_base_id == kb_id)
    return (await session.scalars(listed.order_by(Tag.name).limit(limit))).all()


async def store_tags(
    session: AsyncSession, kb_id: str, knowledge_id: str, attempt: int, picks: Sequence[Pick], *, method: str
) -> bool:
    """Give a document these tags of its base in the place of those it had. False if the attempt is no longer the one, or it is
    in another base by now.
    """
    current = (
        Knowledge.id == knowledge_id,
        Knowledge.knowledge_base_id == kb_id,
        Knowledge.attempt == attempt,
        Knowledge.parse_status.in_(KEEPS_RESULTS),
    )
    if await session.scalar(select(Knowledge.id).where(*current).with_for_update()) is None:
        return False
    await session.execute(delete(KnowledgeTag).where(KnowledgeTag.knowledge_id == knowledge_id))
    rows = [
        {"knowledge_id": knowledge_id, "tag_id": pick.tag_id, "confidence": pick.confidence, "method": method}
        for pick in picks
    ]
    await insert_new(session, table_of(KnowledgeTag), rows)
    return True


async def tags_on(session: AsyncSession, knowledge_id: str) -> Sequence[tuple[str, float]]:
    """Return the names of a document's tags and how sure they are, surest first."""
    given = (
        select(Tag.name, KnowledgeTag.confidence)
        .join(KnowledgeTag, KnowledgeTag.tag_id == Tag.id)
        .where(KnowledgeTag.knowledge_id == knowledge_id)
        .order_by(KnowledgeTag.confidence.desc(), Tag.name)
    )
    return [(name, confidence) for name, confidence in await session.execute(given)]
