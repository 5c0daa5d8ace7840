"""Tables of what connects documents: tags, and the graph of entities and relations with its evidence."""

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Name, OfBase, OfChunk, OfDocument, Row


class Tag(Row):
    """A tag that the documents of a base may be given."""

    __tablename__ = "tags"
    __table_args__ = (UniqueConstraint("knowledge_base_id", "name", name="tags_name"),)

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_base_id: Mapped[OfBase]
    name: Mapped[Name]
    description: Mapped[str]


class KnowledgeTag(Row):
    """A tag on a document. `confidence` is within 0..1."""

    __tablename__ = "knowledge_tags"
    __table_args__ = (Index("knowledge_tags_tag", "tag_id"),)

    knowledge_id: Mapped[OfDocument] = mapped_column(primary_key=True)
    tag_id: Mapped[Id] = mapped_column(ForeignKey("tags.id", ondelete="CASCADE"), primary_key=True)
    confidence: Mapped[float]
    method: Mapped[str] = mapped_column(String(32))


class Entity(Row):
    """Something that the documents of a base name. `name` is as first written; `id` is derived from its normal form."""

    __tablename__ = "entities"
    __table_args__ = (Index("entities_name", "knowledge_base_id", "name"),)

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_base_id: Mapped[OfBase]
    name: Mapped[Name]
    kind: Mapped[str] = mapped_column(String(64))


class EntityAlias(Row):
    """What an entity is called, too: `id` is that of an entity of this name, which was merged with it."""

    __tablename__ = "entity_aliases"
    __table_args__ = (Index("entity_aliases_entity", "entity_id"),)

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_base_id: Mapped[OfBase]
    entity_id: Mapped[Id] = mapped_column(ForeignKey("entities.id", ondelete="CASCADE"))
    name: Mapped[Name]
    why: Mapped[str] = mapped_column(String(32))


class EntityMention(Row):
    """How often a chunk names an entity."""

    __tablename__ = "entity_mentions"
    __table_args__ = (
        Index("entity_mentions_chunk", "chunk_id"),
        Index("entity_mentions_document", "knowledge_id"),
    )

    entity_id: Mapped[Id] = mapped_column(ForeignKey("entities.id", ondelete="CASCADE"), primary_key=True)
    chunk_id: Mapped[OfChunk] = mapped_column(primary_key=True)
    knowledge_id: Mapped[OfDocument]
    count: Mapped[int]


class Relation(Row):
    """How one entity stands to another."""

    __tablename__ = "relations"
    __table_args__ = (Index("relations_source", "source_id"), Index("relations_target", "target_id"))

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_base_id: Mapped[OfBase]
    source_id: Mapped[Id] = mapped_column(ForeignKey("entities.id", ondelete="CASCADE"))
    target_id: Mapped[Id] = mapped_column(ForeignKey("entities.id", ondelete="CASCADE"))
    kind: Mapped[Name]


class RelationEvidence(Row):
    """The words of a chunk that say so."""

    __tablename__ = "relation_evidence"
    __table_args__ = (
        Index("relation_evidence_chunk", "chunk_id"),
        Index("relation_evidence_document", "knowledge_id"),
    )

    relation_id: Mapped[Id] = mapped_column(ForeignKey("relations.id", ondelete="CASCADE"), primary_key=True)
    chunk_id: Mapped[OfChunk] = mapped_column(primary_key=True)
    knowledge_id: Mapped[OfDocument]
    evidence: Mapped[str]
