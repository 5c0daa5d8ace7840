"""Tables of the knowledge domain: bases, their documents, and what was read out of them.

Ids are text, times milliseconds since the epoch. What is read out of a document carries its parse attempt, and ids
are derived from where the text stood, so that a job which runs twice writes the same rows.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, cast

from sqlalchemy import (
    JSON,
    BigInteger,
    Enum,
    ForeignKey,
    Index,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from contracts.knowledge import ChunkKind, DocumentKind, ImageStatus, ParseStatus, SlotKind, SummaryStatus

metadata: Final = MetaData()

LIVE: Final = text("deleted_at IS NULL")

Id = Annotated[str, mapped_column(String(64))]
Name = Annotated[str, mapped_column(String(255))]
OfBase = Annotated[str, mapped_column(String(64), ForeignKey("knowledge_bases.id", ondelete="CASCADE"))]
OfDocument = Annotated[str, mapped_column(String(64), ForeignKey("knowledges.id", ondelete="CASCADE"))]
OfChunk = Annotated[str, mapped_column(String(64), ForeignKey("chunks.id", ondelete="CASCADE"))]


def words(kind: type[StrEnum]) -> Enum:
    """A column of one of these words, stored as it is read and not checked by the database: new ones may come."""
    return Enum(
        kind, native_enum=False, length=16, values_callable=lambda members: [m.value for m in members]
    )


_WORDS: Final[dict[Any, Enum]] = {
    kind: words(kind) for kind in (ParseStatus, SummaryStatus, ChunkKind, DocumentKind, ImageStatus, SlotKind)
}


class Row(DeclarativeBase):
    """A table of the domain."""

    metadata = metadata
    type_annotation_map = {  # noqa: RUF012 - read by SQLAlchemy
        str: Text(),
        int: BigInteger(),
        dict[str, Any]: JSON(),
        list[str]: JSON(),
        **_WORDS,
    }


def table_of(row: type[Row]) -> Table:
    """Return the table itself: what needs no objects is said of it, and runs in half the time."""
    return cast(Table, row.__table__)


class KnowledgeBase(Row):
    """A set of documents that are searched together. The vectors that serve all come from one model, fixed by the first."""

    __tablename__ = "knowledge_bases"
    __table_args__ = (
        Index(
            "knowledge_bases_name", "tenant_id", "name", unique=True, sqlite_where=LIVE, postgresql_where=LIVE
        ),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[int]
    name: Mapped[Name]
    settings: Mapped[dict[str, Any]]
    embedding_model: Mapped[str | None] = mapped_column(String(255))
    embedding_dimension: Mapped[int | None]
    index_generation: Mapped[int] = mapped_column(server_default="0")  # of the vectors that serve
    index_generations: Mapped[int] = mapped_column(
        server_default="0"
    )  # numbers given to generations until now
    created_at: Mapped[int]
    updated_at: Mapped[int]
    deleted_at: Mapped[int | None]


class Tenant(Row):
    """Whose bases these are. One without a row is alive."""

    __tablename__ = "tenants"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[Name]
    created_at: Mapped[int]
    deleted_at: Mapped[int | None]


class Knowledge(Row):
    """A document. `attempt` numbers its parses; `parsed_attempt` is the one whose chunks are stored."""

    __tablename__ = "knowledges"
    __table_args__ = (
        UniqueConstraint("knowledge_base_id", "source", name="knowledges_source"),
        Index("knowledges_status", "parse_status", "updated_at"),
        Index("knowledges_data_source", "data_source_id"),
        Index("knowledges_content", "knowledge_base_id", "file_hash"),
        Index("knowledges_file", "file_key"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[int]
    knowledge_base_id: Mapped[OfBase]
    kind: Mapped[DocumentKind] = mapped_column(server_default=DocumentKind.FILE.value)
    source: Mapped[
        str
    ]  # an absolute path, a URL, what was sent by its content, or a data source and its name there
    data_source_id: Mapped[str | None] = mapped_column(String(64))
    file_name: Mapped[str]
    file_type: Mapped[str] = mapped_column(String(32))
    file_hash: Mapped[Id]  # SHA-256 of the content
    file_size: Mapped[int]
    file_key: Mapped[str]  # in the file store
    title: Mapped[str]
    language: Mapped[str | None] = mapped_column(String(16))
    parse_status: Mapped[ParseStatus]
    summary_status: Mapped[SummaryStatus]
    attempt: Mapped[int]
    parsed_attempt: Mapped[int]
    error_message: Mapped[str]
    warnings: Mapped[list[str]]
    summary: Mapped[str]
    summary_method: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[int]
    updated_at: Mapped[int]
    processed_at: Mapped[int | None]


class Chunk(Row):
    """A passage of a document. `start` and `end` are character offsets in what was read out of it."""

    __tablename__ = "chunks"
    __table_args__ = (
        UniqueConstraint("knowledge_id", "attempt", "kind", "position", name="chunks_position"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_id: Mapped[OfDocument]
    knowledge_base_id: Mapped[Id]
    tenant_id: Mapped[int]
    attempt: Mapped[int]
    kind: Mapped[ChunkKind]
    position: Mapped[int]
    text: Mapped[str]
    heading: Mapped[list[str]]
    start: Mapped[int]
    end: Mapped[int]


class Image(Row):
    """A picture found in a document."""

    __tablename__ = "images"
    __table_args__ = (UniqueConstraint("knowledge_id", "attempt", "position", name="images_position"),)

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_id: Mapped[OfDocument]
    attempt: Mapped[int]
    position: Mapped[int]
    file_key: Mapped[str]
    mime: Mapped[str] = mapped_column(String(64))
    page: Mapped[int | None]
    status: Mapped[ImageStatus]
    reason: Mapped[str]


class Slot(Row):
    """An open slot: a child job, by its id, that the document waits for. Closing it deletes it."""

    __tablename__ = "slots"
    __table_args__ = (Index("slots_document", "knowledge_id", "attempt"),)

    id: Mapped[str] = mapped_column(String(128), primary_key=True)
    knowledge_id: Mapped[OfDocument]
    attempt: Mapped[int]
    kind: Mapped[SlotKind]
    created_at: Mapped[int]


class Question(Row):
    """A question that a chunk answers."""

    __tablename__ = "questions"
    __table_args__ = (Index("questions_document", "knowledge_id"), Index("questions_chunk", "chunk_id"))

    id: Mapped[Id] = mapped_column(primary_key=True)
    knowledge_id: Mapped[OfDocument]
    chunk_id: Mapped[OfChunk]
    attempt: Mapped[int]
    position: Mapped[int]
    text: Mapped[str]
    method: Mapped[str] = mapped_column(String(32))
