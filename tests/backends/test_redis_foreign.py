"""What was written into a stream by another program, and what another program took from one."""

import json
from typing import Any

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.states import ArchiveReason, JobState
from pipeline.backends.redis.broker import RedisBroker
from pipeline.backends.redis.keys import Keys
from pipeline.client import Origin

from tests.support.hand import QUEUE, Hand, envelope, new, reclaimed
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
    assert [one.job_id for one in await store.held(hand.name, [QUEUE])] == [delivery.job_id]
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


TENANT = Scope("tenant", "7")


def write(**fields: str) -> None:
    """Add what a program in any language would."""
    with shared().client() as client:
        client.xadd(Keys().stream("default"), {"type": "test:work", "data": "{}", **fields})


def scoped() -> str:
    return json.dumps({"scopes": [[TENANT.kind, TENANT.id]]})


async def test_an_id_given_twice_is_one_job(store: RedisBroker, redis_url: str) -> None:
    write(id="order-1")
    write(id="order-1")
    hand = Hand(store)
    assert [one.job_id for one in await hand.take(2)] == ["order-1"]
    write(id="order-1")
    assert await hand.take(2) == []


async def test_a_cancel_of_its_scope_stops_what_was_written_before_and_only_that(
    store: RedisBroker, redis_url: str
) -> None:
    write(id="before", opts=scoped())
    await store.cancel_scope(TENANT, EVERYTHING)
    with shared().client() as client:
        (cut,) = client.zrange("sl:{core}:fences", 0, -1, withscores=True)
        late = f"{int(cut[1]) + 1000}-0"
        client.xadd(
            Keys().stream("default"),
            {"id": "after", "type": "test:work", "data": "{}", "opts": scoped()},
            late,
        )
    hand = Hand(store)
    assert [one.job_id for one in await hand.take(5)] == ["after"]
    (state,) = await store.states(["before"])
    assert state is JobState.CANCELLED
    await reclaimed(store)
    assert [one.job_id for one in await hand.take(5)] == ["after"]


ODD = [
    {"scopes": [["tenant", None]]},
    {"scopes": [[["tenant"], "7"]]},
    {"scopes": [[True, "7"]]},
    {"scopes": None},
    {"unique": [None]},
    {"unique": [["k"]]},
    {"unique": ["k", None, None, None]},
    {"unique": ["k", "soon", "ttl"]},
    {"unique": ["k", 0, "ttl"]},
    {"unique": ["k", -5, "ttl"]},
    {"unique": ["k", 1e300, "ttl"]},
    {"unique": ["k", 60, ["ttl"]]},
    {"unique": ["k", 60, "forever"]},
    {"root_at": None},
    {"deadline": "soon"},
    None,
    [],
]


@pytest.mark.parametrize("opts", ODD, ids=str)
async def test_options_that_nobody_can_read_are_poison_and_harm_no_neighbour(
    store: RedisBroker, redis_url: str, opts: object
) -> None:
    """One that made the claim fail took along, without a word, whatever was read together with it."""
    write(id="odd", opts=json.dumps(opts))
    write(id="good")
    hand = Hand(store)
    odd, good = await hand.take(5)
    assert await hand.settle(odd) is JobState.ARCHIVED
    assert await hand.settle(good) is JobState.COMPLETED
    record = await store.job("odd")
    assert record is not None
    assert record.reason is ArchiveReason.POISON
    with shared().client() as client:
        assert not [*client.keys("sl:{core}:unique:*"), *client.keys("sl:{core}:scopes")]


async def test_an_entry_that_somebody_else_read_in_the_name_of_the_group_runs_when_its_lease_is_over(
    store: RedisBroker, redis_url: str
) -> None:
    """So does one whose claim got stuck between reading and recording it."""
    write(id="looked-at", opts=scoped())
    with shared().client() as client:
        stream = Keys().stream("default")
        client.xgroup_create(stream, "core", "0")
        client.xreadgroup("core", "somebody", {stream: ">"})
    (one,) = await reclaimed(store)
    assert (one.job_id, one.state) == ("looked-at", JobState.PENDING)
    assert await store.has_queued(TENANT)
    assert await Hand(store).run() is JobState.COMPLETED
    assert not await store.has_queued(TENANT)


async def test_children_of_what_it_wrote_can_be_read_and_move_no_fence(
    store: RedisBroker, redis_url: str
) -> None:
    """A root far in the future, and with a name that is none, is inherited as it is."""
    write(id="parent", opts=json.dumps({"root_id": 'a "word"', "root_at": 9_000_000_000_000_000}))
    hand = Hand(store)
    origin = Origin.of(envelope(await hand.take_one()))
    inherited: dict[str, Any] = {"root_id": origin.root_id, "root_at": origin.root_at}
    await store.enqueue([new(id="child", scopes=(TENANT,), **inherited)])
    child = envelope(await hand.take_one())
    assert (child.root_id, child.root_at) == (origin.root_id, origin.root_at)
    assert (await store.cancel_scope(TENANT, EVERYTHING)).cut < origin.root_at
