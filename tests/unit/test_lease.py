"""Leases are kept from a thread, which also sees whether the event loop lives."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog
from hypothesis import given
from hypothesis import strategies as st
from pipeline.broker import Delivery, LeaseState
from pipeline.errors import StoreUnavailable
from pipeline.runtime import Pipeline
from pipeline.worker.attempt import Attempt, Attempts, Told
from pipeline.worker.lease import LeaseKeeper, LoopWatch

from tests.support.hand import Hand, new
from tests.support.waiting import stays_true, wait_until

LEASE_S = 0.2


@asynccontextmanager
async def kept(
    pipeline: Pipeline,
    deliveries: Sequence[Delivery],
    *,
    stall_s: float = 60,
    on_stall: Callable[[], object] = list,
) -> AsyncIterator[tuple[LeaseKeeper, list[Attempt]]]:
    """Deliveries held by a process whose lease thread runs."""
    attempts = Attempts(grace_s=60, on_stuck=lambda _: None)
    mine = [attempts.take(delivery) for delivery in deliveries]
    keeper = LeaseKeeper(pipeline.broker, attempts, lease_s=LEASE_S, stall_s=stall_s, on_stall=on_stall)
    keeper.start()
    try:
        yield keeper, mine
    finally:
        await keeper.stop()
        for attempt in mine:
            attempts.drop(attempt)


async def claimed(pipeline: Pipeline, count: int) -> tuple[Hand, list[Delivery]]:
    hand = Hand(pipeline.broker)
    await pipeline.broker.enqueue([new() for _ in range(count)])
    return hand, await hand.take(count)


async def test_a_job_that_went_elsewhere_and_a_cancelled_one_are_told_and_the_others_go_on(
    pipeline: Pipeline,
) -> None:
    hand, (gone, cancelled, fine) = await claimed(pipeline, 3)
    async with kept(pipeline, [gone, cancelled, fine]) as (_, attempts):
        await hand.settle(gone)
        await pipeline.broker.cancel([cancelled.job_id])
        await wait_until(lambda: attempts[0].told and attempts[1].told, describe="both were told")
        assert [attempt.told for attempt in attempts] == [Told.LOST, Told.CANCEL, None]


async def test_a_nudge_makes_it_look_at_once(pipeline: Pipeline) -> None:
    _, (delivery,) = await claimed(pipeline, 1)
    async with kept(pipeline, [delivery]) as (keeper, (attempt,)):
        keeper._interval_s = 60
        await wait_until(lambda: keeper._watch.blocked_s == 0, describe="it rests")
        await pipeline.broker.cancel([delivery.job_id])
        keeper.nudge()
        await wait_until(lambda: attempt.told is Told.CANCEL, describe="it was told", timeout=5)


class Away:
    """Leases that cannot be renewed until they can."""

    def __init__(self) -> None:
        self.away, self.renewed = True, 0

    def renew(self, deliveries: Sequence[Delivery]) -> list[LeaseState]:
        if self.away:
            raise StoreUnavailable("away")
        self.renewed += 1
        return [LeaseState.HELD for _ in deliveries]

    def close(self) -> None:
        pass


async def test_a_store_that_is_away_is_said_once_and_renewing_resumes(
    pipeline: Pipeline,
) -> None:
    _, deliveries = await claimed(pipeline, 1)
    leases = Away()
    pipeline.broker.leases = lambda: leases  # type: ignore[method-assign]
    with structlog.testing.capture_logs() as lines:
        async with kept(pipeline, deliveries) as (keeper, (attempt,)):
            await wait_until(lambda: keeper._outage._failures >= 3, describe="it tries again and again")
            leases.away = False
            await wait_until(lambda: leases.renewed >= 2, describe="it renews again")
            assert attempt.told is None
    assert [line["event"] for line in lines if line["component"] == "lease"] == [
        "renewing leases failed; trying again until it works",
        "renewing leases works again",
    ]


async def test_a_blocked_loop_loses_no_lease_and_the_log_shows_what_blocks_it(pipeline: Pipeline) -> None:
    hand, (delivery,) = await claimed(pipeline, 1)
    with structlog.testing.capture_logs() as lines:
        async with kept(pipeline, [delivery]):
            threading.Event().wait(3 * LEASE_S)
            assert await hand.renewing([delivery]) == ["held"]
    (line,) = [line for line in lines if "blocked" in line["event"]]
    assert "test_lease.py" in line["stack"]


async def test_a_job_whose_limit_has_passed_while_the_loop_was_blocked_is_renewed_no_more(
    pipeline: Pipeline,
) -> None:
    leases = Away()
    leases.away = False
    pipeline.broker.leases = lambda: leases  # type: ignore[method-assign]
    _, deliveries = await claimed(pipeline, 1)
    async with kept(pipeline, deliveries) as (_, (attempt,)):
        attempt.limit_s = 0.1
        await wait_until(lambda: leases.renewed >= 2, describe="it is renewed while the loop runs")
        before = leases.renewed
        threading.Event().wait(1)
        assert leases.renewed - before <= 5  # of twenty


async def test_a_dead_loop_is_given_up_once(pipeline: Pipeline) -> None:
    stalls: list[float] = []
    _, deliveries = await claimed(pipeline, 1)
    with structlog.testing.capture_logs() as lines:
        async with kept(pipeline, deliveries, stall_s=0.3, on_stall=lambda: stalls.append(time.monotonic())):
            threading.Event().wait(1)
            assert len(stalls) == 1
    assert sum("stalled" in line["event"] for line in lines) == 1


async def test_stopping_ends_the_thread(pipeline: Pipeline) -> None:
    async with kept(pipeline, []) as (keeper, _):
        assert keeper._thread.is_alive()
    await wait_until(lambda: not keeper._thread.is_alive(), describe="the thread has ended")
    await stays_true(
        lambda: not asyncio.get_running_loop().is_closed(), describe="the loop runs", during=0.01
    )


@given(st.lists(st.floats(0.001, 1), max_size=30))
def test_a_loop_that_answers_is_never_blocked(pauses: list[float]) -> None:
    watch, now = LoopWatch(longest_s=10), 100.0
    for pause in pauses:
        now += pause
        assert watch.ask(now)
        watch.answer()
        assert watch.blocked_s == 0


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=30))
def test_a_loop_that_does_not_answer_is_blocked_for_as_long_as_it_has_been_asked(pauses: list[float]) -> None:
    watch, now = LoopWatch(longest_s=10), 100.0
    watch.ask(now)
    for pause in pauses:
        now += pause
        assert not watch.ask(now)
    assert abs(watch.blocked_s - sum(pauses)) < 1e-6
    watch.answer()
    assert watch.ask(now + 1)
    assert watch.blocked_s == 0


def test_a_process_that_was_frozen_as_a_whole_was_not_blocked() -> None:
    watch = LoopWatch(longest_s=1)
    watch.ask(100)
    watch.ask(4000)
    assert watch.blocked_s == 1
