"""The graph: entities that the chunks of a base name, relations between them, and the words that are their evidence."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.extraction import Named, Related
from consumers.knowledge.tables import Chunk, table_of
from consumers.knowledge.tables_graph import Entity, EntityMention, Relation, RelationEvidence
from pipeline.store import insert_new, upsert


async def store_graph(
    session: AsyncSession, kb_id: str, chunk: Chunk, entities: Sequence[Named], relations: Sequence[Related]
) -> None:
    """Add what a chunk says, in the transaction that closed its slot. A relation of an unnamed entity is left out."""
    here = {"chunk_id": chunk.id, "knowledge_id": chunk.knowledge_id}
    named: dict[str, Named] = {}
    for one in entities:  # spellings of one name are one entity, called as it was first
        key = ids.entity(kb_id, one.name)
        seen = named.get(key)
        named[key] = replace(seen, count=seen.count + one.count) if seen else one
    await insert_new(
        session,
        table_of(Entity),
        [
            {"id": key, "knowledge_base_id": kb_id, "name": one.name[:255], "kind": one.kind[:64]}
            for key, one in named.items()
        ],
    )
    await upsert(
        session,
        table_of(EntityMention),
        [{"entity_id": key, "count": one.count, **here} for key, one in named.items()],
        replace=["count"],
    )
    related = {}
    for link in relations:
        source, target = ids.entity(kb_id, link.source), ids.entity(kb_id, link.target)
        if source in named and target in named:
            related[ids.relation(kb_id, source, target, link.kind)] = (source, target, link)
    await insert_new(
        session,
        table_of(Relation),
        [
            {
                "id": key,
                "knowledge_base_id": kb_id,
                "source_id": source,
                "target_id": target,
                "kind": link.kind[:255],
            }
            for key, (source, target, link) in related.items()
        ],
    )
    await upsert(
        session,
        table_of(RelationEvidence),
        [{"relation_id": key, "evidence": link.evidence, **here} for key, (_, _, link) in related.items()],
        replace=["evidence"],
    )


async def forget_mentions(
    session: AsyncSession, knowledge_id: str, *, before_attempt: int | None = None
) -> None:
    """Remove the entities and relations that nothing but the chunks about to be removed speaks of.

    The mentions and evidence themselves go with their chunks.
    """
    going = select(Chunk.id).where(Chunk.knowledge_id == knowledge_id)
    if before_attempt is not None:
        going = going.where(Chunk.attempt < before_attempt)
    for thing, speaks, key in (
        (Relation, RelationEvidence, RelationEvidence.relation_id),
        (Entity, EntityMention, EntityMention.entity_id),
    ):
        here = select(key).where(speaks.chunk_id.in_(going))
        elsewhere = exists().where(key == thing.id, speaks.chunk_id.not_in(going))
        await session.execute(
            delete(thing).where(thing.id.in_(here), ~elsewhere),
            execution_options={"synchronize_session": False},
        )
