"""Tables of the ledger: jobs that wait to be sent, and deaths; and which database this is. Times are milliseconds since the epoch."""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.types import TypeEngine

metadata: Final = MetaData()


def bytewise(length: int) -> TypeEngine[str]:
    """Return a text that is ordered by its bytes, as SQLite does, whatever the order of a PostgreSQL database."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


database_identity: Final = Table(
    "database_identity",
    metadata,
    Column("id", String(32), primary_key=True),  # one row, made by the migration
)

system_settings: Final = Table(
    "system_settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),  # as a person wrote it
    Column("updated_at", BigInteger, nullable=False),
)

outbox: Final = Table(
    "outbox",
    metadata,
    Column("id", String(128), primary_key=True),  # the id of the job
    Column("type", String(64), nullable=False),
    Column("data", Text, nullable=False),  # the payload as JSON
    Column("options", Text, nullable=False),  # JSON: delay in seconds, and the origin of a child
    Column("created_at", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),  # how often the queue refused it
    Index("outbox_order", "attempts", "created_at"),
)

task_dead_letters: Final = Table(
    "task_dead_letters",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("death_id", bytewise(160), nullable=False, unique=True),  # job id : number of the death
    Column("tenant_id", BigInteger, nullable=False),
    Column("task_type", String(64), nullable=False),
    Column("scope", String(32), nullable=False),
    Column("scope_id", String(128), nullable=False),
    Column("related_id", String(128), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("payload", Text, nullable=False),  # as it was, whether JSON or not
    Column("last_error", Text, nullable=False),
    Column("fail_count", Integer, nullable=False),
    Column("queue", String(64), nullable=False, server_default=""),
    Column("options", Text, nullable=False, server_default="{}"),  # of the envelope, as they were
    Column("failed_at", BigInteger, nullable=False),
    Column("replayed_at", BigInteger, nullable=False, server_default="0"),  # 0: not
    Index("task_dead_letters_scope", "scope", "scope_id", "failed_at"),
    Index("task_dead_letters_tenant", "tenant_id", "failed_at"),
    Index("task_dead_letters_type", "task_type", "failed_at"),
    Index("task_dead_letters_age", "failed_at"),
)
