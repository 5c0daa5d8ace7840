"""Pages of a listing, while what is listed changes: what was there all the time is told exactly once, nothing twice."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from contracts.outcomes import Skip
from contracts.states import JobState
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline.broker import Broker

from tests.support.backends import BACKENDS
from tests.support.hand import Hand, ids, new, news

changes = st.lists(
    st.tuples(st.integers(1, 4), st.lists(st.sampled_from(["add", "remove", "remove"]), max_size=3)),
    min_size=1,
    max_size=12,
)


async def archived(store: Broker, count: int) -> list[str]:
    jobs = news(count)
    await store.enqueue(jobs)
    hand = Hand(store)
    for _ in jobs:
        await hand.run(Skip("no"))
    return ids(jobs)


async def pending(store: Broker, count: int) -> list[str]:
    jobs = news(count)
    await store.enqueue(jobs)
    return ids(jobs)


async def scheduled(store: Broker, count: int) -> list[str]:
    jobs = [new(delay_ms=3_600_000 + number) for number in range(count)]
    await store.enqueue(jobs)
    return ids(jobs)


LISTS = {
    JobState.ARCHIVED: (archived, lambda store, job_id: store.delete(job_id)),
    JobState.PENDING: (pending, lambda store, job_id: store.cancel([job_id])),
    JobState.SCHEDULED: (scheduled, lambda store, job_id: store.cancel([job_id])),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("state", LISTS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(changes=changes, seed=st.randoms(use_true_random=False))
def test_a_listing_is_whole_whatever_comes_and_goes(
    backend: str, state: JobState, changes: list[tuple[int, list[str]]], seed
) -> None:
    add, remove = LISTS[state]

    async def read(store: Broker) -> None:
        passing, stay, passing_too = (await add(store, 5), await add(store, 5), await add(store, 5))
        passing += passing_too
        told = list[str]()
        cursor, steps = None, iter(changes)
        while True:
            size, meanwhile = next(steps, (4, []))
            page = await store.tasks("default", state, cursor=cursor, limit=size)
            assert len(page.records) <= size
            told += [record.job.id for record in page.records]
            cursor = page.next_cursor
            if cursor is None:
                break
            for what in meanwhile:
                if what == "add":
                    passing += await add(store, 1)
                elif passing:
                    await remove(store, passing.pop(seed.randrange(len(passing))))
        assert len(told) == len(set(told))
        kept = [job_id for job_id in told if job_id in stay]
        assert kept == (stay if state is JobState.SCHEDULED else stay[::-1])

    async def alone() -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = BACKENDS[backend](Path(folder))
            try:
                await read(await store.open())
            finally:
                await store.close()

    asyncio.run(alone())
