"""Tables of memory: what a person said, what is remembered of it, and how far it was read."""

from typing import Any

from sqlalchemy import ForeignKeyConstraint, Index, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Row, words
from contracts.memory import MemoryKind, TurnRole

Subject = String(128)


class MemoryWishes(Row):
    """What a tenant wants of memory, as JSON; one without a row wants none."""

    __tablename__ = "memory_settings"

    tenant_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    settings: Mapped[dict[str, Any]]
    updated_at: Mapped[int]


class MemorySubject(Row):
    """A person, by whatever name the tenant has for them. Whoever writes anything of theirs locks this row.

    `last_position` numbers what they and their assistants said, `extract_cursor` is the last of it that was read.
    `extract_job` holds the one slot for reading; `extract_scheduled_at` is when it is due, or when it last moved.
    """

    __tablename__ = "memory_subjects"

    tenant_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    subject_id: Mapped[str] = mapped_column(Subject, primary_key=True)
    enabled: Mapped[bool]
    block_text: Mapped[str]
    last_position: Mapped[int]
    extract_cursor: Mapped[int]
    pending_sessions: Mapped[list[str]]
    extract_job: Mapped[str] = mapped_column(Subject)
    extract_scheduled_at: Mapped[int | None]
    last_extracted_at: Mapped[int | None]
    created_at: Mapped[int]
    updated_at: Mapped[int]


def _of_subject() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["tenant_id", "subject_id"],
        ["memory_subjects.tenant_id", "memory_subjects.subject_id"],
        ondelete="CASCADE",
    )


class MemoryItem(Row):
    """One remembered thing. A deleted one has no words left; its vector keeps it from being read again.

    `session_id` and `message_id` say where it was said; empty: somebody added it.
    """

    __tablename__ = "memory_items"
    __table_args__ = (
        _of_subject(),
        Index("memory_items_subject", "tenant_id", "subject_id", "updated_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[int]
    subject_id: Mapped[str] = mapped_column(Subject)
    kind: Mapped[MemoryKind] = mapped_column(words(MemoryKind))
    topic: Mapped[str] = mapped_column(String(64))
    text: Mapped[str]
    session_id: Mapped[str] = mapped_column(Subject)
    message_id: Mapped[str] = mapped_column(Subject)
    method: Mapped[str] = mapped_column(String(32))
    vector: Mapped[bytes] = mapped_column(LargeBinary())
    model: Mapped[str] = mapped_column(String(255))
    created_at: Mapped[int]
    updated_at: Mapped[int]
    deleted_at: Mapped[int | None]


class SessionMessage(Row):
    """A message of a session between a person and an assistant."""

    __tablename__ = "session_messages"
    __table_args__ = (
        _of_subject(),
        UniqueConstraint("tenant_id", "subject_id", "position", name="session_messages_position"),
    )

    tenant_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    session_id: Mapped[str] = mapped_column(Subject, primary_key=True)
    id: Mapped[str] = mapped_column(Subject, primary_key=True)
    subject_id: Mapped[str] = mapped_column(Subject)
    role: Mapped[TurnRole] = mapped_column(words(TurnRole))
    content: Mapped[str]
    position: Mapped[int]
    created_at: Mapped[int]
