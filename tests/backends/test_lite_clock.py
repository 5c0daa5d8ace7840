"""The store's clock: jumps, suspensions and moments that coincide."""

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.backends.lite.broker import LiteBroker
from pipeline.backends.lite.reclaiming import quiet_until
from pipeline.broker import Reclaimed, ReclaimPolicy

from tests.backends.conftest import Clock
from tests.support.hand import Hand, new

LEASE = 8_000
HOUR = 3_600_000
TENANT = Scope("tenant", "7")


@pytest.mark.parametrize(
    ("last", "agreed", "expected"),
    [
        (100_000 - 1_000, 0, 0),
        (100_000 - LEASE // 2, 50_000, 50_000),
        (100_000 - LEASE // 2 - 1, 0, 100_000 + LEASE),
        (0, 0, 100_000 + LEASE),
        (100_000 - 1_000, 103_000, 103_000),
        (100_001, 0, 100_000 + LEASE),
        (100_000 - 1_000, 100_000 + LEASE + 1, 100_000 + LEASE),
    ],
    ids=["regular", "barely", "gap", "never yet", "still quiet", "set back", "agreed before it was set back"],
)
def test_after_a_gap_nothing_is_taken_for_a_whole_lease(last: int, agreed: int, expected: int) -> None:
    assert quiet_until(100_000, last=last, quiet=agreed, lease_ms=LEASE) == expected


class Reclaimer:
    """A living process that reclaims every second of the store's clock."""

    def __init__(self, broker: LiteBroker, clock: Clock) -> None:
        self.broker = broker
        self.clock = clock

    async def once(self) -> list[Reclaimed]:
        return await self.broker.reclaim(ReclaimPolicy(lease_ms=LEASE))

    async def for_seconds(self, seconds: int) -> list[Reclaimed]:
        taken = []
        for _ in range(seconds):
            self.clock.shift += 1_000
            taken += await self.once()
        return taken


@pytest.fixture
def reclaimer(broker: LiteBroker, clock: Clock) -> Reclaimer:
    return Reclaimer(broker, clock)


async def test_a_silent_worker_loses_its_job_after_a_lease(
    broker: LiteBroker, hand: Hand, reclaimer: Reclaimer
) -> None:
    await reclaimer.for_seconds(10)
    await broker.enqueue([new()])
    await hand.take_one()
    assert await reclaimer.for_seconds(7) == []
    assert len(await reclaimer.for_seconds(2)) == 1


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["suspended for an hour", "set back an hour"])
async def test_a_jump_of_the_clock_takes_no_job_from_a_healthy_worker(
    broker: LiteBroker, hand: Hand, reclaimer: Reclaimer, clock: Clock, jump: int
) -> None:
    await reclaimer.for_seconds(10)
    await broker.enqueue([new(), new()])
    healthy, lost = await hand.take(2)
    clock.shift += jump
    assert await reclaimer.once() == []
    for _ in range(12):
        assert await hand.renewing([healthy]) == ["held"]
        taken = await reclaimer.for_seconds(1)
        assert [one.job_id for one in taken] in ([], [lost.job_id])
    assert await broker.states([healthy.job_id, lost.job_id]) == [JobState.ACTIVE, JobState.PENDING]


async def test_a_cancel_covers_what_came_before_it_in_the_same_millisecond_and_nothing_after(
    broker: LiteBroker, hand: Hand, clock: Clock
) -> None:
    clock.stopped_at = clock()
    for _ in range(5):
        (old,) = await broker.enqueue([new(scopes=(TENANT,))])
        assert (await broker.cancel_scope(TENANT, EVERYTHING)).cancelled == (old.id,)
    (late,) = await broker.enqueue([new(scopes=(TENANT,))])
    assert late.state is JobState.PENDING
    assert [one.job_id for one in await hand.take(9)] == [late.id]


async def test_a_cancel_of_another_scope_in_the_same_millisecond_covers_a_root_put_after_a_fence(
    broker: LiteBroker, clock: Clock
) -> None:
    clock.stopped_at = clock()
    source = Scope("data_source", "s")
    await broker.cancel_scope(TENANT, EVERYTHING)
    (job,) = await broker.enqueue([new(scopes=(TENANT, source))])
    assert (await broker.cancel_scope(source, EVERYTHING)).cancelled == (job.id,)


async def test_a_cancel_covers_jobs_from_before_the_clock_was_set_back(
    broker: LiteBroker, clock: Clock
) -> None:
    (job,) = await broker.enqueue([new(scopes=(TENANT,))])
    clock.shift = -HOUR
    cancel = await broker.cancel_scope(TENANT, EVERYTHING)
    assert cancel.cancelled == (job.id,)
    (child,) = await broker.enqueue([new(scopes=(TENANT,), root_at=cancel.cut, root_id=job.id)])
    assert child.state is JobState.CANCELLED


async def test_a_delay_never_ends_early(broker: LiteBroker, clock: Clock) -> None:
    clock.stopped_at = began = clock()
    (job,) = await broker.enqueue([new(delay_ms=500)])
    clock.stopped_at = began + 500
    assert (await broker.promote()).moved == 0, "part of the first millisecond had passed"
    clock.stopped_at = began + 501
    assert (await broker.promote()).moved == 1
    assert await broker.states([job.id]) == [JobState.PENDING]
