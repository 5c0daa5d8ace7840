"""Promise 5: the jobs of a killed worker run again elsewhere; a frozen one that wakes up settles nothing.

What the store does, with workers played by hand. Real processes and signals: test_promise_05_killed_and_frozen.py.
"""

import asyncio
from dataclasses import replace

import pytest
from contracts.states import ArchiveReason, JobState
from pipeline.broker import Broker, ReclaimPolicy
from pipeline.clock import now_ms
from pipeline.errors import StoreUnavailable

from tests.conformance.conftest import Insist
from tests.support.backends import Backend
from tests.support.faults import Faults
from tests.support.hand import LEASE_MS, QUEUE, Hand, envelope, ids, new, news, reclaimed, state
from tests.support.waiting import wait_until


async def test_a_lost_worker_costs_a_crash_and_no_retry(store: Broker, hand: Hand) -> None:
    await store.enqueue([new(max_retry=3)])
    await hand.run(RuntimeError("counted"))
    lost = await hand.take_when_due()
    (taken,) = await reclaimed(store)
    assert taken == replace(taken, job_id=lost.job_id, queue="default", consumer=hand.name)
    assert taken.state is JobState.PENDING
    job = envelope(await Hand(store).take_one())
    assert (job.crashes, job.retried) == (1, 1)
    assert job.crashed_at > 0


async def test_the_last_attempt_is_not_used_up_by_a_lost_worker(store: Broker, hand: Hand) -> None:
    await store.enqueue([new(max_retry=0)])
    await hand.take_one()
    await reclaimed(store)
    assert await Hand(store).run() is JobState.COMPLETED


async def test_a_job_that_loses_its_worker_too_often_is_archived(store: Broker) -> None:
    job = new()
    await store.enqueue([job])
    seen = list[tuple[int, JobState]]()
    for _ in range(3):
        crashes = envelope(await Hand(store).take_one()).crashes
        (taken,) = await reclaimed(store, max_crashes=2)
        seen.append((crashes, taken.state))
    assert seen == [(0, JobState.PENDING), (1, JobState.PENDING), (2, JobState.ARCHIVED)]
    record = await store.job(job.job.id)
    assert record is not None
    assert (record.reason, record.job.crashes) == (ArchiveReason.WORKER_LOST, 3)
    (letter,) = await store.dead_letters(["default"], 5)
    assert letter.reason is ArchiveReason.WORKER_LOST


async def test_crashes_of_long_ago_are_forgotten(store: Broker) -> None:
    await store.enqueue([new(crashes=3, crashed_at=now_ms() - 90_000_000)])
    await Hand(store).take_one()
    (taken,) = await reclaimed(store)
    assert taken.state is JobState.PENDING
    assert envelope(await Hand(store).take_one()).crashes == 1


async def test_a_failure_between_two_crashes_does_not_hide_them(store: Broker) -> None:
    await store.enqueue([new(max_retry=9)])
    await Hand(store).take_one()
    await reclaimed(store)
    hand = Hand(store)
    await hand.run(RuntimeError("no"))
    assert envelope(await hand.take_when_due()).crashes == 1


async def test_a_reclaimed_job_does_not_queue_up_behind_fresh_ones(store: Broker, hand: Hand) -> None:
    await store.enqueue([new()])
    victim = await hand.take_one()
    await store.enqueue(news(100))
    await reclaimed(store)
    assert victim.job_id in [d.job_id for d in await Hand(store).take(2)]


async def test_fresh_jobs_are_not_starved_by_jobs_that_come_again(store: Broker, hand: Hand) -> None:
    await store.enqueue(news(20))
    again = await hand.take(20)
    fresh = news(20)
    await store.enqueue(fresh)
    await store.release(again)
    first = [d.job_id for d in await Hand(store).take(20)]
    assert len(set(first) & set(ids(fresh))) == 10


async def test_what_was_handed_back_is_not_counted_and_comes_first(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    jobs = news(2)
    await store.enqueue(jobs)
    given = await hand.take(2)
    await store.enqueue(news(50))
    await insist(store.release, given)
    back = [d for d in await Hand(store).take(4) if d.job_id in ids(jobs)]
    assert [d.job_id for d in back] == ids(jobs)
    assert [(envelope(d).crashes, envelope(d).retried) for d in back] == [(0, 0)] * 2


async def test_a_reclaim_that_was_lost_is_repeated_and_counts_one_crash(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    jobs = news(10)
    await store.enqueue(jobs)
    await hand.take(10)
    policy = ReclaimPolicy(lease_ms=LEASE_MS)
    bait = Hand(store)
    await store.enqueue([new(queue="summary")])
    await bait.take_one("summary")
    await reclaimed(store, count=1)  # from here on the duty runs without a gap
    await insist(store.reclaim, policy)

    async def all_back() -> bool:
        await store.reclaim(policy)
        return set(await store.states(ids(jobs))) == {JobState.PENDING}

    await wait_until(all_back, describe="all were reclaimed", longest_pause=LEASE_MS / 10_000)
    assert [envelope(d).crashes for d in await Hand(store).take(10)] == [1] * 10


async def test_two_reclaimers_take_a_job_once(backend: Backend, store: Broker, hand: Hand) -> None:
    jobs = news(30)
    await store.enqueue(jobs)
    await hand.take(30)
    other, policy, taken = await backend.open(), ReclaimPolicy(lease_ms=LEASE_MS, limit=7), list[str]()

    async def all_taken() -> bool:
        found = await asyncio.gather(*(s.reclaim(policy) for s in (store, other) * 2))
        taken.extend(one.job_id for part in found for one in part)
        return len(taken) >= 30

    await wait_until(all_taken, describe="all were reclaimed", longest_pause=LEASE_MS / 10_000)
    assert sorted(taken) == sorted(ids(jobs))
    assert [envelope(d).crashes for d in await Hand(store).take(30)] == [1] * 30


async def test_only_lost_ones_are_taken_however_many_run(store: Broker, hand: Hand) -> None:
    """10 000 stale deliveries would take as many rounds as `limit` says, not one each."""
    await store.enqueue(news(60))
    await hand.take(60)
    policy, rounds = ReclaimPolicy(lease_ms=LEASE_MS, limit=25), list[int]()

    async def all_taken() -> bool:
        rounds.append(len(await store.reclaim(policy)))
        return sum(rounds) == 60

    await wait_until(all_taken, describe="all were reclaimed", longest_pause=LEASE_MS / 10_000)
    assert max(rounds) == 25


@pytest.mark.parametrize("lost_reply", [True, False])
async def test_a_claim_whose_reply_was_lost_costs_no_crash(
    store: Broker, hand: Hand, faults: Faults, lost_reply: bool
) -> None:
    jobs = news(3)
    await store.enqueue(jobs)
    (faults.lose_reply if lost_reply else faults.lose_request)("claim")
    with pytest.raises(StoreUnavailable):
        await hand.take(2)
    held = await store.held(hand.name, [QUEUE])
    assert [d.job_id for d in held] == (ids(jobs[:2]) if lost_reply else [])
    taken = held or await hand.take(2)
    assert {d.consumer for d in taken} == {hand.name}
    assert [await hand.settle(d) for d in taken] == [JobState.COMPLETED] * 2
    assert await store.held(hand.name, [QUEUE]) == []


async def test_a_consumer_finds_only_what_is_in_its_own_name(store: Broker, hand: Hand) -> None:
    await store.enqueue(news(2))
    mine = await hand.take_one()
    await Hand(store).take_one()
    assert await store.held(hand.name, [QUEUE]) == [mine]
    assert await store.held(hand.name, ["wiki"]) == []


async def test_a_job_is_pending_again_for_anybody_who_waits_for_work(store: Broker, hand: Hand) -> None:
    await store.enqueue([new()])
    await hand.take_one()
    assert await store.wait_for_work(["default"], timeout=0.01) is False
    await reclaimed(store)
    assert await store.wait_for_work(["default"], timeout=5) is True
    assert await state(store, (await hand.take_one()).job_id) is JobState.ACTIVE
