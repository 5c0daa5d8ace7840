"""Sources, their runs and what lies in them; documents say which source they came from."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

RUNS = sa.text("state = 'running'")


def column(name: str, kind: Any, *parts: Any, **options: Any) -> "sa.Column[Any]":
    return sa.Column(name, kind, *parts, nullable=False, **options)


def belongs(name: str, table: str) -> "sa.Column[Any]":
    return column(name, sa.String(64), sa.ForeignKey(f"{table}.id", ondelete="CASCADE"))


def numbers(*names: str) -> "list[sa.Column[Any]]":
    return [column(name, sa.BigInteger()) for name in names]


def upgrade() -> None:
    op.create_table(
        "data_sources",
        column("id", sa.String(64), primary_key=True),
        column("tenant_id", sa.BigInteger()),
        belongs("knowledge_base_id", "knowledge_bases"),
        column("name", sa.String(255)),
        column("kind", sa.String(32)),
        column("config", sa.JSON()),
        column("credentials", sa.JSON()),
        column("cron", sa.String(128)),
        column("timezone", sa.String(64)),
        column("mode", sa.String(16)),
        column("status", sa.String(16)),
        column("cursor", sa.Text()),
        *numbers("generation", "listing"),
        sa.Column("next_run_at", sa.BigInteger()),
        sa.Column("last_success_at", sa.BigInteger()),
        column("health", sa.JSON()),
        *numbers("created_at", "updated_at"),
    )
    op.create_index("data_sources_name", "data_sources", ["knowledge_base_id", "name"], unique=True)
    op.create_index("data_sources_due", "data_sources", ["status", "next_run_at"])
    op.create_table(
        "sync_logs",
        column("id", sa.String(64), primary_key=True),
        belongs("data_source_id", "data_sources"),
        column("tenant_id", sa.BigInteger()),
        column("job_id", sa.String(128)),
        column("trigger", sa.String(16)),
        column("mode", sa.String(16)),
        column("state", sa.String(16)),
        column("began", sa.Boolean()),
        column("began_at", sa.Text()),
        *numbers("created", "changed", "unchanged", "renamed", "deleted", "failed"),
        column("errors", sa.JSON()),
        column("message", sa.Text()),
        column("detail", sa.JSON()),
        *numbers("started_at", "updated_at"),
        sa.Column("finished_at", sa.BigInteger()),
    )
    op.create_index(
        "sync_logs_running",
        "sync_logs",
        ["data_source_id"],
        unique=True,
        sqlite_where=RUNS,
        postgresql_where=RUNS,
    )
    op.create_index("sync_logs_source", "sync_logs", ["data_source_id", "id"])
    _items()
    op.add_column("knowledges", sa.Column("data_source_id", sa.String(64)))
    op.create_index("knowledges_data_source", "knowledges", ["data_source_id"])


def _items() -> None:
    op.create_table(
        "source_items",
        column("id", sa.String(64), primary_key=True),
        belongs("data_source_id", "data_sources"),
        column("external_id", sa.Text()),
        column("name", sa.Text()),
        column("version", sa.String(255)),
        column("stamp", sa.Text()),
        column("file_hash", sa.String(64)),
        column("state", sa.String(16)),
        column("generation", sa.BigInteger()),
        column("error", sa.Text()),
        sa.Column("knowledge_id", sa.String(64)),
        column("updated_at", sa.BigInteger()),
    )
    for name, *columns in (
        ("generation", "data_source_id", "generation"),
        ("state", "data_source_id", "state", "id"),
        ("version", "data_source_id", "version"),
        ("hash", "data_source_id", "file_hash"),
        ("document", "knowledge_id"),
    ):
        op.create_index(f"source_items_{name}", "source_items", columns)


def downgrade() -> None:
    op.drop_index("knowledges_data_source", "knowledges")
    op.drop_column("knowledges", "data_source_id")
    op.drop_table("source_items")
    op.drop_table("sync_logs")
    op.drop_table("data_sources")
