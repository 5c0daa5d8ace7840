"""Gives the HTTP service our graphs."""

from collections.abc import Sequence

from consumers.knowledge.bases.knowledge_bases import shown_base
from consumers.knowledge.graph import reading
from consumers.knowledge.graph.reading import Seen
from consumers.knowledge.tables.knowledge import Knowledge
from pipeline import Database
from pipeline.http.graphs import Edge, GraphHome, Known, Naming, Neighbourhood, Node, Statement


class StoredGraphs:
    """Implements `pipeline.http.graphs.Graphs`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def home(self, base_id: str, tenant_id: int | None = None) -> GraphHome | None:
        """See the protocol."""
        async with self._database.read() as sql:
            base = await shown_base(sql, base_id, tenant_id)
        return GraphHome(base.id, base.name, base.tenant_id) if base else None

    async def find(self, base_id: str, contains: str, limit: int) -> Sequence[Node]:
        """See the protocol."""
        async with self._database.read() as sql:
            found = await reading.most_named(sql, base_id, limit, contains=contains)
        return [_node(one) for one in found]

    async def around(self, base_id: str, entity_id: str, depth: int, limit: int) -> Neighbourhood:
        """See the protocol."""
        async with self._database.read() as sql:
            found = await reading.around(sql, base_id, [entity_id], depth, limit)
        edges = [Edge(one.source, one.target, one.kind, one.weight) for one in found.edges]
        return Neighbourhood([_node(one) for one in found.nodes], edges, found.cut)

    async def known(self, base_id: str, entity_id: str) -> Known | None:
        """See the protocol."""
        async with self._database.read() as sql:
            found = await reading.detail(sql, base_id, entity_id)
        if found is None:
            return None
        statements = [
            Statement(one.kind, one.other.id, one.other.name, one.outwards, one.evidence, one.knowledge_id)
            for one in found.facts
        ]
        documents: dict[str, Naming] = {}
        for place in found.places:
            before = documents.get(place.knowledge_id)
            count = place.count + (before.count if before else 0)
            documents[place.knowledge_id] = Naming(place.knowledge_id, place.title, place.source, count)
        return Known(_node(found.node), found.aliases, statements, list(documents.values()))

    async def named_by(self, document_id: str, limit: int) -> tuple[str, Sequence[Node]]:
        """See the protocol."""
        async with self._database.read() as sql:
            document = await sql.get(Knowledge, document_id)
            if document is None:
                return "", ()
            base_id = document.knowledge_base_id
            found = await reading.most_named(sql, base_id, limit, knowledge_id=document_id)
        return base_id, [_node(one) for one in found]


def _node(seen: Seen) -> Node:
    return Node(seen.id, seen.name, seen.kind, seen.mentions, seen.distance)
