"""When a failed job tries again."""

import pytest
from pipeline.retry import RETRY_DELAYS, exponential, linear


@pytest.mark.parametrize(
    ("failures", "least", "most"), [(1, 15, 44), (2, 16, 74), (3, 31, 118), (4, 96, 212), (5, 271, 416)]
)
def test_the_exponential_wait_grows_with_the_fourth_power_and_is_spread(
    failures: int, least: int, most: int
) -> None:
    waits = {exponential(failures) for _ in range(2000)}
    assert (min(waits), max(waits)) == (least, most)
    assert len(waits) == 30


def test_the_linear_wait_is_five_seconds_a_failure_and_at_most_thirty() -> None:
    assert [linear(n) for n in (0, 1, 2, 6, 7, 1000)] == [5, 5, 10, 30, 30, 30]


@pytest.mark.parametrize("delay", RETRY_DELAYS.values())
def test_no_number_of_failures_is_too_large(delay: object) -> None:
    assert callable(delay)
    assert delay(10**6) >= 15
