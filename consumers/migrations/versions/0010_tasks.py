"""Long work that people started and watch."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def upgrade() -> None:
    op.create_table(
        "tasks",
        column("id", sa.String(128), primary_key=True),
        column("kind", sa.String(64)),
        column("tenant_id", sa.BigInteger()),
        column("knowledge_base_id", sa.String(64)),
        column("status", sa.String(16)),
        column("total", sa.BigInteger()),
        column("processed", sa.BigInteger()),
        column("failed", sa.BigInteger()),
        column("message", sa.Text()),
        column("error", sa.Text()),
        column("detail", sa.JSON()),
        column("created_at", sa.BigInteger()),
        column("updated_at", sa.BigInteger()),
        sa.Column("finished_at", sa.BigInteger()),
    )
    op.create_index("tasks_knowledge_base", "tasks", ["knowledge_base_id", "kind", "status"])
    op.create_index("tasks_finished", "tasks", ["finished_at"])


def downgrade() -> None:
    op.drop_table("tasks")
