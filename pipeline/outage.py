"""An outage is said once when it begins and once when it is over; in between, each try waits longer, up to a bound."""

import random
import time

import structlog

from pipeline.failure import describe


def doubled(times: int, first_s: float, longest_s: float) -> float:
    """Return the wait after `times` vain tries: `first_s`, doubled by each further one, at most `longest_s`."""
    return min(first_s * 2.0 ** min(times - 1, 30), longest_s)


class Outage:
    """Whether something works, and how long to wait before the next try. `what` names it in the log."""

    def __init__(
        self, what: str, *, component: str = "worker", first_s: float = 0.05, longest_s: float = 2.0
    ) -> None:
        self._what, self._component = what, component
        self._first_s, self._longest_s = first_s, longest_s
        self._failures = 0
        self._since = 0.0

    @property
    def lasting(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def failed(self, error: BaseException) -> float:
        """Note a failure; return the seconds to wait, jittered so that many do not come back at once."""
        if not self._failures:
            self._since = time.monotonic()
            self._log().error(f"{self._what} failed; trying again until it works", error=describe(error))
        self._failures += 1
        wait = doubled(self._failures, self._first_s, self._longest_s)
        return wait * random.uniform(0.5, 1)  # noqa: S311 - jitter, not a secret

    def over(self) -> None:
        """Note that it works."""
        if self._failures:
            lasted = round(time.monotonic() - self._since, 1)
            self._log().warning(f"{self._what} works again", failures=self._failures, seconds=lasted)
            self._failures = 0

    def _log(self) -> structlog.typing.FilteringBoundLogger:
        log: structlog.typing.FilteringBoundLogger = structlog.get_logger(component=self._component)
        return log
