"""The graph as people read it: things found by name, what is around one, and what is said of it, with its evidence.

All of it is bounded: by how far, how much, and how many rows a level of the way is looked for among.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.progress.fates import named_of
from consumers.knowledge.tables.graph import Entity, EntityAlias, EntityMention, Relation, RelationEvidence
from consumers.knowledge.tables.knowledge import Chunk
from pipeline.store import batches

DEEPEST: Final = 3
MOST_NODES: Final = 200
PER_NODE: Final = 10
"""Relations that a level is looked for among, for each node that there is room for; the best founded first."""
MOST_EDGES: Final = 1_000
SHOWN: Final = 50
"""Statements and documents that the detail of a thing has."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A thing. `mentions` counts how often it is named, `distance` how many relations it is away."""

    id: str
    name: str
    kind: str
    mentions: int
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A relation; `weight` counts the passages that say so, `evidence` are the words of one."""

    id: str
    source: str
    target: str
    kind: str
    weight: int
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Around:
    """Things and the relations between them, the nearest first. `cut`: there are more than were asked for."""

    nodes: Sequence[Seen]
    edges: Sequence[Link]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """What a passage says of a thing and another one."""

    relation_id: str
    kind: str
    other: Seen
    outwards: bool
    evidence: str
    chunk_id: str
    knowledge_id: str


@dataclass(frozen=True, slots=True)
class Place:
    """A passage that names a thing, and how often."""

    chunk_id: str
    position: int
    count: int
    knowledge_id: str
    title: str
    source: str


@dataclass(frozen=True, slots=True)
class Detail:
    """What is known of a thing; only the best founded of very much."""

    node: Seen
    aliases: Sequence[str]
    facts: Sequence[Fact]
    places: Sequence[Place]


async def entity_id(session: AsyncSession, kb_id: str, name: str) -> str | None:
    """Return the id of a thing by its id or any of its names; those that differ in case, spacing or width are one."""
    either = [name, ids.entity(kb_id, name)]
    there = select(Entity.id).where(Entity.knowledge_base_id == kb_id, Entity.id.in_(either))
    merged = select(EntityAlias.entity_id).where(
        EntityAlias.knowledge_base_id == kb_id, EntityAlias.id.in_(either)
    )
    found = set(await session.scalars(there)) or set(await session.scalars(merged))
    return name if name in found else next(iter(found), None)


async def entities(
    session: AsyncSession, kb_id: str, contains: str = "", after: str = "", limit: int = SHOWN
) -> Sequence[Seen]:
    """Return things of a base by name, those behind one, whose name contains something."""
    query = select(Entity).where(Entity.knowledge_base_id == kb_id)
    if contains:
        query = query.where(_is_called(kb_id, contains))
    if after:
        last = await session.get(Entity, after)
        if last is None or last.knowledge_base_id != kb_id:
            return []
        later = (Entity.name > last.name) | ((Entity.name == last.name) & (Entity.id > last.id))
        query = query.where(later)
    found = (await session.scalars(query.order_by(Entity.name, Entity.id).limit(limit))).all()
    counts = await _mentions(session, [one.id for one in found])
    return [Seen(one.id, one.name, one.kind, counts.get(one.id, 0)) for one in found]


async def most_named(
    session: AsyncSession,
    kb_id: str,
    limit: int,
    *,
    contains: str = "",
    knowledge_id: str | None = None,
) -> Sequence[Seen]:
    """Return the things that a base, or one document of it, names most often."""
    total = func.sum(EntityMention.count)
    query = (
        select(Entity.id, Entity.name, Entity.kind, total)
        .join(EntityMention, EntityMention.entity_id == Entity.id)
        .where(Entity.knowledge_base_id == kb_id)
    )
    if contains:
        query = query.where(_is_called(kb_id, contains))
    if knowledge_id is not None:
        query = query.where(EntityMention.knowledge_id == knowledge_id)
    query = query.group_by(Entity.id, Entity.name, Entity.kind).order_by(total.desc(), Entity.name, Entity.id)
    return [Seen(row[0], row[1], row[2], int(row[3])) for row in await session.execute(query.limit(limit))]


async def around(
    session: AsyncSession, kb_id: str, starts: Collection[str], depth: int, limit: int
) -> Around:
    """Return what is at most `depth` relations away from these things, at most `limit` of it, the best founded first."""
    depth, limit = min(depth, DEEPEST), min(limit, MOST_NODES)
    far = dict.fromkeys(list(starts)[:limit], 0)
    frontier, cut = list(far), len(starts) > limit
    for distance in range(1, depth + 1):
        reached: list[str] = []
        for link in await _links(session, kb_id, frontier, PER_NODE * limit):
            for end in (link.source, link.target):
                if end in far:
                    continue
                if len(far) == limit:
                    cut = True
                    continue
                far[end] = distance
                reached.append(end)
        frontier = reached
        if not frontier:
            break
    nodes = await _seen(session, kb_id, far)
    there = {node.id for node in nodes}
    edges = [
        link
        for link in await _links(session, kb_id, list(there), MOST_EDGES)
        if {link.source, link.target} <= there
    ]
    return Around(nodes, await _with_evidence(session, edges), cut)


async def detail(session: AsyncSession, kb_id: str, ident: str) -> Detail | None:
    """Return what is known of a thing; None where it is not there."""
    (node,) = await _seen(session, kb_id, {ident: 0}) or (None,)
    if node is None:
        return None
    other = select(EntityAlias.name).where(EntityAlias.entity_id == ident).order_by(EntityAlias.name)
    aliases = (await session.scalars(other.limit(SHOWN))).all()
    return Detail(node, aliases, await _facts(session, kb_id, ident), await _places(session, ident))


def _is_called(kb_id: str, contains: str) -> ColumnElement[bool]:
    """The condition of a thing one of whose names contains something."""
    other = select(EntityAlias.entity_id).where(
        EntityAlias.knowledge_base_id == kb_id, EntityAlias.name.icontains(contains, autoescape=True)
    )
    return Entity.name.icontains(contains, autoescape=True) | Entity.id.in_(other)


async def _facts(session: AsyncSession, kb_id: str, ident: str) -> list[Fact]:
    links = (await _links(session, kb_id, [ident], SHOWN))[:SHOWN]
    others = {link.target if link.source == ident else link.source: 1 for link in links}
    seen = {node.id: node for node in await _seen(session, kb_id, others)}
    query = select(RelationEvidence).where(RelationEvidence.relation_id.in_([link.id for link in links]))
    said: dict[str, list[RelationEvidence]] = {}
    for row in await session.scalars(query.order_by(RelationEvidence.chunk_id).limit(MOST_EDGES)):
        said.setdefault(row.relation_id, []).append(row)
    facts = []
    for link in links:
        outwards = link.source == ident
        other = seen.get(link.target if outwards else link.source)
        for row in said.get(link.id, ())[:3] if other else ():
            assert other is not None  # noqa: S101 - there is nothing to go through otherwise
            facts.append(
                Fact(link.id, link.kind, other, outwards, row.evidence, row.chunk_id, row.knowledge_id)
            )
    return facts[:SHOWN]


async def _places(session: AsyncSession, ident: str) -> list[Place]:
    query = (
        select(
            EntityMention.chunk_id,
            Chunk.position,
            EntityMention.count.label("times"),
            EntityMention.knowledge_id,
        )
        .join(Chunk, Chunk.id == EntityMention.chunk_id)
        .where(EntityMention.entity_id == ident)
        .order_by(EntityMention.count.desc(), EntityMention.knowledge_id, Chunk.position)
    )
    rows = (await session.execute(query.limit(SHOWN))).all()
    named = await named_of(session, sorted({row.knowledge_id for row in rows}))
    return [
        Place(
            row.chunk_id,
            row.position,
            row.times,
            row.knowledge_id,
            named[row.knowledge_id].title,
            named[row.knowledge_id].path,
        )
        for row in rows
        if row.knowledge_id in named
    ]


async def _seen(session: AsyncSession, kb_id: str, far: Mapping[str, int]) -> list[Seen]:
    found: list[Seen] = []
    counts = await _mentions(session, list(far))
    for some in batches(list(far)):
        query = select(Entity).where(Entity.knowledge_base_id == kb_id, Entity.id.in_(some))
        found += [
            Seen(one.id, one.name, one.kind, counts.get(one.id, 0), far[one.id])
            for one in await session.scalars(query)
        ]
    return sorted(found, key=lambda one: (one.distance, -one.mentions, one.name, one.id))


async def _mentions(session: AsyncSession, idents: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for some in batches(idents):
        query = select(EntityMention.entity_id, func.sum(EntityMention.count))
        rows = query.where(EntityMention.entity_id.in_(some)).group_by(EntityMention.entity_id)
        counts.update((row[0], int(row[1])) for row in await session.execute(rows))
    return counts


async def _links(session: AsyncSession, kb_id: str, ends: Sequence[str], limit: int) -> list[Link]:
    """Relations of these things, the best founded first."""
    weight = func.count(RelationEvidence.chunk_id)
    query = (
        select(Relation.id, Relation.source_id, Relation.target_id, Relation.kind, weight)
        .outerjoin(RelationEvidence, RelationEvidence.relation_id == Relation.id)
        .where(Relation.knowledge_base_id == kb_id)
        .where(or_(Relation.source_id.in_(ends), Relation.target_id.in_(ends)))
        .group_by(Relation.id, Relation.source_id, Relation.target_id, Relation.kind)
        .order_by(weight.desc(), Relation.id)
        .limit(limit)
    )
    return [Link(row[0], row[1], row[2], row[3], int(row[4])) for row in await session.execute(query)]


async def _with_evidence(session: AsyncSession, links: Sequence[Link]) -> list[Link]:
    said: dict[str, str] = {}
    for some in batches([link.id for link in links]):
        first = (
            select(RelationEvidence.relation_id, func.min(RelationEvidence.evidence))
            .where(RelationEvidence.relation_id.in_(some))
            .group_by(RelationEvidence.relation_id)
        )
        said.update((row[0], row[1]) for row in await session.execute(first))
    return [Link(one.id, one.source, one.target, one.kind, one.weight, said.get(one.id, "")) for one in links]
