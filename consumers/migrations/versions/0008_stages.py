"""What is kept of finished stages, so that a retry or another parse of the same content need not repeat them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def upgrade() -> None:
    op.create_table(
        "stage_files",
        column("key", sa.String(255), primary_key=True),
        column("knowledge_id", sa.String(64)),
        column("size", sa.BigInteger()),
        column("used_at", sa.BigInteger()),
    )
    op.create_index("stage_files_document", "stage_files", ["knowledge_id"])
    op.create_index("stage_files_used", "stage_files", ["used_at"])


def downgrade() -> None:
    op.drop_table("stage_files")
