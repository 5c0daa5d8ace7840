"""The graph of a base put into order: names of one thing become one entity, relations that say the same become one, and
what nothing speaks of any more goes. Each step is a transaction that changes nothing when it is repeated.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, Literal

from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.graph.aliases import SAID, Group, Pair, Thing, say_so, singular
from consumers.knowledge.graph.storing import keep
from consumers.knowledge.long_work.store_work import begin, gone, locked
from consumers.knowledge.tables.graph import Entity, EntityAlias, EntityMention, Relation, RelationEvidence
from consumers.knowledge.tables.knowledge import Chunk, table_of
from contracts.identity import new_id
from contracts.payloads.knowledge import StoreCurate
from pipeline.store import batches, changed, insert_new, upsert

READ: Final = 20
"""Texts that are read for what they say of two names."""
AT_ONCE: Final = 200
"""Things without a word removed in one transaction."""


async def ask_for(
    session: AsyncSession, kb_id: str, action: Literal["merge", "prune", "all"], *, dry_run: bool
) -> str:
    """Begin to put the graph of a base into order; return the id of the task. Raises UnderWay; ConfigurationError: it is gone."""
    kb = await locked(session, kb_id)
    if kb is None:
        raise gone(kb_id)
    task_id = new_id()
    asked = {"task_id": task_id, "action": action, "dry_run": dry_run}
    await begin(session, kb, task_id, StoreCurate(tenant_id=kb.tenant_id, knowledge_base_id=kb.id, **asked))
    return task_id


async def things(session: AsyncSession, kb_id: str) -> list[Thing]:
    """Return the entities of a base, by id."""
    said = func.coalesce(func.sum(EntityMention.count), 0)
    found = (
        select(Entity.id, Entity.name, Entity.kind, said)
        .outerjoin(EntityMention, EntityMention.entity_id == Entity.id)
        .where(Entity.knowledge_base_id == kb_id)
        .group_by(Entity.id, Entity.name, Entity.kind)
        .order_by(Entity.id)
    )
    return [Thing(*row) for row in await session.execute(found)]


async def sure(session: AsyncSession, found: Sequence[Pair]) -> list[Pair]:
    """Return the names that mean the same: by their spelling, or because a text that names both says so."""
    return [pair for pair in found if pair.why not in SAID or await _said(session, pair)]


async def merge(session: AsyncSession, kb_id: str, group: Group) -> list[str]:
    """Make one entity of a group; return the names that went, none where it is gone."""
    wanted = [group.into.id, *(thing.id for thing, _ in group.others)]
    held = select(Entity.id).where(Entity.id.in_(wanted), Entity.knowledge_base_id == kb_id)
    there = set(await session.scalars(held.order_by(Entity.id).with_for_update()))
    others = {thing.id: (thing, why) for thing, why in group.others if thing.id in there}
    into = group.into.id
    if into not in there or not others:
        return []
    await _move_mentions(session, into, list(others))
    await _move_relations(session, kb_id, into, list(others))
    await session.execute(
        update(EntityAlias).where(EntityAlias.entity_id.in_(list(others))).values(entity_id=into),
        execution_options={"synchronize_session": False},
    )
    rows = [
        {"id": ident, "knowledge_base_id": kb_id, "entity_id": into, "name": thing.name, "why": why}
        for ident, (thing, why) in sorted(others.items())
    ]
    await upsert(session, table_of(EntityAlias), rows, replace=["entity_id", "why"])
    await changed(session, delete(Entity).where(Entity.id.in_(list(others))))
    return [thing.name for thing, _ in others.values()]


async def repeated(session: AsyncSession, kb_id: str) -> list[list[str]]:
    """Return the ids of relations that say the same: of the same two, by forms of one word. The best founded are first."""
    evidence = func.count(RelationEvidence.chunk_id)
    found = (
        select(Relation.id, Relation.source_id, Relation.target_id, Relation.kind, evidence)
        .outerjoin(RelationEvidence, RelationEvidence.relation_id == Relation.id)
        .where(Relation.knowledge_base_id == kb_id)
        .group_by(Relation.id, Relation.source_id, Relation.target_id, Relation.kind)
        .order_by(evidence.desc(), Relation.id)
    )
    same: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for ident, source, target, kind, _ in await session.execute(found):
        first, *rest = ids.normal(kind).split() or [""]
        same[source, target, " ".join((singular(first), *rest))].append(ident)
    return [some for some in same.values() if len(some) > 1]


async def merge_relations(session: AsyncSession, same: Sequence[str]) -> int:
    """Make one relation of several; return how many went."""
    held = select(Relation.id).where(Relation.id.in_(same)).order_by(Relation.id)
    there = set(await session.scalars(held.with_for_update()))
    into, *others = [ident for ident in same if ident in there] or [""]
    for other in others:
        await _move_evidence(session, other, into)
    return await changed(session, delete(Relation).where(Relation.id.in_(others))) if others else 0


async def orphans(session: AsyncSession, kb_id: str) -> tuple[int, int]:
    """Return how many relations nothing says any more, and how many entities nothing names."""
    counts = []
    for thing, unsaid in _UNSAID:
        here = select(func.count()).select_from(thing).where(thing.knowledge_base_id == kb_id, unsaid)
        counts.append(int(await session.scalar(here) or 0))
    return counts[0], counts[1]


async def prune(session: AsyncSession, kb_id: str) -> tuple[int, int]:
    """Remove some relations that nothing says, and entities that nothing names; return how many of each, 0 for no more."""
    counts = []
    for thing, unsaid in _UNSAID:
        here = select(thing.id).where(thing.knowledge_base_id == kb_id, unsaid).order_by(thing.id)
        some = (await session.scalars(here.limit(AT_ONCE).with_for_update())).all()
        # asked again: somebody may have spoken of one before it was locked
        counts.append(await changed(session, delete(thing).where(thing.id.in_(some), unsaid)) if some else 0)
    return counts[0], counts[1]


_UNSAID: Final[tuple[tuple[Any, Any], ...]] = (
    (Relation, ~exists().where(RelationEvidence.relation_id == Relation.id)),
    (Entity, ~exists().where(EntityMention.entity_id == Entity.id)),
)


async def _said(session: AsyncSession, pair: Pair) -> bool:
    here = select(EntityMention.chunk_id).where(EntityMention.entity_id == pair.other.id)
    texts = (
        select(Chunk.text)
        .join(EntityMention, EntityMention.chunk_id == Chunk.id)
        .where(EntityMention.entity_id == pair.one.id, Chunk.id.in_(here))
        .order_by(Chunk.id)
        .limit(READ)
    )
    return any(say_so(text, pair.one.name, pair.other.name) for text in await session.scalars(texts))


async def _move_mentions(session: AsyncSession, into: str, others: Sequence[str]) -> None:
    here = EntityMention.entity_id.in_([into, *others])
    moved = select(
        EntityMention.chunk_id, EntityMention.knowledge_id, func.sum(EntityMention.count).label("count")
    )
    rows = await session.execute(
        moved.where(here)
        .group_by(EntityMention.chunk_id, EntityMention.knowledge_id)
        .order_by(EntityMention.chunk_id)
    )
    values = [{**row, "count": int(row["count"]), "entity_id": into} for row in rows.mappings()]
    for some in batches(values):
        await upsert(session, table_of(EntityMention), some, replace=["count"])
    await changed(session, delete(EntityMention).where(EntityMention.entity_id.in_(others)))


async def _move_relations(session: AsyncSession, kb_id: str, into: str, others: Sequence[str]) -> None:
    touched = select(Relation).where(Relation.source_id.in_(others) | Relation.target_id.in_(others))
    old = (await session.scalars(touched.order_by(Relation.id).with_for_update())).all()
    for link in old:
        source = into if link.source_id in others else link.source_id
        target = into if link.target_id in others else link.target_id
        if source != target:  # a thing beside itself says nothing
            row = {"source_id": source, "target_id": target, "kind": link.kind}
            ident = ids.relation(kb_id, source, target, link.kind)
            await keep(session, table_of(Relation), [{"id": ident, "knowledge_base_id": kb_id, **row}])
            await _move_evidence(session, link.id, ident)
    for some in batches([link.id for link in old]):
        await changed(session, delete(RelationEvidence).where(RelationEvidence.relation_id.in_(some)))
        await changed(session, delete(Relation).where(Relation.id.in_(some)))


async def _move_evidence(session: AsyncSession, old: str, new: str) -> None:
    found = select(RelationEvidence.chunk_id, RelationEvidence.knowledge_id, RelationEvidence.evidence)
    rows = await session.execute(
        found.where(RelationEvidence.relation_id == old).order_by(RelationEvidence.chunk_id)
    )
    values = [{**row, "relation_id": new} for row in rows.mappings()]
    for some in batches(values):
        await insert_new(session, table_of(RelationEvidence), some)
