"""Questions with ready answers."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def upgrade() -> None:
    op.create_table(
        "faq_entries",
        column("id", sa.String(64), primary_key=True),
        column("tenant_id", sa.BigInteger()),
        column("knowledge_base_id", sa.String(64), sa.ForeignKey("knowledge_bases.id", ondelete="CASCADE")),
        column("question", sa.Text()),
        column("similar_questions", sa.JSON()),
        column("negative_questions", sa.JSON()),
        column("answers", sa.JSON()),
        column("enabled", sa.Boolean()),
        column("import_id", sa.Text()),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
    )
    op.create_index("faq_entries_base", "faq_entries", ["knowledge_base_id", "id"])


def downgrade() -> None:
    op.drop_table("faq_entries")
