"""What an option may be, and what is said of one that may not."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
from contracts.options import LATEST_MS, LONGEST_S, check_choice, check_count, check_moment, check_seconds


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (check_seconds, 0),
        (check_seconds, 0.5),
        (check_seconds, LONGEST_S),
        (check_count, 0),
        (check_count, 10**9),
        (check_moment, 0),
        (check_moment, LATEST_MS),
    ],
)
def test_what_may_be_comes_back_as_it_was(check: Callable[..., Any], value: float) -> None:
    assert check(value, "it") == value
    assert check_choice("done", "until", choices=["done", "ttl"]) == "done"


@pytest.mark.parametrize("value", [inf, -inf, nan, -1, -0.001, LONGEST_S + 1, 10**400])
def test_seconds_are_finite_and_not_before_now(value: float) -> None:
    with pytest.raises(ValueError, match=r"^delay must be at least 0 seconds and at most 100 years, got"):
        check_seconds(value, "delay")


@pytest.mark.parametrize("check", [check_seconds, check_count, check_moment])
@pytest.mark.parametrize("value", ["1", None, True, [1], b"1", 1j])
def test_what_is_no_number_is_the_wrong_type(check: Callable[..., Any], value: object) -> None:
    with pytest.raises(TypeError, match=r"^it must be (a number|a whole number|whole milliseconds)"):
        check(value, "it")


@pytest.mark.parametrize("check", [check_count, check_moment])
def test_a_whole_number_has_no_fraction(check: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"^it must be .*whole.*, got 1\.0$"):
        check(1.0, "it")


def test_a_count_and_a_moment_have_their_least() -> None:
    with pytest.raises(ValueError, match=r"^page_size must be 1 or more, got 0$"):
        check_count(0, "page_size", least=1)
    for value in (-1, LATEST_MS + 1):
        with pytest.raises(ValueError, match=r"^run_at must be milliseconds since the epoch, 0 to the end"):
            check_moment(value, "run_at")


def test_a_choice_that_does_not_exist_is_answered_with_the_nearest() -> None:
    choices = ["done", "started", "ttl"]
    with pytest.raises(
        ValueError, match=r"^until must be one of done, started, ttl, got 'don'; did you mean 'done'\?$"
    ):
        check_choice("don", "until", choices=choices)
    with pytest.raises(ValueError, match=r"got 'xyz'$"):
        check_choice("xyz", "until", choices=choices)
    with pytest.raises(TypeError, match=r"got \['done'\]$"):
        check_choice(["done"], "until", choices=choices)
