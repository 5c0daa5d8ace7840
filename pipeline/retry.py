"""When a failed job tries again: pure."""

import random
from collections.abc import Callable
from typing import Final, TypeAlias

from contracts.options import LONGEST_S

RetryDelay: TypeAlias = Callable[[int], float]
"""From the number of failures so far (1 after the first) to seconds."""


def exponential(failures: int) -> float:
    """Return n⁴ + 15 + jitter seconds for n failures before this one (asynq 0.26)."""
    n = max(failures - 1, 0)
    return min(n**4 + 15 + random.randint(0, 29) * (n + 1), LONGEST_S)  # noqa: S311 - jitter, not a secret


def linear(failures: int) -> float:
    """Return 5 s a failure, at most 30 s: the back-off of Lite."""
    return float(min(5 * max(failures, 1), 30))


def put_off(lasted: float) -> float:
    """Return the wait of a job that found a store away, for so many seconds by now: as long again, at most 30 s."""
    return min(max(lasted, 1.0), 30.0) * random.uniform(0.5, 1)  # noqa: S311 - jitter, not a secret


RETRY_DELAYS: Final[dict[str, RetryDelay]] = {"exponential": exponential, "linear": linear}
