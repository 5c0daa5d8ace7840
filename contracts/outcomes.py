"""What a handler may say about an attempt: a closed set.

Each outcome may be returned or raised. Returning nothing means `Done`; any other exception is a
failure and follows the retry policy, but that a store is away: such an attempt is not counted, for an hour.
"""

from typing import Final

from contracts.options import check_seconds


class Outcome(Exception):  # noqa: N818 - said by a handler, not an error
    """Said by a handler instead of a plain return. What it was made of is in `args`, so that it can be sent to another
    process; its text is the reason.
    """

    reason = ""

    def __str__(self) -> str:
        return self.reason


class Done(Outcome):
    """The work is done."""


class Retry(Outcome):
    """The attempt failed; try again after `after` seconds, or by the retry policy. Counts as a failure.

    Raises TypeError, ValueError for an `after` that is no wait: negative, infinite, not a number.
    """

    def __init__(self, after: float | None = None, reason: str = "retry asked for by the handler") -> None:
        if after is not None:
            check_seconds(after, "Retry(after)")
        super().__init__(after, reason)
        self.after = after
        self.reason = reason


MIN_SNOOZE_S: Final = 0.1


class Snooze(Outcome):
    """Not yet: run again after `delay` seconds (at least 0.1). The attempt is not counted.

    Raises TypeError, ValueError for a `delay` that is no wait: shorter, infinite, not a number.
    """

    def __init__(self, delay: float, reason: str = "") -> None:
        check_seconds(delay, "Snooze(delay)", least=MIN_SNOOZE_S)
        super().__init__(delay, reason)
        self.delay = delay
        self.reason = reason or f"snoozed for {delay:g} s"


class Cancel(Outcome):
    """Stop for good; the job ends `cancelled`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Skip(Outcome):
    """Trying again is pointless: archive now, with this reason. The final-failure hook does not run."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
