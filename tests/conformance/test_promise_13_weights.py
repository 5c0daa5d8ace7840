"""Promise 13: queues are served by weight without starvation; pools cannot take each other's slots; the shared pool only
borrows; a paused queue starts nothing.
"""

import asyncio
from collections import Counter

import pytest
from contracts.jobs import JobPayload
from contracts.states import JobState
from pipeline.broker import Broker

from tests.conformance.conftest import Insist, Open, Start
from tests.support.backends import Backend
from tests.support.hand import Hand, ids, new, news, pending, run_all
from tests.support.serving import Served
from tests.support.waiting import stays_true, wait_until
from tests.support.work import Attachment, Finish, Summary, Work


async def fill(open_pipeline: Open, *kinds: type[JobPayload], count: int = 60) -> None:
    producer = await open_pipeline()
    await producer.enqueue_many([kind.model_validate({"n": n}) for n in range(count) for kind in kinds])


@pytest.mark.parametrize("slots", [1, 3, 8])
async def test_two_queues_are_served_three_to_one_and_neither_starves(
    start: Start, open_pipeline: Open, slots: int
) -> None:
    """Core: chat_attachment 3, default 1."""
    served = Served()
    await fill(open_pipeline, Work, Attachment)
    await start(*served.handlers(Work, Attachment), pool_core_concurrency=slots)
    await wait_until(lambda: len(served.order) == 120, describe="all are served", timeout=20)
    while_both_wait = served.order[:64]
    share = Counter(while_both_wait)
    assert 44 <= share["chat_attachment"] <= 52  # 48 of 64
    longest = max(len(run) for run in "".join(q[0] for q in while_both_wait).split("d"))
    assert longest <= 3 * slots + 3


async def test_the_shared_pool_serves_the_borrowed_queues_by_its_own_weights(
    start: Start, open_pipeline: Open
) -> None:
    """Shared: default 3, chat_attachment 3, summary 2."""
    served = Served()
    await fill(open_pipeline, Work, Attachment, Summary)
    handlers = served.handlers(Work, Attachment, Summary)
    await start(*handlers, pools=["shared"], pool_shared_concurrency=1)
    await wait_until(lambda: len(served.order) == 180, describe="all are served", timeout=20)
    share = Counter(served.order[:80])
    assert 27 <= share["default"] <= 33  # 30
    assert 27 <= share["chat_attachment"] <= 33
    assert 17 <= share["summary"] <= 23  # 20


async def test_the_shared_pool_takes_nothing_that_is_not_lent(start: Start, open_pipeline: Open) -> None:
    served = Served()
    await fill(open_pipeline, Finish, Work, count=3)
    pipeline = await start(*served.handlers(Finish, Work), pools=["shared"])
    await wait_until(lambda: len(served.order) >= 3, describe="what is lent is served")
    await stays_true(lambda: "postprocess" not in served.order, describe="it only borrows", during=0.2)
    assert await pending(pipeline.broker, "postprocess") == 3


async def test_a_pool_that_is_full_takes_no_slot_of_another(start: Start, open_pipeline: Open) -> None:
    served = Served("summary")
    await fill(open_pipeline, Summary, count=20)
    pipeline = await start(
        *served.handlers(Work, Summary),
        pools=["core", "enrichment"],
        pool_core_concurrency=2,
        pool_enrichment_concurrency=3,
    )
    await wait_until(lambda: served.inside["summary"] == 3, describe="enrichment is full")
    receipt = await pipeline.enqueue(Work())
    await pipeline.wait(receipt.id, timeout=5)
    assert served.inside["summary"] == 3
    served.let_go()


async def test_the_shared_pool_lends_its_slots_and_not_more(start: Start, open_pipeline: Open) -> None:
    served = Served("default")
    await fill(open_pipeline, Work, count=20)
    await start(
        *served.handlers(Work), pools=["core", "shared"], pool_core_concurrency=2, pool_shared_concurrency=3
    )
    await wait_until(lambda: served.inside["default"] == 5, describe="core's slots and the shared ones")
    await stays_true(lambda: served.inside["default"] == 5, describe="no more than those", during=0.2)
    served.let_go()


async def test_a_paused_queue_starts_nothing_and_goes_on_where_it_stopped(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    await insist(store.pause, "default")
    await store.enqueue([new(), new(), new(delay_ms=1), new(queue="chat_attachment")])
    assert await hand.take(5) == []
    assert await store.claim(hand.name, [("default", 5), ("chat_attachment", 5)]) != []
    assert not await store.wait_for_work(["default"], timeout=0.01)

    async def promoted() -> bool:
        await store.promote()
        return await pending(store) == 3

    await wait_until(promoted, describe="the delayed one is pending, and waits too")
    await insist(store.resume, "default")
    assert await store.wait_for_work(["default"], timeout=1)
    assert len(await run_all(store)) == 3


async def test_who_waits_hears_at_once_of_a_queue_that_was_resumed_and_nothing_of_one_that_was_paused(
    store: Broker,
) -> None:
    both = ["default", "chat_attachment"]
    assert not await store.wait_for_work(both, timeout=0.1)
    await store.pause("default")
    paused = news(1)
    await store.enqueue(paused)
    assert not await store.wait_for_work(both, timeout=0.3)
    await store.cancel(ids(paused))
    await store.resume("default")
    assert not await store.wait_for_work(both, timeout=0.1)
    heard = asyncio.create_task(store.wait_for_work(both, timeout=10))
    await stays_true(lambda: not heard.done(), describe="there is nothing", during=0.1)
    await store.enqueue([new()])
    async with asyncio.timeout(2):
        assert await heard


async def test_a_pause_outlives_a_restart_and_is_seen_by_everybody(backend: Backend, store: Broker) -> None:
    await store.enqueue([new()])
    await store.pause("default")
    other = await backend.open()
    assert await Hand(other).take() == []
    store = await backend.restart()
    assert await Hand(store).take() == []
    assert [stat.name for stat in await store.queue_stats() if stat.paused] == ["default"]


async def test_a_pause_lets_run_what_runs_and_holds_up_no_neighbour(
    start: Start, open_pipeline: Open
) -> None:
    served = Served("default")
    pipeline = await start(*served.handlers(Work, Attachment), pool_core_concurrency=4)
    running = await pipeline.enqueue(Work(), retention=60)
    await wait_until(lambda: served.inside["default"] == 1, describe="it runs")
    elsewhere = await open_pipeline()
    await elsewhere.inspector.pause("default")
    paused = await elsewhere.enqueue(Work())
    neighbour = await elsewhere.enqueue(Attachment())
    await elsewhere.wait(neighbour.id, timeout=5)
    served.let_go()
    await elsewhere.wait(running.id, timeout=5)

    async def waits() -> bool:
        return await elsewhere.broker.states([paused.id]) == [JobState.PENDING]

    await stays_true(waits, describe="the paused queue starts nothing", during=0.3)
    await elsewhere.inspector.resume("default")
    await elsewhere.wait(paused.id, timeout=5)


async def test_a_claimed_batch_does_not_let_the_first_queue_fill_the_pool(
    start: Start, open_pipeline: Open
) -> None:
    """One draw is dealt among the queues, however much waits in one of them."""
    served = Served("default", "chat_attachment")
    await fill(open_pipeline, Work, Attachment, count=40)
    await start(*served.handlers(Work, Attachment), pool_core_concurrency=8)
    await wait_until(lambda: sum(served.inside.values()) == 8, describe="all slots are taken")
    assert served.inside == {"chat_attachment": 6, "default": 2}
    served.let_go()
