"""What the HTTP service asks of whoever keeps the graphs of knowledge bases."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GraphHome:
    """A knowledge base, whose graph this is."""

    id: str
    name: str
    tenant_id: int


@dataclass(frozen=True, slots=True)
class Node:
    """Something that documents name. `mentions` counts how often, `distance` how many relations it is away."""

    id: str
    name: str
    kind: str
    mentions: int
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """How one thing stands to another; `weight` counts the passages that say so."""

    source: str
    target: str
    kind: str
    weight: int


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Things and the relations between them, the nearest first. `cut`: there are more than were asked for."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A relation of a thing to another one, and the words of a document that say so. `outwards`: the thing is its subject."""

    kind: str
    other_id: str
    other: str
    outwards: bool
    evidence: str
    knowledge_id: str


@dataclass(frozen=True, slots=True)
class Naming:
    """A document that names a thing, and how often."""

    knowledge_id: str
    title: str
    source: str
    count: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a thing: what else it is called, what is said of it, and the documents that name it."""

    node: Node
    aliases: Sequence[str]
    statements: Sequence[Statement]
    documents: Sequence[Naming]


class Graphs(Protocol):
    """Keeps graphs. Every method raises StoreUnavailable; a base of another tenant is as one that is not there."""

    async def home(self, base_id: str, tenant_id: int | None = None) -> GraphHome | None:
        """Return a base, whether anything is known in it or not."""

    async def find(self, base_id: str, contains: str, limit: int) -> Sequence[Node]:
        """Return things whose name contains something, those most often named first."""

    async def around(self, base_id: str, entity_id: str, depth: int, limit: int) -> Neighbourhood:
        """Return what is at most `depth` relations away from a thing; empty where that is not there."""

    async def known(self, base_id: str, entity_id: str) -> Known | None:
        """Return what is known of a thing."""

    async def named_by(self, document_id: str, limit: int) -> tuple[str, Sequence[Node]]:
        """Return the base of a document, and what it names most often."""
