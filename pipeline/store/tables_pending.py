"""The table of operations that wait for the next batch of their lane. Times are milliseconds since the epoch."""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text

from pipeline.store.tables import metadata

task_pending_ops: Final = Table(
    "task_pending_ops",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("tenant_id", BigInteger, nullable=False),
    Column("task_type", String(64), nullable=False),
    Column("scope", String(32), nullable=False),
    Column("scope_id", String(128), nullable=False),
    Column("op", String(32), nullable=False),
    Column("dedup_key", String(128), nullable=False),  # not unique; empty: it belongs with no other
    Column("payload", Text, nullable=False),  # JSON
    Column("fail_count", Integer, nullable=False),
    Column("enqueued_at", BigInteger, nullable=False),
    Column("claimed_at", BigInteger),  # null: free
    Column("claimed_by", String(64), nullable=False),  # empty: free
    Index("task_pending_ops_lane", "task_type", "scope", "scope_id", "fail_count", "id"),
    Index("task_pending_ops_key", "task_type", "scope", "scope_id", "dedup_key"),
    Index("task_pending_ops_tenant", "tenant_id"),
    sqlite_autoincrement=True,  # an id that comes again could be taken for the operation that had it
)
