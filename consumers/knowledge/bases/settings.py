"""What a knowledge base wants done with its documents."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from pipeline.errors import ConfigurationError


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


class Profile(BaseModel):
    """Whether a base describes itself from the profiles of its documents, and what whoever writes that is told."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    enabled: bool = False
    custom_instructions: str = Field("", max_length=2_000)


class Models(BaseModel):
    """Models that a base uses in the place of those of the service; None: as the service does."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    chat: str | None = Field(None, min_length=1, max_length=255)
    vision: str | None = Field(None, min_length=1, max_length=255)


class KnowledgeBaseSettings(BaseModel):
    """Stored with the base as JSON. A stage that is switched off opens no slots."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    read_pictures: bool = True
    caption_pictures: bool = True
    """Whether pictures that are read are described, too, where a vision model is there."""
    ask_questions: bool = True
    question_count: int = Field(3, ge=1, le=10)
    extract_graph: bool = True
    auto_tag: bool = False
    wiki: bool = False
    """Whether pages are written about what the documents say; each document waits for its own."""
    wiki_limits: WikiLimits = WikiLimits()
    profile: Profile = Profile()
    models: Models = Models()


PARTS: Final[Mapping[str, type[BaseModel]]] = {
    name: kind
    for name, field in KnowledgeBaseSettings.model_fields.items()
    if isinstance(kind := field.annotation, type) and issubclass(kind, BaseModel)
}
"""Settings that have settings of their own."""


def checked(changes: Mapping[str, Any], stored: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return those settings that change, as they are to be stored; what has settings of its own is merged with what is `stored`
    of it. Raises ConfigurationError: an unknown name, with the nearest known one, or a value that cannot be used.
    """
    merged: dict[str, Any] = {}
    for name, value in changes.items():
        _known(name, KnowledgeBaseSettings)
        merged[name] = value
        if (part := PARTS.get(name)) and isinstance(value, Mapping):
            for inner in value:
                _known(inner, part, f"{name}.")
            merged[name] = {**((stored or {}).get(name) or {}), **value}
    try:
        settings = KnowledgeBaseSettings.model_validate(merged, strict=True)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigurationError(f"cannot use these settings: {said}") from None
    return settings.model_dump(include=set(changes), mode="json")


def _known(name: str, model: type[BaseModel], above: str = "") -> None:
    if name in model.model_fields:
        return
    near = difflib.get_close_matches(name, model.model_fields, n=1)
    hint = f"did you mean {above}{near[0]}?" if near else f"there are {', '.join(model.model_fields)}"
    raise ConfigurationError(f"unknown setting {above}{name[:100]!r}; {hint}")
