"""What knowledge bases are about."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def upgrade() -> None:
    op.create_table(
        "knowledge_base_profiles",
        column(
            "knowledge_base_id",
            sa.String(64),
            sa.ForeignKey("knowledge_bases.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        column("status", sa.String(16)),
        column("gist", sa.Text()),
        column("topics", sa.JSON()),
        column("typical_questions", sa.JSON()),
        column("stats", sa.JSON()),
        column("aggregate_hash", sa.String(64)),
        column("error", sa.Text()),
        column("model_id", sa.String(255)),
        column("method", sa.String(32)),
        sa.Column("generated_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
    )


def downgrade() -> None:
    op.drop_table("knowledge_base_profiles")
