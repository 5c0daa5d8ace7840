"""Tables of who may do what, and of what they did. Times are milliseconds since the epoch."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from pipeline.store.tables import metadata

api_keys: Final = Table(
    "api_keys",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("prefix", String(16), nullable=False, unique=True),  # the part of a key that is no secret
    Column("digest", String(64), nullable=False),
    Column("capabilities", Text, nullable=False),  # separated by spaces
    Column("tenant_id", BigInteger),  # null: the whole platform
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger, nullable=False),  # 0: valid
)

admins: Final = Table(
    "admins",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(128), nullable=False, unique=True),
    Column("password", Text, nullable=False),  # scrypt, with its salt and cost
    Column("created_at", BigInteger, nullable=False),
)

admin_sessions: Final = Table(
    "admin_sessions",
    metadata,
    Column("digest", String(64), primary_key=True),  # of the cookie
    Column("admin_id", String(64), ForeignKey("admins.id", ondelete="CASCADE"), nullable=False),
    Column("csrf", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("admin_sessions_admin", "admin_id"),
    Index("admin_sessions_expiry", "expires_at"),
)

sign_in_failures: Final = Table(
    "sign_in_failures",
    metadata,
    Column("who", String(160), primary_key=True),  # a name or an address
    Column("failures", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Index("sign_in_failures_since", "since"),
)

audit_logs: Final = Table(
    "audit_logs",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("tenant_id", BigInteger, nullable=False),  # 0: the whole platform
    Column("actor_user_id", String(64), nullable=False),
    Column("actor_role", String(32), nullable=False),
    Column("action", String(64), nullable=False),
    Column("scope_type", String(32), nullable=False),
    Column("scope_id", String(128), nullable=False),
    Column("target_type", String(32), nullable=False),
    Column("target_id", String(128), nullable=False),
    Column("target_user_id", String(64), nullable=False),
    Column("request_path", Text, nullable=False),
    Column("request_method", String(16), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("details", Text, nullable=False),  # a JSON object of texts
    Column("created_at", BigInteger, nullable=False),
    Index("audit_logs_tenant", "tenant_id", "id"),
    Index("audit_logs_actor", "actor_user_id", "id"),
    Index("audit_logs_action", "action", "id"),
    Index("audit_logs_target", "target_type", "target_id"),
)
