"""Files attached to chats."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def upgrade() -> None:
    op.create_table(
        "temporary_documents",
        column("id", sa.String(64), primary_key=True),
        column("tenant_id", sa.BigInteger()),
        column("session_id", sa.String(128)),
        column("file_name", sa.Text()),
        column("file_size", sa.BigInteger()),
        column("file_key", sa.Text()),
        column("status", sa.String(16)),
        column("error_message", sa.Text()),
        column("warnings", sa.JSON()),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
        column("expires_at", sa.BigInteger()),
    )
    op.create_index(
        "temporary_documents_session", "temporary_documents", ["tenant_id", "session_id", "created_at"]
    )
    op.create_index("temporary_documents_expiry", "temporary_documents", ["expires_at"])
    op.create_table(
        "temporary_chunks",
        column(
            "document_id",
            sa.String(64),
            sa.ForeignKey("temporary_documents.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        column("position", sa.BigInteger(), primary_key=True, autoincrement=False),
        column("text", sa.Text()),
        column("heading", sa.Text()),
        column("model", sa.String(255)),
        column("vector", sa.LargeBinary()),
    )


def downgrade() -> None:
    op.drop_table("temporary_chunks")
    op.drop_table("temporary_documents")
