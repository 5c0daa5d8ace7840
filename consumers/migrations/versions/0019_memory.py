"""What people said, and what is remembered of it."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

SUBJECT = sa.String(128)


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def of_subject() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id", "subject_id"],
        ["memory_subjects.tenant_id", "memory_subjects.subject_id"],
        ondelete="CASCADE",
    )


def upgrade() -> None:
    op.create_table(
        "memory_settings",
        column("tenant_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        column("settings", sa.JSON()),
        column("updated_at", sa.BigInteger()),
    )
    op.create_table(
        "memory_subjects",
        column("tenant_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        column("subject_id", SUBJECT, primary_key=True),
        column("enabled", sa.Boolean()),
        column("block_text", sa.Text()),
        column("last_position", sa.BigInteger()),
        column("extract_cursor", sa.BigInteger()),
        column("pending_sessions", sa.JSON()),
        column("extract_job", SUBJECT),
        sa.Column("extract_scheduled_at", sa.BigInteger()),
        sa.Column("last_extracted_at", sa.BigInteger()),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
    )
    op.create_table(
        "memory_items",
        column("id", sa.String(64), primary_key=True),
        column("tenant_id", sa.BigInteger()),
        column("subject_id", SUBJECT),
        column("kind", sa.String(16)),
        column("topic", sa.String(64)),
        column("text", sa.Text()),
        column("session_id", SUBJECT),
        column("message_id", SUBJECT),
        column("method", sa.String(32)),
        column("vector", sa.LargeBinary()),
        column("model", sa.String(255)),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
        sa.Column("deleted_at", sa.BigInteger()),
        of_subject(),
    )
    op.create_index("memory_items_subject", "memory_items", ["tenant_id", "subject_id", "updated_at"])
    op.create_table(
        "session_messages",
        column("tenant_id", sa.BigInteger(), primary_key=True, autoincrement=False),
        column("session_id", SUBJECT, primary_key=True),
        column("id", SUBJECT, primary_key=True),
        column("subject_id", SUBJECT),
        column("role", sa.String(16)),
        column("content", sa.Text()),
        column("position", sa.BigInteger()),
        column("created_at", sa.BigInteger()),
        of_subject(),
        sa.UniqueConstraint("tenant_id", "subject_id", "position", name="session_messages_position"),
    )


def downgrade() -> None:
    for table in ("session_messages", "memory_items", "memory_subjects", "memory_settings"):
        op.drop_table(table)
