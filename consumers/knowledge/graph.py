"""The graph: entities that the chunks of a base name, relations between them, and the words that are their evidence."""

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from sqlalchemy import Select, Table, delete, exists, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from consumers.knowledge import ids
from consumers.knowledge.extraction import Named, Related
from consumers.knowledge.tables import Chunk, table_of
from consumers.knowledge.tables_graph import Entity, EntityMention, Relation, RelationEvidence
from pipeline.store import batches, changed, insert_new, upsert
from pipeline.store.rows import Row


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
    entity_rows = [
        {"id": key, "knowledge_base_id": kb_id, "name": one.name[:255], "kind": one.kind[:64]}
        for key, one in named.items()
    ]
    await _keep(session, table_of(Entity), entity_rows)
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
    relation_rows = [
        {
            "id": key,
            "knowledge_base_id": kb_id,
            "source_id": source,
            "target_id": target,
            "kind": link.kind[:255],
        }
        for key, (source, target, link) in related.items()
    ]
    await _keep(session, table_of(Relation), relation_rows)
    await upsert(
        session,
        table_of(RelationEvidence),
        [{"relation_id": key, "evidence": link.evidence, **here} for key, (_, _, link) in related.items()],
        replace=["evidence"],
    )


async def forget_mentions(
    session: AsyncSession, knowledge_id: str, *, before_attempt: int | None = None
) -> None:
    """Remove what the chunks about to be removed say, and the entities and relations of which nothing else speaks."""
    going = select(Chunk.id).where(Chunk.knowledge_id == knowledge_id)
    if before_attempt is not None:
        going = going.where(Chunk.attempt < before_attempt)
    # Locked before anybody is asked who else speaks of them: whoever is about to has them locked as well (`_keep`).
    entities = await _spoken_of(session, Entity, EntityMention, EntityMention.entity_id, going)
    relations = await _spoken_of(session, Relation, RelationEvidence, RelationEvidence.relation_id, going)
    for speaks in (EntityMention, RelationEvidence):
        await changed(session, delete(speaks).where(speaks.chunk_id.in_(going)))
    for thing, key, found in (
        (Relation, RelationEvidence.relation_id, relations),
        (Entity, EntityMention.entity_id, entities),
    ):
        for some in batches(found):
            unsaid = ~exists().where(key == thing.id)
            await changed(session, delete(thing).where(thing.id.in_(some), unsaid))


async def _keep(session: AsyncSession, table: Table, rows: Sequence[Row]) -> None:
    """Insert what is not there yet; nobody removes any of it before this transaction ends."""
    rows = sorted(rows, key=itemgetter("id"))
    while rows:
        await insert_new(session, table, rows)
        held = select(table.c.id).where(table.c.id.in_([row["id"] for row in rows])).order_by(table.c.id)
        found = set(await session.scalars(held.with_for_update(read=True, key_share=True)))
        rows = [row for row in rows if row["id"] not in found]  # removed between the two


async def _spoken_of(
    session: AsyncSession,
    thing: type[Entity] | type[Relation],
    speaks: type[EntityMention] | type[RelationEvidence],
    key: InstrumentedAttribute[str],
    going: Select[str],
) -> Sequence[str]:
    """Lock what these chunks speak of and return the ids."""
    here = select(key).where(speaks.chunk_id.in_(going))
    found = select(thing.id).where(thing.id.in_(here)).order_by(thing.id)
    return (await session.scalars(found.with_for_update())).all()
