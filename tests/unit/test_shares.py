"""Slots are shared by weight, and nobody starves."""

from collections import Counter

import pytest
from contracts.topology import POOLS, weights
from hypothesis import given
from hypothesis import strategies as st
from pipeline.worker.shares import Shares

WEIGHTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=1)


@given(WEIGHTS, st.integers(1, 5))
def test_over_whole_rounds_every_queue_gets_exactly_its_weight(shares: dict[str, int], rounds: int) -> None:
    dealer, got = Shares(shares), Counter[str]()
    for _ in range(rounds * sum(shares.values())):
        got.update(dealer.deal(1))
    assert got == {queue: rounds * weight for queue, weight in shares.items()}


@given(WEIGHTS, st.lists(st.integers(0, 20), max_size=20))
def test_how_the_slots_come_free_changes_nothing(shares: dict[str, int], batches: list[int]) -> None:
    at_once, one_by_one = Counter[str](), Counter[str]()
    dealer, other = Shares(shares), Shares(shares)
    for batch in batches:
        at_once.update(dealer.deal(batch))
        for _ in range(batch):
            one_by_one.update(other.deal(1))
    assert at_once == one_by_one


@given(WEIGHTS, st.integers(0, 50))
def test_exactly_the_free_slots_are_dealt(shares: dict[str, int], slots: int) -> None:
    dealt = Shares(shares).deal(slots)
    assert sum(dealt.values()) == slots
    assert all(dealt.values())


def test_one_draw_does_not_fill_a_pool() -> None:
    assert Shares({"default": 1, "chat_attachment": 3}).deal(8) == {"chat_attachment": 6, "default": 2}


def test_what_one_queue_cannot_use_is_dealt_among_the_others_only() -> None:
    dealt = Shares({"a": 5, "b": 2, "c": 1}).deal(6, among={"b", "c"})
    assert dealt == {"b": 4, "c": 2}


def test_nothing_is_dealt_when_every_queue_is_empty() -> None:
    assert Shares({"a": 1, "b": 1}).deal(3, among=set()) == {}


@given(WEIGHTS, st.data())
def test_a_queue_with_work_is_never_kept_waiting_longer_than_a_round(
    shares: dict[str, int], data: st.DataObject
) -> None:
    """One slot after another comes free; other queues have work or not, as it happens."""
    dealer, patient = Shares(shares), data.draw(st.sampled_from(sorted(shares)))
    waited, bound = 0, 2 * sum(shares.values())
    for _ in range(4 * bound):
        empty = data.draw(st.sets(st.sampled_from(sorted(shares))))
        (first,) = dealer.deal(1)
        if first in empty and first != patient:
            with_work = set(shares) - (empty - {patient})
            (first,) = dealer.deal(1, with_work)
        waited = 0 if first == patient else waited + 1
        assert waited <= bound


@pytest.mark.parametrize("pool", POOLS)
def test_every_pool_of_the_topology_can_be_dealt(pool: str) -> None:
    assert Shares(weights(pool)).deal(POOLS[pool].slots)


@pytest.mark.parametrize("wrong", [{}, {"a": 0}])
def test_weights_that_would_starve_a_queue_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="weight of at least 1"):
        Shares(wrong)
