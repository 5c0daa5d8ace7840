"""The graph of a knowledge base over HTTP: things, what is around them, and what is said of them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import AfterValidator, BaseModel

from consumers.http.callers import PREFIX, Ident, Reader, base_of, printable, services_of
from consumers.knowledge.graph import reading
from consumers.knowledge.graph.reading import DEEPEST, MOST_NODES
from pipeline.http.admin import PageSize, page_of
from pipeline.http.errors import Problem, documented
from pipeline.inspector import PAGE

router = APIRouter(
    prefix=f"{PREFIX}/knowledge-bases/{{id}}/graph", tags=["graph"], responses=documented(401, 403, 404)
)

Name = Annotated[str, Query(max_length=255), AfterValidator(printable)]
STARTS = 10
"""Things that a graph is shown around where none is named."""


class EntityRow(BaseModel):
    """Something that documents name. `kind` is name, code or term; `mentions` counts how often it is named."""

    id: str
    name: str
    kind: str
    mentions: int


class EntityNode(EntityRow):
    """Such a thing in a neighbourhood, and how many relations it is away."""

    distance: int


class GraphEdge(BaseModel):
    """How one thing stands to another: `weight` passages say so, one of them in these words."""

    id: str
    source: str
    target: str
    kind: str
    weight: int
    evidence: str


class NearbyGraph(BaseModel):
    """What is around a thing, the nearest first. `truncated`: there is more than was asked for."""

    nodes: Sequence[EntityNode]
    edges: Sequence[GraphEdge]
    truncated: bool


class EntityPage(BaseModel):
    """Some things of a base, by name."""

    entities: Sequence[EntityRow]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class EntityMentioned(BaseModel):
    """A passage that names a thing, how often, and the document it is of."""

    chunk_id: str
    position: int
    count: int
    knowledge_id: str
    title: str
    source: str


class EntityRelation(BaseModel):
    """What a passage says of a thing and another one; `outwards`: the thing is its subject."""

    relation_id: str
    kind: str
    other: EntityRow
    outwards: bool
    evidence: str
    chunk_id: str
    knowledge_id: str


class EntityDetail(EntityRow):
    """A thing, what else it is called, what is said of it, and where it is named; of very much the best founded."""

    aliases: Sequence[str]
    relations: Sequence[EntityRelation]
    mentioned: Sequence[EntityMentioned]


@router.get("")
async def neighbourhood(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    entity: Annotated[Name, Query(description="id or name; none: what is named most")] = "",
    depth: Annotated[int, Query(ge=1, le=DEEPEST)] = 1,
    limit: Annotated[int, Query(ge=1, le=MOST_NODES)] = 50,
) -> NearbyGraph:
    """What is around a thing."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        if entity:
            found = await reading.entity_id(sql, kb.id, entity)
            starts = [found] if found else []
            if not starts:
                raise _unknown(entity)
        else:
            starts = [one.id for one in await reading.most_named(sql, kb.id, STARTS)]
        near = await reading.around(sql, kb.id, starts, depth, limit)
    return NearbyGraph(
        nodes=[EntityNode(**asdict(one)) for one in near.nodes],
        edges=[GraphEdge(**asdict(one)) for one in near.edges],
        truncated=near.cut,
    )


@router.get("/entities", response_model_exclude_none=True)
async def entities(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    contains: Name = "",
    cursor: Annotated[str, Query(max_length=64), AfterValidator(printable)] = "",
    page_size: PageSize = PAGE,
) -> EntityPage:
    """Things that the documents of a base name, by name."""
    services, size = services_of(request), page_of(page_size)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        found = await reading.entities(sql, kb.id, contains, cursor, size + 1)
    shown = [_row(one) for one in found[:size]]
    more = len(found) > size
    return EntityPage(
        entities=shown, page_size=size, has_more=more, next_cursor=shown[-1].id if more else None
    )


@router.get("/entities/{entity_id}")
async def entity_detail(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    entity_id: Annotated[str, Path(max_length=64), AfterValidator(printable)],
) -> EntityDetail:
    """One thing, what is said of it, and where it is named."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        found = await reading.detail(sql, kb.id, entity_id)
    if found is None:
        raise _unknown(entity_id)
    return EntityDetail(
        **_row(found.node).model_dump(),
        aliases=found.aliases,
        relations=[EntityRelation(**{**asdict(one), "other": _row(one.other)}) for one in found.facts],
        mentioned=[EntityMentioned(**asdict(one)) for one in found.places],
    )


def _row(seen: reading.Seen) -> EntityRow:
    return EntityRow(id=seen.id, name=seen.name, kind=seen.kind, mentions=seen.mentions)


def _unknown(name: str) -> Problem:
    return Problem(404, f"no document of this base names {name[:64]} (any more)", "entity_not_found")
