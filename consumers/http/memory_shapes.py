"""What is said and asked of memory over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from consumers.http.callers import printable
from consumers.knowledge.memory.remembering import LONGEST
from consumers.knowledge.memory.settings import MemorySettings
from consumers.knowledge.memory.storing import SHOWN
from contracts.memory import MemoryKind, WriteMode


def written(text: str) -> str:
    """Return a text in one line. Raises ValueError where there is none."""
    said = " ".join(printable(text).split())
    if not said:
        raise ValueError("write what is to be remembered")
    return said


Text = Annotated[str, Field(min_length=1, max_length=2 * LONGEST), AfterValidator(written)]
Topic = Annotated[str, Field(max_length=64), AfterValidator(printable)]


class Wanted(MemorySettings):
    """What a tenant wants of memory. Times are in seconds."""


class Wishes(BaseModel):
    """What is to change of it; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool | None = None
    write_mode: WriteMode | None = None
    delay_s: Annotated[int, Field(ge=5, le=3_600)] | None = None
    min_interval_s: Annotated[int, Field(ge=0, le=86_400)] | None = None
    items: Annotated[int, Field(ge=1, le=2_000)] | None = None


class Person(BaseModel):
    """A person, and how much is remembered of them. Times are milliseconds since the epoch."""

    subject_id: str
    enabled: bool
    items: int
    last_extracted_at: int | None = None
    extract_scheduled_at: int | None = None
    created_at: int
    updated_at: int


class PersonDetail(Person):
    """A person with the topics of which most is remembered, and the lines that say who they are."""

    topics: Mapping[str, int]
    block: str


class Persons(BaseModel):
    """People of a tenant by name."""

    subjects: Sequence[Person]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class Switch(BaseModel):
    """Whether a person is remembered."""

    model_config = ConfigDict(extra="forbid")

    enabled: bool


class NewItem(BaseModel):
    """Something to remember."""

    model_config = ConfigDict(extra="forbid")

    text: Text
    kind: MemoryKind = MemoryKind.FACT
    topic: Topic = "note"


class ItemChange(BaseModel):
    """What is to change of a remembered thing; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    text: Text | None = None
    kind: MemoryKind | None = None
    topic: Topic | None = None


class Item(BaseModel):
    """A remembered thing. Where it was read, `session_id` and `message_id` say where it was said."""

    id: str
    kind: MemoryKind
    topic: str
    text: str
    method: str
    session_id: str | None = None
    message_id: str | None = None
    created_at: int
    updated_at: int


class Items(BaseModel):
    """Some of what is remembered of a person, as it was learned."""

    items: Sequence[Item]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class Recall(BaseModel):
    """What memory is asked about."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(printable)]
    limit: Annotated[int, Field(ge=1, le=SHOWN)] = SHOWN


class RecalledItem(Item):
    """A remembered thing that was recalled. The better it fits, the higher its score, 0 to 1."""

    score: float


class Recalled(BaseModel):
    """What was recalled, the best first; nothing where memory is switched off."""

    items: Sequence[RecalledItem]


class Forgotten(BaseModel):
    """How much was forgotten."""

    forgotten: int
