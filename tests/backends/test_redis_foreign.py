"""What was written into a stream by another program, without an id that can be used."""

import pytest
from contracts.states import JobState
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.keys import Keys

from tests.support.hand import Hand, reclaimed
from tests.support.redis_server import shared

FOREIGN = [{"type": "test:work", "data": "{}"}, {"id": "no id at all", "type": "test:work", "data": "{}"}]


@pytest.fixture(params=FOREIGN, ids=["none", "one that cannot be used"])
def entry(request: pytest.FixtureRequest, redis_url: str) -> str:
    with shared().client() as client:
        return str(client.xadd(Keys().stream("default"), request.param))


async def test_it_runs_under_the_name_of_its_entry(store: RedisBroker, entry: str) -> None:
    hand = Hand(store)
    delivery = await hand.take_one()
    assert delivery.job_id == f"default:{entry}"
    assert [one.job_id for one in await store.held(hand.name)] == [delivery.job_id]
    (seen,) = (await store.tasks("default", JobState.ACTIVE, cursor=None, limit=5)).records
    assert seen.job.id == delivery.job_id
    assert await hand.settle(delivery) is JobState.COMPLETED


async def test_it_runs_again_when_its_worker_is_lost(store: RedisBroker, entry: str) -> None:
    lost = await Hand(store).take_one()
    (one,) = await reclaimed(store)
    assert (one.job_id, one.state) == (lost.job_id, JobState.PENDING)
    (seen,) = (await store.tasks("default", JobState.PENDING, cursor=None, limit=5)).records
    assert seen.job.id == lost.job_id
    assert await Hand(store).run() is JobState.COMPLETED
