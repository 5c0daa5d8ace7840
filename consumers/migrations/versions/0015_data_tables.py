"""What is known of data tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def upgrade() -> None:
    op.create_table(
        "table_summaries",
        column("id", sa.String(64), primary_key=True),
        column("knowledge_id", sa.String(64), sa.ForeignKey("knowledges.id", ondelete="CASCADE")),
        column("attempt", sa.BigInteger()),
        column("position", sa.BigInteger()),
        column("name", sa.String(255)),
        column("rows", sa.BigInteger()),
        column("columns", sa.JSON()),
        column("description", sa.Text()),
        column("method", sa.String(32)),
        sa.UniqueConstraint("knowledge_id", "attempt", "position", name="table_summaries_position"),
    )


def downgrade() -> None:
    op.drop_table("table_summaries")
