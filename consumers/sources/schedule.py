"""When a schedule is due: five fields of cron, in a time zone.

What the clock skips and repeats twice a year (daylight saving time):

- a time that does not exist (02:30 in the night that the clock goes forward) is due once, at the first instant that does;
- a time that exists twice (02:30 in the night that it goes back) is due once, the first time;
- what is due every hour or every few minutes (a `*` or a step in the field of minutes or hours) is due as time passes: it
  is left out of the hour that does not exist, and comes in both of the hours that are called alike.

A schedule that was missed, because nothing ran, is made up for once, however often it was missed.
"""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from pipeline.errors import ConfigurationError

SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Schedule:
    """One schedule. Raises ConfigurationError when it cannot be read, or never comes."""

    def __init__(self, cron: str, timezone: str = "UTC") -> None:
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigurationError(
                f"no time zone is called {timezone[:64]!r}: write one like Europe/Berlin"
            ) from None
        self._cron = SHORTHANDS.get(cron.strip().lower(), cron.strip())
        self.after(0)

    def after(self, moment: int) -> int:
        """Return when it is due next after a moment; both in milliseconds since the epoch. Raises ConfigurationError."""
        from_there = datetime.fromtimestamp(moment / 1000, UTC).astimezone(self._zone)
        try:
            if len(self._cron.split()) != 5:  # six would begin with seconds
                raise StopIteration
            due = next(CronSim(self._cron, from_there))
        except (CronSimError, StopIteration):
            raise ConfigurationError(
                f"{self._cron[:128]!r} is no schedule: write minute, hour, day, month and weekday, as in"
                " '30 2 * * *', or @hourly, @daily, @weekly, @monthly, @yearly"
            ) from None
        return round(due.timestamp() * 1000)
