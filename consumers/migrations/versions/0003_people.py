"""Who may do what, and what they did: keys, administrators, their sessions, the audit log; and which deaths were replayed."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.String(64)
NAME = sa.String(128)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def upgrade() -> None:
    op.create_table(
        "api_keys",
        column("id", ID, primary_key=True),
        column("name", NAME),
        column("prefix", sa.String(16)),
        column("digest", ID),
        column("capabilities", sa.Text()),
        sa.Column("tenant_id", sa.BigInteger()),
        column("created_at", sa.BigInteger()),
        column("revoked_at", sa.BigInteger()),
        sa.UniqueConstraint("prefix"),
    )
    op.create_table(
        "admins",
        column("id", ID, primary_key=True),
        column("name", NAME),
        column("password", sa.Text()),
        column("created_at", sa.BigInteger()),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "admin_sessions",
        column("digest", ID, primary_key=True),
        column("admin_id", ID, sa.ForeignKey("admins.id", ondelete="CASCADE")),
        column("csrf", ID),
        column("created_at", sa.BigInteger()),
        column("expires_at", sa.BigInteger()),
    )
    op.create_index("admin_sessions_admin", "admin_sessions", ["admin_id"])
    op.create_index("admin_sessions_expiry", "admin_sessions", ["expires_at"])
    op.create_table(
        "sign_in_failures",
        column("who", sa.String(160), primary_key=True),
        column("failures", sa.BigInteger()),
        column("since", sa.BigInteger()),
    )
    op.create_index("sign_in_failures_since", "sign_in_failures", ["since"])
    audit()
    op.add_column("task_dead_letters", column("replayed_at", sa.BigInteger(), server_default="0"))


def audit() -> None:
    op.create_table(
        "audit_logs",
        column("id", SERIAL, primary_key=True),
        column("tenant_id", sa.BigInteger()),
        column("actor_user_id", ID),
        column("actor_role", sa.String(32)),
        column("action", ID),
        column("scope_type", sa.String(32)),
        column("scope_id", NAME),
        column("target_type", sa.String(32)),
        column("target_id", NAME),
        column("target_user_id", ID),
        column("request_path", sa.Text()),
        column("request_method", sa.String(16)),
        column("outcome", sa.String(16)),
        column("details", sa.Text()),
        column("created_at", sa.BigInteger()),
    )
    op.create_index("audit_logs_tenant", "audit_logs", ["tenant_id", "id"])
    op.create_index("audit_logs_actor", "audit_logs", ["actor_user_id", "id"])
    op.create_index("audit_logs_action", "audit_logs", ["action", "id"])
    op.create_index("audit_logs_target", "audit_logs", ["target_type", "target_id"])


def downgrade() -> None:
    op.drop_column("task_dead_letters", "replayed_at")
    for table in ("audit_logs", "sign_in_failures", "admin_sessions", "admins", "api_keys"):
        op.drop_table(table)
