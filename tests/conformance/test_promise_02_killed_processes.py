"""Promises 1, 2 and 7 under `kill -9`: what was confirmed is there, and reaches an end, wherever the process was killed."""

import random
from functools import partial
from pathlib import Path

from contracts.states import JobState
from pipeline.broker import ReclaimPolicy

from tests.support.backends import Backend
from tests.support.crash import Process
from tests.support.hand import LEASE_MS, Hand, settlement
from tests.support.waiting import wait_until


def longer(journal: Path, than: int) -> bool:
    return journal.stat().st_size > than


async def test_nothing_that_was_confirmed_vanishes_when_processes_are_killed_at_random_moments(
    backend: Backend, tmp_path: Path
) -> None:
    journal, chance = tmp_path / "journal", random.Random(7)
    journal.touch()
    for seed in range(3):
        before = journal.stat().st_size
        much = before + chance.randint(100, 4000)
        async with (
            Process("churn", backend.settings(), journal=journal, seed=seed) as one,
            Process("churn", backend.settings(), journal=journal, seed=seed + 10) as other,
        ):
            confirmed_much = partial(longer, journal, much)
            await wait_until(confirmed_much, describe="jobs were confirmed", timeout=30)
            one.kill()
            other.kill()

    store = await backend.open()
    confirmed = journal.read_text().splitlines()
    assert len(confirmed) == len(set(confirmed)) > 0
    states = set(await store.states(confirmed))
    assert None not in states
    assert states <= {
        JobState.PENDING,
        JobState.SCHEDULED,
        JobState.RETRY,
        JobState.ACTIVE,
        JobState.COMPLETED,
    }

    hand = Hand(store)

    async def all_done() -> bool:
        await store.reclaim(ReclaimPolicy(lease_ms=LEASE_MS, max_crashes=99))
        await store.promote()
        while taken := await hand.take(100):
            await store.settle([settlement(delivery) for delivery in taken])
        return set(await store.states(confirmed)) == {JobState.COMPLETED}

    await wait_until(all_done, describe="all are completed", timeout=30, longest_pause=LEASE_MS / 10_000)
    assert [stat.size for stat in await store.queue_stats() if stat.name == "default"] == [0]
