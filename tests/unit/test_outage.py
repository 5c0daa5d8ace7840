"""An outage is said once, however often it is tried again, and so is its end."""

import structlog
from pipeline.outage import Outage


def test_an_outage_is_said_once_and_so_is_its_end() -> None:
    outage = Outage("claiming", component="lite")
    with structlog.testing.capture_logs() as lines:
        outage.over()
        for _ in range(5):
            outage.failed(OSError("away"))
        lasting = [outage.lasting]
        outage.over()
        outage.over()
    assert [*lasting, outage.lasting] == [True, False]
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("claiming failed; trying again until it works", "error"),
        ("claiming works again", "warning"),
    ]
    assert lines[0]["error"] == "OSError: away"
    assert lines[1]["failures"] == 5


def test_each_try_waits_longer_up_to_a_bound() -> None:
    outage = Outage("claiming", first_s=0.1, longest_s=1)
    waits = [outage.failed(OSError()) for _ in range(2000)]
    assert 0.05 <= waits[0] <= 0.1
    assert max(waits) <= 1
    assert min(waits[10:]) >= 0.5


def test_after_an_outage_the_next_one_begins_with_short_waits() -> None:
    outage = Outage("claiming", first_s=0.1, longest_s=10)
    for _ in range(20):
        outage.failed(OSError())
    outage.over()
    assert outage.failed(OSError()) <= 0.1
