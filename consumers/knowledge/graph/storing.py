"""The graph: entities that the chunks of a base name, relations between them, and the words that are their evidence."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from sqlalchemy import Select, Table, delete, exists, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from consumers.knowledge import ids
from consumers.knowledge.language.extraction import Named, Related
from consumers.knowledge.tables.graph import Entity, EntityAlias, EntityMention, Relation, RelationEvidence
from consumers.knowledge.tables.knowledge import Chunk, table_of
from pipeline.store import batches, changed, insert_new, upsert
from pipeline.store.rows import Row


async def store_graph(
    session: AsyncSession, kb_id: str, chunk: Chunk, entities: Sequence[Named], relations: Sequence[Related]
) -> None:
    """Add what a chunk says, in the transaction that closed its slot. A relation of an unnamed entity is left out."""
    here = {"chunk_id": chunk.id, "knowledge_id": chunk.knowledge_id}
    said = [
        *(one.name for one in entities),
        *(name for link in relations for name in (link.source, link.target)),
    ]
    key_of = await _keys(session, kb_id, said)
    named: dict[str, Named] = {}
    for one in entities:  # spellings of one name are one entity, called as it was first
        key = key_of[one.name]
        seen = named.get(key)
        named[key] = replace(seen, count=seen.count + one.count) if seen else one
    entity_rows = [
        {"id": key, "knowledge_base_id": kb_id, "name": one.name[:255], "kind": one.kind[:64]}
        for key, one in named.items()
    ]
    await keep(session, table_of(Entity), entity_rows)
    await upsert(
        session,
        table_of(EntityMention),
        [{"entity_id": key, "count": one.count, **here} for key, one in named.items()],
        replace=["count"],
    )
    related = {}
    for link in relations:
        source, target = key_of[link.source], key_of[link.target]
        if source in named and target in named and (source != target or link.source == link.target):
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
    await keep(session, table_of(Relation), relation_rows)
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
    await forget_chunks(session, going)


async def forget_chunks(session: AsyncSession, going: Select[str]) -> None:
    """Remove what these chunks say, whose ids are selected, and the entities and relations of which nothing else speaks."""
    # Locked before anybody is asked who else speaks of them: whoever is about to has them locked as well (`keep`).
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


@dataclass(frozen=True, slots=True)
class Told:
    """What the chunks of a document say: (chunk, name, kind, count), and (chunk, source, target, kind, evidence)."""

    mentions: Sequence[tuple[str, str, str, int]]
    evidence: Sequence[tuple[str, str, str, str, str]]


async def told_by(session: AsyncSession, knowledge_id: str) -> Told:
    """Return what a document says, by the names of what it speaks of."""
    source, target = aliased(Entity), aliased(Entity)
    mentions = (
        select(EntityMention.chunk_id, Entity.name, Entity.kind, EntityMention.count)
        .join(Entity, Entity.id == EntityMention.entity_id)
        .where(EntityMention.knowledge_id == knowledge_id)
    )
    evidence = (
        select(RelationEvidence.chunk_id, source.name, target.name, Relation.kind, RelationEvidence.evidence)
        .join(Relation, Relation.id == RelationEvidence.relation_id)
        .join(source, source.id == Relation.source_id)
        .join(target, target.id == Relation.target_id)
        .where(RelationEvidence.knowledge_id == knowledge_id)
    )
    return Told(
        [(row[0], row[1], row[2], row[3]) for row in await session.execute(mentions)],
        [(row[0], row[1], row[2], row[3], row[4]) for row in await session.execute(evidence)],
    )


async def tell(
    session: AsyncSession, kb_id: str, knowledge_id: str, told: Told, chunks: Mapping[str, str]
) -> None:
    """Let a document of a base say what one was told by, whose chunks have these ids now."""
    key_of = await _keys(
        session,
        kb_id,
        [*(one[1] for one in told.mentions), *(name for one in told.evidence for name in one[1:3])],
    )
    entities = {
        key_of[name]: {"knowledge_base_id": kb_id, "name": name, "kind": kind}
        for _, name, kind, _ in told.mentions
    }
    counts: Counter[tuple[str, str]] = Counter()  # two names may be one thing in this base
    for chunk, name, _, count in told.mentions:
        if chunk in chunks:
            counts[key_of[name], chunks[chunk]] += count
    mentions = [
        {"entity_id": key, "chunk_id": chunk, "knowledge_id": knowledge_id, "count": count}
        for (key, chunk), count in counts.items()
    ]
    relations, evidence = {}, []
    for chunk, source, target, kind, words in told.evidence:
        ends = key_of[source], key_of[target]
        if chunk in chunks and entities.keys() >= set(ends) and (ends[0] != ends[1] or source == target):
            key = ids.relation(kb_id, *ends, kind)
            relations[key] = {
                "knowledge_base_id": kb_id,
                "source_id": ends[0],
                "target_id": ends[1],
                "kind": kind,
            }
            evidence.append(
                {
                    "relation_id": key,
                    "chunk_id": chunks[chunk],
                    "knowledge_id": knowledge_id,
                    "evidence": words,
                }
            )
    for table, found in ((Entity, entities), (Relation, relations)):
        rows = [{"id": key, **found[key]} for key in sorted(found)]
        for some in batches(rows):
            await keep(session, table_of(table), some)
    await upsert(session, table_of(EntityMention), mentions, replace=["count"])
    await upsert(session, table_of(RelationEvidence), evidence, replace=["evidence"])


async def _keys(session: AsyncSession, kb_id: str, names: Sequence[str]) -> dict[str, str]:
    """Return the ids of what these names mean: that of another entity, where two were found to be one."""
    own = {name: ids.entity(kb_id, name) for name in names}
    merged: dict[str, str] = {}
    for some in batches(sorted(set(own.values()))):
        found = select(EntityAlias.id, EntityAlias.entity_id).where(EntityAlias.id.in_(some))
        merged.update((row.id, row.entity_id) for row in await session.execute(found))
    return {name: merged.get(key, key) for name, key in own.items()}


async def keep(session: AsyncSession, table: Table, rows: Sequence[Row]) -> None:
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
