"""The decisions of the periodic duties."""

from collections.abc import Sequence
from typing import Any

import pytest
from contracts.states import JobState
from hypothesis import given
from hypothesis import strategies as st
from pipeline.broker import Promoted, Pruned, Reclaimed, ReclaimPolicy, Retention
from pipeline.clock import DAY_MS
from pipeline.config import load
from pipeline.errors import StoreUnavailable
from pipeline.services.promoter import BATCH, LONGEST_S, Promoter, pause_s
from pipeline.services.pruner import Pruner
from pipeline.services.reclaimer import Reclaimer


@given(st.integers(0, 10**13))
def test_the_promoter_comes_just_after_the_next_due_time_and_never_sleeps_long(due_in_ms: int) -> None:
    pause = pause_s(due_in_ms)
    assert 0 < pause <= LONGEST_S
    assert pause * 1000 > due_in_ms or pause == LONGEST_S


def test_with_nothing_due_the_promoter_sleeps_as_long_as_it_may() -> None:
    assert pause_s(None) == LONGEST_S


class Store:
    """Answers what it is told, and remembers what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def promote(self, limit: int) -> Promoted:
        self.asked.append(limit)
        return self.answer  # type: ignore[no-any-return]

    async def reclaim(self, policy: ReclaimPolicy) -> Sequence[Reclaimed]:
        self.asked.append(policy)
        return self.answer  # type: ignore[no-any-return]

    async def prune(self, retention: Retention) -> Pruned:
        self.asked.append(retention)
        return self.answer  # type: ignore[no-any-return]


async def test_the_promoter_waits_as_long_as_the_store_says_whatever_its_own_clock_shows() -> None:
    store = Store(Promoted(0, 299))
    assert await Promoter(store).tick() == 0.3  # type: ignore[arg-type]


async def test_a_full_batch_of_due_jobs_is_followed_by_the_next_at_once() -> None:
    store = Store(Promoted(BATCH, None))
    assert await Promoter(store).tick() == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(("lease", "every"), [(9, 1.5), (3, 0.5), (0.2, 0.05), (3600, 1.5)])
async def test_leases_are_looked_at_often_enough(lease: float, every: float) -> None:
    store = Store([])
    assert await Reclaimer(store, load(lease_s=lease, max_crashes=5), list).tick() == every  # type: ignore[arg-type]
    assert store.asked == [ReclaimPolicy(lease_ms=round(lease * 1000), max_crashes=5)]


async def test_a_death_by_reclaim_is_announced_and_a_full_batch_is_followed_at_once() -> None:
    deaths: list[int] = []
    lost = Reclaimed("j", "default", "gone", JobState.PENDING)
    dead = Reclaimed("j", "default", "gone", JobState.ARCHIVED)
    policy = ReclaimPolicy()
    store = Store([lost])
    reclaimer = Reclaimer(store, load(), lambda: deaths.append(1))  # type: ignore[arg-type]
    assert await reclaimer.tick() > 0
    assert deaths == []
    store.answer = [lost] * (policy.limit - 1) + [dead]
    assert await reclaimer.tick() == 0
    assert deaths == [1]


async def test_the_settings_say_how_long_things_are_kept() -> None:
    store = Store(Pruned())
    settings = load(cancelled_retention_s=5, archived_retention_days=2, archived_max=7)
    assert await Pruner(store, settings).tick() == 60  # type: ignore[arg-type]
    assert store.asked == [Retention(cancelled_ms=5000, archived_ms=2 * 86_400_000, archived_max=7)]


@pytest.mark.parametrize("waits_ms", [0, 10 * DAY_MS])
async def test_ids_are_remembered_longer_than_a_job_waits_to_be_sent_again(waits_ms: int) -> None:
    store = Store(Pruned())

    async def oldest() -> int:
        return waits_ms

    await Pruner(store, load(), oldest).tick()  # type: ignore[arg-type]
    assert store.asked == [Retention(tombstone_ms=DAY_MS + waits_ms)]


async def test_ids_are_remembered_while_nobody_can_tell_what_waits_to_be_sent() -> None:
    store = Store(Pruned())

    async def oldest() -> int:
        raise StoreUnavailable("the database is away")

    await Pruner(store, load(), oldest).tick()  # type: ignore[arg-type]
    assert store.asked[0].tombstone_ms > 365 * DAY_MS
