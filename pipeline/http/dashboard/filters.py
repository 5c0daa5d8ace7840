"""What a person narrows a list to, as it stands in an address or a form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contracts.jobs import Scope
from pipeline.errors import CursorInvalid
from pipeline.records import TaskFilter

LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Filters:
    """As it was typed. `problem` is the code of what is wrong with it; it then matches nothing."""

    type: str = ""
    tenant: str = ""
    scope: str = ""
    error: str = ""

    @classmethod
    def read(cls, said: Mapping[str, object]) -> "Filters":
        """Return the filters of a query or form."""
        return cls(**{name: str(said.get(name) or "").strip()[:300] for name in cls.__slots__})

    @property
    def any(self) -> bool:
        """Whether the list is narrowed at all."""
        return bool(self.type or self.tenant or self.scope or self.error)

    @property
    def shown(self) -> dict[str, str]:
        """Return each by its name."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def problem(self) -> str:
        """Return the code of what is wrong, if anything."""
        if self.tenant and not self.tenant.isdecimal():
            return "bad_tenant"
        if self.tenant and self.scope:
            return "one_scope"
        try:
            self.match  # noqa: B018 - it raises where there is no such scope
        except ValueError:
            return "bad_scope"
        return ""

    @property
    def match(self) -> TaskFilter:
        """Return what the inspector understands. Raises ValueError for a scope that cannot be."""
        scope = None
        if self.tenant:
            scope = Scope("tenant", self.tenant)
        elif self.scope:
            kind, _, ident = self.scope.partition(":")
            scope = Scope(kind, ident)
        return TaskFilter(type=self.type, scope=scope, error=self.error)


def number(text: str) -> int | None:
    """Return a number as a database can hold it: a larger one is nobody's. None for what is none."""
    return min(int(text), LARGEST) if text.isdecimal() else None


def before_of(cursor: str) -> int | None:
    """Return the id of a row that the page before ended with; None for the first page. Raises CursorInvalid."""
    if not cursor:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < len(str(LARGEST))):
        raise CursorInvalid("this is not a page cursor; start from the first page")
    return int(cursor)
