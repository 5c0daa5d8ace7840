"""What an option may be, said once: each check raises TypeError or ValueError that names the option and what is valid."""

import difflib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from contracts.identity import check_name
from contracts.topology import QUEUES

LONGEST_S: Final = 100 * 365 * 86_400
"""No wait is longer: a hundred years still are a time that every store can write down."""
SHORTEST_S: Final = 0.001
"""What is not nothing: times are kept in milliseconds."""
LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""


def check_seconds(value: object, what: str, *, least: float = 0) -> float:
    """Return `value` if it is a number of seconds from `least` to a hundred years."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number of seconds, got {value!r:.80}")
    if not least <= value <= LONGEST_S:  # no comparison holds for nan
        raise ValueError(
            f"{what} must be at least {least:g} seconds and at most 100 years, got {value!r:.80}"
        )
    return value


def check_count(value: object, what: str, *, least: int = 0) -> int:
    """Return `value` if it is a whole number, `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be a whole number, got {value!r:.80}")
    if value < least:
        raise ValueError(f"{what} must be {least} or more, got {value!r:.80}")
    return value


def check_moment(value: object, what: str) -> int:
    """Return `value` if it is a time in whole milliseconds since the epoch, up to the year 9999."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be whole milliseconds since the epoch, got {value!r:.80}")
    if not 0 <= value <= LATEST_MS:
        raise ValueError(
            f"{what} must be milliseconds since the epoch, 0 to the end of the year 9999, got {value!r:.80}"
        )
    return value


def check_choice(value: object, what: str, *, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`; the error names the nearest."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be one of {', '.join(choices)}, got {value!r:.80}")
    if value not in choices:
        near = difflib.get_close_matches(value, choices, n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{what} must be one of {', '.join(choices)}, got {value!r:.80}{hint}")
    return value


def check_kind(value: object, what: str, *, kind: type) -> None:
    """Refuse what is no `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} must be of type {kind.__name__}, got {value!r:.80}")


CHECKS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "type": check_name,
    "queue": partial(check_choice, choices=QUEUES),
    "id": check_name,
    "delay": check_seconds,
    "run_at": check_moment,
    "max_retry": check_count,
    "timeout": partial(check_seconds, least=SHORTEST_S),
    "deadline": check_moment,
    "retention": check_seconds,
    "version": partial(check_count, least=1),
}
"""What the options of a job type and of an enqueue may be, by name."""
