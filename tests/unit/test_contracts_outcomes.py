import pickle
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest
from contracts.outcomes import MIN_SNOOZE_S, Cancel, Done, Outcome, Retry, Skip, Snooze


def test_the_outcomes_are_a_closed_set() -> None:
    assert set(Outcome.__subclasses__()) == {Done, Retry, Snooze, Cancel, Skip}


@pytest.mark.parametrize(
    "outcome", [Done(), Retry(), Retry(after=0), Snooze(MIN_SNOOZE_S), Cancel("no"), Skip("no")], ids=repr
)
def test_each_may_be_raised_as_well_as_returned(outcome: Outcome) -> None:
    with pytest.raises(type(outcome)):
        raise outcome


@pytest.mark.parametrize(
    "outcome",
    [Done(), Retry(), Retry(5, "busy"), Snooze(3), Snooze(3, "early"), Cancel("no"), Skip("no")],
    ids=str,
)
def test_each_comes_back_from_another_process_as_it_was(outcome: Outcome) -> None:
    back = pickle.loads(pickle.dumps(outcome))
    assert (type(back), vars(back), str(back)) == (type(outcome), vars(outcome), str(outcome))


def test_a_retry_without_a_time_leaves_it_to_the_policy() -> None:
    assert Retry().after is None
    assert Retry(after=3, reason="busy").after == 3
    assert str(Retry(after=3, reason="busy")) == "busy"


@pytest.mark.parametrize("after", [-1, inf, -inf, nan, 1e300])
def test_a_retry_in_the_past_or_never_is_refused(after: float) -> None:
    with pytest.raises(ValueError, match=r"Retry\(after\) must be at least 0 seconds and at most 100 years"):
        Retry(after=after)


@pytest.mark.parametrize("delay", [0, 0.099, -5, inf, nan, 1e300])
def test_a_snooze_shorter_than_a_tenth_of_a_second_or_for_ever_is_refused(delay: float) -> None:
    with pytest.raises(
        ValueError, match=r"Snooze\(delay\) must be at least 0\.1 seconds and at most 100 years"
    ):
        Snooze(delay)


@pytest.mark.parametrize("wait", ["5", timedelta(seconds=5), True])
def test_a_wait_is_a_number_of_seconds(wait: Any) -> None:
    with pytest.raises(TypeError, match=r"Retry\(after\) must be a number of seconds"):
        Retry(after=wait)
    with pytest.raises(TypeError, match=r"Snooze\(delay\) must be a number of seconds"):
        Snooze(wait)


def test_a_cancel_and_a_skip_carry_their_reason() -> None:
    assert (Cancel("superseded").reason, Skip("encrypted").reason) == ("superseded", "encrypted")
