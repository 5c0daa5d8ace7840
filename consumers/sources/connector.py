"""What a kind of source has to be able to do: say what changed, fetch it, and say how it is.

A kind is added in ten lines: see docs/sources.md. What it says of its content is trusted in nothing but its words: the
harvester limits, hashes and compares what it is given.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline import Settings
from pipeline.errors import ConfigurationError, StreamlaneError

PAGE: Final = 100
"""Items of a page: what is registered in one transaction."""

C = TypeVar("C", bound=BaseModel)


class SourceError(StreamlaneError):
    """A source, or one thing in it, that cannot be read now; the message says why, and what to do."""


class Deed(StrEnum):
    """What happened to an item."""

    UPSERT = "upsert"
    DELETE = "delete"
    RENAME = "rename"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing of a source. `id` is what the source calls it for good, `name` the file name whose extension tells its type.

    `version` differs whenever its content does; "" says that only a fetch tells. A renamed one `was` called otherwise.
    """

    id: str
    name: str = ""
    version: str = ""
    deed: Deed = Deed.UPSERT
    was: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Some items, and the cursor behind them. A page that `begins` is the first of a listing of everything, one that
    `ends` its last: what the listing did not name is gone from the source. News of single changes are neither.
    """

    items: list[Item]
    cursor: str
    begins: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """What was fetched into the file. `stamp` is given back at the next fetch of this item (an ETag, say); an `unchanged`
    one was not fetched again. `name` and `version`, where given, win over those of the listing.
    """

    stamp: str = ""
    unchanged: bool = False
    name: str = ""
    version: str = ""


class Connector(Protocol):
    """One opened source."""

    def changes(self, cursor: str) -> AsyncIterator[Page]:
        """Yield what is new since a cursor, "" being the beginning. Pages are bounded; a cursor is text of one's own.

        Raises SourceError, OutboundError: the run fails and goes on from the last page.
        """

    async def fetch(self, item: Item, into: Path, stamp: str) -> Content:
        """Write the content of an item into a file. Raises SourceError, OutboundError, OSError: this item fails alone."""

    async def health(self) -> str:
        """Return a sentence on a source that can be reached and read. Raises SourceError, OutboundError if it cannot."""


Recall = Callable[[str], Awaitable[str]]
"""Gives the stamp of an item as it was at its last fetch, "" where there was none."""


async def _nothing(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an opened source may use: the settings, a folder that goes when it is closed, the time (ms), and what was stamped
    before.
    """

    settings: Settings
    folder: Path
    now: Callable[[], int]
    recall: Recall = field(default=_nothing)


class Config(BaseModel):
    """What a person says of a source of this kind; each field is checked when the source is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NoCredentials(Config):
    """A kind that asks for none."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[C]):
    """A kind of source. `connect` opens one; it is given the config, the credentials and the surroundings. `admit` raises
    SourceError or OutboundError for a config that the platform does not let be.
    """

    name: str
    about: str
    config: type[C]
    connect: Callable[[C, Any, Surroundings], AbstractAsyncContextManager[Connector]]
    credentials: type[BaseModel] = NoCredentials
    admit: Callable[[C, Settings], None] | None = None

    def checked(
        self, config: Mapping[str, Any], credentials: Mapping[str, Any], settings: Settings
    ) -> tuple[C, BaseModel]:
        """Return both as this kind reads them, if the platform lets such a source be. Raises ConfigurationError, which
        repeats no secret.
        """
        try:
            found = self.config.model_validate(dict(config))
            if self.admit is not None:
                self.admit(found, settings)
            return found, self.credentials.model_validate(dict(credentials))
        except StreamlaneError as error:
            raise ConfigurationError(f"no {self.name} source can be made of this: {error}") from None
        except ValidationError as error:
            said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ConfigurationError(f"no {self.name} source can be made of this: {said}") from None


def listing(items: Iterable[Item], cursor: str, *, size: int = PAGE) -> Iterator[Page]:
    """Yield a listing of everything in pages. The items come sorted by id, so that it goes on behind the last one seen."""
    some: list[Item] = []
    last, begins = cursor, not cursor
    for item in items:
        if item.id <= cursor:
            continue
        if len(some) == size:
            yield Page(some, last, begins=begins)
            some, begins = [], False
        some.append(item)
        last = item.id
    yield Page(some, "", begins=begins, ends=True)
