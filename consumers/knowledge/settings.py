"""What a knowledge base wants done with its documents."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator


class WikiLimits(BaseModel):
    """How a wiki is written (facts 6.1). Nothing, and what is below 1, means the default."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ingest_batch_size: int = 5
    """Documents of one batch."""
    ingest_map_parallel: int = 10
    """Documents of a batch that are read at once."""
    ingest_reduce_parallel: int = 10
    """Pages of a batch that are written at once."""
    ingest_max_inflight: int = 4
    """Batches of a base that are worked on at once."""

    @field_validator("*", mode="before")
    @classmethod
    def _default(cls, value: Any, info: ValidationInfo) -> Any:
        unset = value is None or (isinstance(value, int) and value < 1)
        return cls.model_fields[info.field_name or ""].default if unset else value


class KnowledgeBaseSettings(BaseModel):
    """Stored with the base as JSON. A stage that is switched off opens no slots."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    read_pictures: bool = True
    ask_questions: bool = True
    question_count: int = Field(3, ge=1, le=10)
    extract_graph: bool = True
    auto_tag: bool = False
    wiki: bool = False
    """Whether pages are written about what the documents say; each document waits for its own."""
    wiki_limits: WikiLimits = WikiLimits()
