"""The ledger's tables and the domain's: what they were in the first version, whatever the models say later."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(64)
JOB = sa.String(128)
NAME = sa.String(255)
WORD = sa.String(16)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LIVE = sa.text("deleted_at IS NULL")


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def maybe(name: str, kind: Any, *parts: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=True)


def within(table: str) -> sa.ForeignKey:
    return sa.ForeignKey(f"{table}.id", ondelete="CASCADE")


def upgrade() -> None:
    ledger()
    documents()
    contents()
    graph()
    tags()
    spans()


def ledger() -> None:
    op.create_table(
        "outbox",
        column("id", JOB, primary_key=True),
        column("type", ID),
        column("data", sa.Text()),
        column("options", sa.Text()),
        column("created_at", sa.BigInteger()),
        column("attempts", sa.Integer()),
    )
    op.create_index("outbox_order", "outbox", ["attempts", "created_at"])
    op.create_table(
        "task_dead_letters",
        column("id", SERIAL, primary_key=True),
        column(
            "death_id", sa.String(160).with_variant(sa.String(160, collation="C"), "postgresql")
        ),  # asked for by ranges
        column("tenant_id", sa.BigInteger()),
        column("task_type", ID),
        column("scope", sa.String(32)),
        column("scope_id", JOB),
        column("related_id", JOB),
        column("reason", sa.String(32)),
        column("payload", sa.Text()),
        column("last_error", sa.Text()),
        column("fail_count", sa.Integer()),
        column("failed_at", sa.BigInteger()),
        sa.UniqueConstraint("death_id"),
    )
    op.create_index("task_dead_letters_scope", "task_dead_letters", ["scope", "scope_id", "failed_at"])
    op.create_index("task_dead_letters_tenant", "task_dead_letters", ["tenant_id", "failed_at"])
    op.create_index("task_dead_letters_type", "task_dead_letters", ["task_type", "failed_at"])


def documents() -> None:
    op.create_table(
        "knowledge_bases",
        column("id", ID, primary_key=True),
        column("tenant_id", sa.BigInteger()),
        column("name", NAME),
        column("settings", sa.JSON()),
        maybe("embedding_model", NAME),
        maybe("embedding_dimension", sa.BigInteger()),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
        maybe("deleted_at", sa.BigInteger()),
    )
    op.create_index(
        "knowledge_bases_name",
        "knowledge_bases",
        ["tenant_id", "name"],
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    )
    op.create_table(
        "knowledges",
        column("id", ID, primary_key=True),
        column("tenant_id", sa.BigInteger()),
        column("knowledge_base_id", ID, within("knowledge_bases")),
        column("source", sa.Text()),
        column("file_name", sa.Text()),
        column("file_type", sa.String(32)),
        column("file_hash", ID),
        column("file_size", sa.BigInteger()),
        column("file_key", sa.Text()),
        column("title", sa.Text()),
        maybe("language", WORD),
        column("parse_status", WORD),
        column("summary_status", WORD),
        column("attempt", sa.BigInteger()),
        column("parsed_attempt", sa.BigInteger()),
        column("error_message", sa.Text()),
        column("warnings", sa.JSON()),
        column("summary", sa.Text()),
        column("summary_method", sa.String(32)),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
        maybe("processed_at", sa.BigInteger()),
        sa.UniqueConstraint("knowledge_base_id", "source", name="knowledges_source"),
    )
    op.create_index("knowledges_status", "knowledges", ["parse_status", "updated_at"])


def contents() -> None:
    op.create_table(
        "chunks",
        column("id", ID, primary_key=True),
        column("knowledge_id", ID, within("knowledges")),
        column("knowledge_base_id", ID),
        column("tenant_id", sa.BigInteger()),
        column("attempt", sa.BigInteger()),
        column("kind", WORD),
        column("position", sa.BigInteger()),
        column("text", sa.Text()),
        column("heading", sa.JSON()),
        column("start", sa.BigInteger()),
        column("end", sa.BigInteger()),
        sa.UniqueConstraint("knowledge_id", "attempt", "kind", "position", name="chunks_position"),
    )
    op.create_table(
        "images",
        column("id", ID, primary_key=True),
        column("knowledge_id", ID, within("knowledges")),
        column("attempt", sa.BigInteger()),
        column("position", sa.BigInteger()),
        column("file_key", sa.Text()),
        column("mime", ID),
        maybe("page", sa.BigInteger()),
        column("status", WORD),
        column("reason", sa.Text()),
        sa.UniqueConstraint("knowledge_id", "attempt", "position", name="images_position"),
    )
    op.create_table(
        "questions",
        column("id", ID, primary_key=True),
        column("knowledge_id", ID, within("knowledges")),
        column("chunk_id", ID, within("chunks")),
        column("attempt", sa.BigInteger()),
        column("position", sa.BigInteger()),
        column("text", sa.Text()),
        column("method", sa.String(32)),
    )
    op.create_index("questions_chunk", "questions", ["chunk_id"])
    op.create_index("questions_document", "questions", ["knowledge_id"])
    op.create_table(
        "slots",
        column("id", JOB, primary_key=True),
        column("knowledge_id", ID, within("knowledges")),
        column("attempt", sa.BigInteger()),
        column("kind", WORD),
        column("created_at", sa.BigInteger()),
    )
    op.create_index("slots_document", "slots", ["knowledge_id", "attempt"])


def graph() -> None:
    op.create_table(
        "entities",
        column("id", ID, primary_key=True),
        column("knowledge_base_id", ID, within("knowledge_bases")),
        column("name", NAME),
        column("kind", ID),
    )
    op.create_index("entities_name", "entities", ["knowledge_base_id", "name"])
    op.create_table(
        "entity_mentions",
        column("entity_id", ID, within("entities"), primary_key=True),
        column("chunk_id", ID, within("chunks"), primary_key=True),
        column("knowledge_id", ID, within("knowledges")),
        column("count", sa.BigInteger()),
    )
    op.create_index("entity_mentions_chunk", "entity_mentions", ["chunk_id"])
    op.create_index("entity_mentions_document", "entity_mentions", ["knowledge_id"])
    op.create_table(
        "relations",
        column("id", ID, primary_key=True),
        column("knowledge_base_id", ID, within("knowledge_bases")),
        column("source_id", ID, within("entities")),
        column("target_id", ID, within("entities")),
        column("kind", NAME),
    )
    op.create_index("relations_source", "relations", ["source_id"])
    op.create_index("relations_target", "relations", ["target_id"])
    op.create_table(
        "relation_evidence",
        column("relation_id", ID, within("relations"), primary_key=True),
        column("chunk_id", ID, within("chunks"), primary_key=True),
        column("knowledge_id", ID, within("knowledges")),
        column("evidence", sa.Text()),
    )
    op.create_index("relation_evidence_chunk", "relation_evidence", ["chunk_id"])
    op.create_index("relation_evidence_document", "relation_evidence", ["knowledge_id"])


def tags() -> None:
    op.create_table(
        "tags",
        column("id", ID, primary_key=True),
        column("knowledge_base_id", ID, within("knowledge_bases")),
        column("name", NAME),
        column("description", sa.Text()),
        sa.UniqueConstraint("knowledge_base_id", "name", name="tags_name"),
    )
    op.create_table(
        "knowledge_tags",
        column("knowledge_id", ID, within("knowledges"), primary_key=True),
        column("tag_id", ID, within("tags"), primary_key=True),
        column("confidence", sa.Double()),
        column("method", sa.String(32)),
    )
    op.create_index("knowledge_tags_tag", "knowledge_tags", ["tag_id"])


def spans() -> None:
    op.create_table(
        "knowledge_processing_spans",
        column("knowledge_id", ID, within("knowledges"), primary_key=True),
        column("attempt", sa.BigInteger(), primary_key=True),
        column("span_id", ID, primary_key=True),
        maybe("parent_span_id", ID),
        column("name", NAME),
        column("kind", WORD),
        column("status", WORD),
        column("input", sa.JSON()),
        column("output", sa.JSON()),
        column("metadata", sa.JSON()),
        column("error_code", ID),
        column("error_message", sa.Text()),
        column("error_detail", sa.Text()),
        column("started_at", sa.BigInteger()),
        maybe("finished_at", sa.BigInteger()),
        maybe("duration_ms", sa.BigInteger()),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
    )
    op.create_index(
        "knowledge_processing_spans_status", "knowledge_processing_spans", ["status", "started_at"]
    )


def downgrade() -> None:
    for table in (
        "knowledge_processing_spans",
        "knowledge_tags",
        "tags",
        "relation_evidence",
        "relations",
        "entity_mentions",
        "entities",
        "slots",
        "questions",
        "images",
        "chunks",
        "knowledges",
        "knowledge_bases",
        "task_dead_letters",
        "outbox",
    ):
        op.drop_table(table)
