"""When a schedule is due, in the nights that the clock is changed above all."""

from datetime import UTC, datetime

import pytest
from consumers.sources.schedule import Schedule
from pipeline.errors import ConfigurationError


def due(cron: str, zone: str, start: str, count: int) -> list[str]:
    """The next moments from a moment on, in UTC."""
    schedule, at, found = Schedule(cron, zone), round(datetime.fromisoformat(start).timestamp() * 1000), []
    for _ in range(count):
        at = schedule.after(at)
        found.append(datetime.fromtimestamp(at / 1000, UTC).strftime("%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        # 02:00 → 03:00: half past two does not exist, and 03:00 is 01:00 UTC
        ("Europe/Berlin", "2026-03-28T12:00+00:00", ["29 01:00", "30 00:30"]),
        # 03:00 → 02:00: half past two comes twice, the first time at 00:30 UTC
        ("Europe/Berlin", "2026-10-24T12:00+00:00", ["25 00:30", "26 01:30"]),
        ("America/New_York", "2026-03-07T12:00+00:00", ["08 07:00", "09 06:30"]),
        ("America/New_York", "2026-10-31T12:00+00:00", ["01 07:30", "02 07:30"]),
        # Lord Howe moves by half an hour: 02:00 → 02:30, so half past two exists
        ("Australia/Lord_Howe", "2026-10-03T12:00+00:00", ["03 15:30", "04 15:30"]),
        ("UTC", "2026-03-28T12:00+00:00", ["29 02:30", "30 02:30"]),
    ],
)
def test_half_past_two_comes_once_a_night_whatever_the_clock_does(zone, start, expected):
    assert due("30 2 * * *", zone, start, 2) == expected


def test_midnight_that_does_not_exist_comes_at_the_first_instant_of_the_day():
    # Sao Paulo, 2018: 00:00 → 01:00, which is 03:00 UTC
    assert due("@daily", "America/Sao_Paulo", "2018-11-03T12:00+00:00", 2) == ["04 03:00", "05 02:00"]


@pytest.mark.parametrize(("start", "count"), [("2026-03-28T23:00+00:00", 23), ("2026-10-24T22:00+00:00", 25)])
def test_what_is_due_each_hour_comes_as_often_as_the_day_has_hours(start, count):
    found = due("0 * * * *", "Europe/Berlin", start, count)
    assert len(set(found)) == count
    assert found[-1].endswith("22:00" if count == 23 else "23:00")


def test_what_is_due_every_quarter_comes_in_both_of_two_hours_of_one_name():
    assert due("*/15 2 * * *", "Europe/Berlin", "2026-10-24T22:00+00:00", 9) == [
        *("25 00:00", "25 00:15", "25 00:30", "25 00:45"),
        *("25 01:00", "25 01:15", "25 01:30", "25 01:45"),
        "26 01:00",
    ]


@pytest.mark.parametrize(
    "cron", ["", "x", "* * * *", "61 * * * *", "0 0 30 2 *", "* * * * * *", "0 0 * * 8", "@reboot", "0" * 500]
)
def test_what_cannot_be_read_or_never_comes_is_refused(cron):
    with pytest.raises(ConfigurationError, match="is no schedule"):
        Schedule(cron)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../../etc/passwd", "Europe", "x\0"])
def test_a_time_zone_that_does_not_exist_is_refused(zone):
    with pytest.raises(ConfigurationError, match="no time zone"):
        Schedule("@daily", zone)
