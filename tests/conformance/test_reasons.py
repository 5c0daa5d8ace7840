"""Why a job waits, as the store sees it, and who its relatives are."""

from typing import Any

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.outcomes import Retry, Skip
from contracts.states import JobState
from pipeline.broker import COUNTED_AHEAD, Broker, NewJob
from pipeline.clock import now_ms
from pipeline.inspector import Inspector
from pipeline.reasons import Why
from pipeline.records import Obstacles, PoolBeat, WorkerBeat

from tests.support.hand import Hand, ids, new, news

KB = Scope("knowledge_base", "kb")
NOBODY = (Why.NO_WORKER, {"pool": "core"})


@pytest.fixture
def inspector(store: Broker) -> Inspector:
    return Inspector(store)


async def why(inspector: Inspector, job: NewJob) -> list[tuple[Why, dict[str, object]]]:
    record = await inspector.job(job.job.id)
    return [(reason.code, dict(reason.params)) for reason in await inspector.why(record)]


async def beat(
    store: Broker, *, active: int, slots: int = 8, state: str = "running", pool: str = "core"
) -> None:
    weights = {"core": {"default": 1, "chat_attachment": 3}, "shared": {"default": 3}, "wiki": {"wiki": 1}}
    pools = (PoolBeat(pool, slots, active, weights[pool]),)
    worker = WorkerBeat(f"host-{pool}:1:a", f"host-{pool}", 1, now_ms(), state, pools)
    await store.heartbeat(worker, 60_000)


async def test_a_job_alone_with_a_free_slot_waits_for_nothing(store: Broker, inspector: Inspector) -> None:
    job = new()
    await store.enqueue([job])
    await beat(store, active=7)
    assert await why(inspector, job) == []


async def test_a_job_waits_behind_those_that_came_before_it_and_no_others(
    store: Broker, inspector: Inspector
) -> None:
    before, job, after = news(3), new(), news(2)
    await store.enqueue(before)
    await store.enqueue([job])
    await store.enqueue([*after, new(queue="chat_attachment")])
    await Hand(store).take(1)
    assert await why(inspector, job) == [NOBODY, (Why.BEHIND, {"n": 2, "more": False})]


async def test_jobs_that_come_again_go_alternately_with_fresh_ones(
    store: Broker, inspector: Inspector, hand: Hand
) -> None:
    older = news(5)
    await store.enqueue(older)
    taken = await hand.take(5)
    fresh = news(3)
    await store.enqueue(fresh)
    await store.release(taken)
    first, _, last = fresh
    assert (await store.obstacles("default", first.job.id)).ahead == 1
    assert (await store.obstacles("default", last.job.id)).ahead == 2 + 3
    assert (await store.obstacles("default", taken[0].job_id)).ahead == 1
    assert (await store.obstacles("default", taken[4].job_id)).ahead == 4 + 3


async def test_of_many_before_it_only_so_many_are_counted(store: Broker) -> None:
    await store.enqueue(news(COUNTED_AHEAD + 20))
    last = new()
    await store.enqueue([last])
    found = await store.obstacles("default", last.job.id)
    assert (found.ahead, found.more) == (COUNTED_AHEAD, True)


async def test_a_paused_queue_is_named_until_it_is_resumed(store: Broker, inspector: Inspector) -> None:
    job = new(delay_ms=60_000)
    await store.enqueue([job])
    await beat(store, active=0)
    await store.pause("default")
    delayed = (Why.DELAYED, {"until": (await inspector.job(job.job.id)).due_at})
    assert await why(inspector, job) == [(Why.PAUSED, {"queue": "default"}), delayed]
    await store.resume("default")
    assert await why(inspector, job) == [delayed]


async def test_only_a_running_worker_that_reads_the_queue_counts(store: Broker, inspector: Inspector) -> None:
    job = new()
    await store.enqueue([job])
    assert await why(inspector, job) == [NOBODY]
    await beat(store, active=0, pool="wiki")
    await beat(store, active=0, state="stopping")
    assert await why(inspector, job) == [NOBODY]
    await beat(store, active=6, slots=6, pool="shared")  # it borrows the queue
    assert await why(inspector, job) == [(Why.ALL_BUSY, {"pool": "core"})]
    await beat(store, active=7)
    assert await why(inspector, job) == []


async def test_a_retry_waits_for_its_time(store: Broker, inspector: Inspector, hand: Hand) -> None:
    job = new()
    await store.enqueue([job])
    await hand.run(Retry(after=60))
    record = await inspector.job(job.job.id)
    assert record.due_at > now_ms() + 50_000
    assert await why(inspector, job) == [NOBODY, (Why.DELAYED, {"until": record.due_at})]


async def test_a_fence_that_does_not_cover_a_job_is_no_obstacle(store: Broker) -> None:
    job = new(scopes=(Scope("tenant", "7"), KB))
    await store.enqueue([job])
    assert await store.obstacles("default", job.job.id) == Obstacles()
    root = (await Inspector(store).job(job.job.id)).job.root_at
    await store.cancel_scope(KB, EVERYTHING, root - 1)
    assert (await store.obstacles("default", job.job.id)).fence is None
    found = await store.cancel_scope(Scope("tenant", "other"), EVERYTHING)
    assert found.cancelled == ()


async def test_what_runs_or_has_ended_waits_for_nothing(
    store: Broker, inspector: Inspector, hand: Hand
) -> None:
    active, dead = news(2)
    await store.enqueue([dead])
    await hand.run(Skip("no"))
    await store.enqueue([active])
    await hand.take_one()
    assert await why(inspector, active) == []
    assert await why(inspector, dead) == []


async def test_a_job_knows_its_parent_its_root_and_its_children_that_live(
    store: Broker, inspector: Inspector, hand: Hand
) -> None:
    root = new(scopes=(Scope("tenant", "7"), KB), retention_ms=60_000)
    await store.enqueue([root])
    root_id = root.job.id
    root_at = (await inspector.job(root_id)).job.root_at
    family: dict[str, Any] = {"root_id": root_id, "root_at": root_at, "scopes": (Scope("tenant", "7"),)}
    middle = new(parent_id=root_id, **family)
    children = [
        new(parent_id=middle.job.id, queue=queue, **family) for queue in ("default", "summary", "wiki")
    ]
    late = new(parent_id=middle.job.id, delay_ms=60_000, **family)
    strangers = news(5, scopes=(Scope("tenant", "7"),))
    await store.enqueue([middle, *children, late, *strangers])
    found = await inspector.relatives(await inspector.job(middle.job.id))
    assert found.parent == found.root == await inspector.job(root_id)
    assert {one.job.id for one in found.children} == {*ids(children), late.job.id}
    assert not found.more
    of_root = await inspector.relatives(await inspector.job(root_id))
    assert (of_root.parent, of_root.root) == (None, None)
    assert [one.job.id for one in of_root.children] == [middle.job.id]
    await store.cancel(ids(children))
    found = await inspector.relatives(await inspector.job(middle.job.id))
    assert [one.job.id for one in found.children] == [late.job.id]


async def test_a_job_without_scopes_or_with_a_parent_that_is_gone_has_none(
    store: Broker, inspector: Inspector
) -> None:
    job = new(parent_id="long-gone", root_id="long-gone", root_at=now_ms())
    await store.enqueue([job])
    found = await inspector.relatives(await inspector.job(job.job.id))
    assert (found.parent, found.root, found.children, found.more) == (None, None, (), False)


async def test_of_many_children_a_hundred_are_shown(store: Broker, inspector: Inspector) -> None:
    parent = new(scopes=(KB,))
    await store.enqueue([parent])
    root_at = (await inspector.job(parent.job.id)).job.root_at
    await store.enqueue(news(130, scopes=(KB,), parent_id=parent.job.id, root_at=root_at))
    found = await inspector.relatives(await inspector.job(parent.job.id))
    assert (len(found.children), found.more) == (100, True)


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.SCHEDULED])
async def test_an_unknown_job_has_no_obstacles(store: Broker, state: JobState) -> None:
    assert await store.obstacles("default", f"nobody-{state}") == Obstacles()
