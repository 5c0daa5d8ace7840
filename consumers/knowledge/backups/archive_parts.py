"""Which rows an archive of a base has, and what the ids in them stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Select, Table, select

from consumers.knowledge.tables.data import TableSummary
from consumers.knowledge.tables.faq import FAQEntry
from consumers.knowledge.tables.graph import (
    Entity,
    EntityAlias,
    EntityMention,
    KnowledgeTag,
    Relation,
    RelationEvidence,
    Tag,
)
from consumers.knowledge.tables.knowledge import Chunk, Image, Knowledge, Question, Row, table_of
from consumers.knowledge.tables.profiles import StoredProfile
from consumers.knowledge.tables.wiki import WikiFolder, WikiPage, WikiPageSource, WikiPageVersion
from contracts.knowledge import ParseStatus

DOCUMENT, TAG, ENTITY, RELATION, PAGE, FAQ = "document", "tag", "entity", "relation", "page", "faq"
THING = "thing"
"""What an id is of. Those of tags, entities, relations, pages and ready answers are derived from their base and their name; a
thing is whatever only rows of the archive refer to.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one table. `own` says what its `id` is of, `refers` what the ids in other columns are of."""

    row: type[Row]
    own: str = ""
    refers: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The table."""
        return table_of(self.row)

    @property
    def name(self) -> str:
        """Its entry in an archive."""
        return f"rows/{self.table.name}.jsonl"

    def rows(self, kb_id: str) -> Select[Any]:
        """Return what selects the rows of a base."""
        columns = self.table.c
        found = select(self.table).order_by(*self.table.primary_key)
        if self.row is Knowledge:
            return found.where(
                columns.knowledge_base_id == kb_id, columns.parse_status != ParseStatus.DELETING
            )
        documents = select(Knowledge.id).where(
            Knowledge.knowledge_base_id == kb_id, Knowledge.parse_status != ParseStatus.DELETING
        )
        if "knowledge_id" in columns:
            found = found.where(columns.knowledge_id.in_(documents))
        elif "page_id" in columns:
            found = found.where(
                columns.page_id.in_(select(WikiPage.id).where(WikiPage.knowledge_base_id == kb_id))
            )
        if "knowledge_base_id" in columns:
            found = found.where(columns.knowledge_base_id == kb_id)
        return found


_OF_CHUNK: Final = {"chunk_id": THING, "knowledge_id": DOCUMENT}
PARTS: Final = (
    Part(Knowledge, DOCUMENT),
    Part(Chunk, THING, {"knowledge_id": DOCUMENT}),
    Part(Image, THING, {"knowledge_id": DOCUMENT}),
    Part(Question, THING, _OF_CHUNK),
    Part(TableSummary, THING, {"knowledge_id": DOCUMENT}),
    Part(Tag, TAG),
    Part(KnowledgeTag, "", {"knowledge_id": DOCUMENT, "tag_id": TAG}),
    Part(Entity, ENTITY),
    Part(EntityAlias, ENTITY, {"entity_id": ENTITY}),
    Part(EntityMention, "", {"entity_id": ENTITY, **_OF_CHUNK}),
    Part(Relation, RELATION, {"source_id": ENTITY, "target_id": ENTITY}),
    Part(RelationEvidence, "", {"relation_id": RELATION, **_OF_CHUNK}),
    Part(WikiPage, PAGE),
    Part(WikiPageVersion, "", {"page_id": PAGE}),
    Part(WikiPageSource, "", {"knowledge_id": DOCUMENT}),
    Part(WikiFolder),
    Part(FAQEntry, FAQ),
    Part(StoredProfile),
)
"""In the order in which they can be inserted. Jobs, timelines, sources with their credentials and what is only kept to be
quick are no part of a base.
"""
