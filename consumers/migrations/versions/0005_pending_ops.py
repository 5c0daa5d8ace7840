"""Operations that wait for the next batch of their lane, and the tenants whose operations are done."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.String(64)
KEY = sa.String(128)
WORD = sa.String(32)


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def upgrade() -> None:
    op.create_table(
        "task_pending_ops",
        column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        column("tenant_id", sa.BigInteger()),
        column("task_type", ID),
        column("scope", WORD),
        column("scope_id", KEY),
        column("op", WORD),
        column("dedup_key", KEY),
        column("payload", sa.Text()),
        column("fail_count", sa.Integer()),
        column("enqueued_at", sa.BigInteger()),
        sa.Column("claimed_at", sa.BigInteger()),
        column("claimed_by", ID),
        sqlite_autoincrement=True,
    )
    lane = ["task_type", "scope", "scope_id"]
    op.create_index("task_pending_ops_lane", "task_pending_ops", [*lane, "fail_count", "id"])
    op.create_index("task_pending_ops_key", "task_pending_ops", [*lane, "dedup_key"])
    op.create_index("task_pending_ops_tenant", "task_pending_ops", ["tenant_id"])
    op.create_table(
        "tenants",
        column("id", sa.BigInteger(), primary_key=True, autoincrement=False),
        column("name", sa.String(255)),
        column("created_at", sa.BigInteger()),
        sa.Column("deleted_at", sa.BigInteger()),
    )


def downgrade() -> None:
    op.drop_table("tenants")
    op.drop_table("task_pending_ops")
