"""The table of what knowledge bases are about."""

from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Row, words


class ProfileStatus(StrEnum):
    """What there is of a profile."""

    READY = "ready"
    EMPTY = "empty"
    """The base has no documents."""
    FAILED = "failed"
    """It could not be written; what it said before is kept."""


class StoredProfile(Row):
    """What a base is about. `aggregate_hash` stands for all that it was made of."""

    __tablename__ = "knowledge_base_profiles"

    knowledge_base_id: Mapped[str] = mapped_column(
        String(64), ForeignKey("knowledge_bases.id", ondelete="CASCADE"), primary_key=True
    )
    status: Mapped[ProfileStatus] = mapped_column(words(ProfileStatus))
    gist: Mapped[str]
    topics: Mapped[list[str]]
    typical_questions: Mapped[list[str]]
    stats: Mapped[dict[str, Any]]
    aggregate_hash: Mapped[str] = mapped_column(String(64))
    error: Mapped[str]
    model_id: Mapped[str] = mapped_column(String(255))
    method: Mapped[str] = mapped_column(String(32))
    generated_at: Mapped[int | None]
    updated_at: Mapped[int]
