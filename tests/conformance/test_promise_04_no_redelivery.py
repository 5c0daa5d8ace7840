"""Promise 4: a running job with a live, responsive worker is never redelivered, however long it runs."""

import asyncio

from contracts.states import JobState
from pipeline.broker import Broker, ReclaimPolicy

from tests.support.backends import Backend
from tests.support.hand import LEASE_MS, Hand, ids, new, news, pending, reclaimed
from tests.support.waiting import stays_true, wait_until

PAUSE_S = LEASE_MS / 10_000


async def test_a_renewed_delivery_is_left_alone_while_its_neighbour_is_taken(store: Broker) -> None:
    jobs = news(2)
    await store.enqueue(jobs)
    alive, lost = Hand(store), Hand(store)
    kept, gone = await alive.take_one(), await lost.take_one()
    leases, taken = store.leases(), list[str]()

    async def neighbour_taken() -> bool:
        assert await asyncio.to_thread(leases.renew, [kept]) == ["held"]
        taken.extend(one.job_id for one in await store.reclaim(ReclaimPolicy(lease_ms=LEASE_MS)))
        return bool(taken)

    await wait_until(neighbour_taken, describe="the lost one was reclaimed", longest_pause=PAUSE_S)
    leases.close()
    assert taken == [gone.job_id]
    assert await alive.settle(kept) is JobState.COMPLETED


async def test_waiting_however_long_is_no_lost_lease(store: Broker, hand: Hand) -> None:
    """A job that waits in the queue, or for its time, is not taken by anybody: only what runs has a lease."""
    bait, waiting, later = new(), new(queue="summary"), new(delay_ms=60_000)
    await store.enqueue([bait, waiting, later])
    await hand.take_one()
    taken = await reclaimed(store)  # more than a lease has passed
    assert [one.job_id for one in taken] == [bait.job.id]
    assert await store.states(ids([waiting, later])) == [JobState.PENDING, JobState.SCHEDULED]
    assert await pending(store, "summary") == 1


async def test_after_a_time_without_any_reclaim_nothing_healthy_is_taken(
    backend: Backend, store: Broker, hand: Hand
) -> None:
    """The store was away, or the machine slept: every lease looks old, though every worker lives."""
    lease_ms = 2000
    policy = ReclaimPolicy(lease_ms=lease_ms)
    await store.enqueue(news(20))
    running = await hand.take(20)
    assert await none_taken(store, policy)

    old = asyncio.get_running_loop().time() + lease_ms / 1000 * 1.1
    await wait_until(lambda: asyncio.get_running_loop().time() > old, describe="every lease is old")

    assert await none_taken(store, policy)
    assert await hand.renewing(running) == ["held"] * 20  # they come back, within one lease
    await stays_true(
        lambda: none_taken(store, policy), describe="nothing was reclaimed", during=lease_ms / 2000
    )


async def none_taken(store: Broker, policy: ReclaimPolicy) -> bool:
    return await store.reclaim(policy) == []


async def test_who_never_comes_back_after_the_gap_is_taken_one_lease_later(store: Broker, hand: Hand) -> None:
    await store.enqueue([new()])
    gone = await hand.take_one()
    (taken,) = await reclaimed(store)
    assert (taken.job_id, taken.consumer, taken.state) == (gone.job_id, hand.name, JobState.PENDING)


async def test_a_claim_starts_the_lease(store: Broker) -> None:
    """However long a job waited before: its lease counts from its claim."""
    await store.enqueue(news(2))
    lost = Hand(store)
    await lost.take_one()
    await reclaimed(store)
    fresh = await Hand(store).take_one()
    assert await store.reclaim(ReclaimPolicy(lease_ms=LEASE_MS)) == []
    assert await Hand(store).renewing([fresh]) == ["held"]


async def test_many_leases_are_renewed_in_one_go_each_for_itself(store: Broker, hand: Hand) -> None:
    await store.enqueue(news(50))
    running = await hand.take(50)
    await hand.settle(running[7])
    answers = await hand.renewing(running)
    assert answers[7] == "lost"
    assert answers[:7] + answers[8:] == ["held"] * 49
