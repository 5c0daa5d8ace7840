"""What the terminal says of jobs, in the words of the dashboard."""

from typing import Final

from contracts.jobs import Scope
from pipeline.clock import now_ms
from pipeline.errors import ConfigurationError
from pipeline.http.dashboard.filters import Filters
from pipeline.http.dashboard.texts import LANGUAGES
from pipeline.http.dashboard.views import Notice
from pipeline.reasons import Reason
from pipeline.records import JobRecord

SAYS: Final = LANGUAGES["en"]


def plain(text: str) -> str:
    """Return a text without the spaces that keep a browser from breaking a line."""
    return text.replace("\u00a0", " ")


def age(milliseconds: int) -> str:
    """Return a length of time; nothing for none."""
    return plain(SAYS.age(milliseconds)) if milliseconds >= 1000 else ""


def why(reason: Reason) -> str:
    """Return a reason as a sentence."""
    return plain(SAYS.sentence(f"why.{reason.code}", reason.params, now_ms()))


def notice(found: Notice) -> str:
    """Return as a sentence what needs somebody."""
    return plain(SAYS.sentence(f"notice.{found.code}", found.about, now_ms()))


def fate(record: JobRecord) -> str:
    """Return why a job was given up, and what to do about it; nothing of one that was not."""
    if record.reason is None:
        return ""
    return plain(
        " ".join(SAYS.code_of(group, record.reason.value) for group in ("reason.about", "reason.do"))
    )


def checked(filters: Filters) -> Filters:
    """Return filters that can be. Raises ConfigurationError."""
    if filters.problem:
        raise ConfigurationError(plain(SAYS(f"filter.{filters.problem}")))
    return filters


def scope_alone(filters: Filters) -> Scope | None:
    """Return the scope, if it is all that is named."""
    alone = filters.scope and not (filters.type or filters.error)
    return filters.match.scope if alone else None
