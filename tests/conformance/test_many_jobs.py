"""A queue of a hundred thousand jobs: what people look at comes at once, and what belongs together is cancelled at once."""

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any

import pytest
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.actions import Effect
from pipeline.broker import Broker
from pipeline.inspector import Inspector
from pipeline.records import Count, TaskFilter

from tests.support.hand import Hand, ids, new

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PENDING, SCHEDULED = 60_000, 40_000
ANSWER_S, CANCEL_S = 3.0, 20.0
"""Ten times the budgets, which `bench` measures: here fails only what grows with the queue."""
RARE = Scope("knowledge", "rare")
BUSY = Scope("tenant", "1")


async def fill(store: Broker, count: int, **fields: Any) -> None:
    for first in range(0, count, 1_000):
        await store.enqueue([
            new(type="test:rare" if n % 10_000 == 5_000 else "test:work",
                scopes=(Scope("tenant", str(n % 2)), RARE if n % 10_000 == 5_000 else Scope("knowledge", str(n % 1_000))),
                data='{"x":"' + "y" * 200 + '"}', **fields)
            for n in range(first, first + 1_000)
        ])  # fmt: skip


async def quick(ask: Callable[[], Awaitable[Any]]) -> Any:
    began = perf_counter()
    found = await ask()
    took = perf_counter() - began
    assert took <= ANSWER_S
    return found


async def test_every_page_filter_and_count_comes_at_once(store: Broker) -> None:
    inspector = Inspector(store)
    await fill(store, PENDING)
    await fill(store, SCHEDULED, delay_ms=600_000)
    for state, number in ((JobState.PENDING, PENDING), (JobState.SCHEDULED, SCHEDULED)):

        async def page(state: JobState = state, **match: Any) -> Any:
            return await inspector.tasks("default", state, page_size=100, match=TaskFilter(**match))

        async def count(state: JobState = state, **match: Any) -> Any:
            return await inspector.count("default", state, TaskFilter(**match))

        assert len((await quick(page)).records) == 100
        assert len((await quick(partial(page, scope=BUSY))).records) == 100
        assert len((await quick(partial(page, scope=RARE))).records) == number // 10_000
        assert len((await quick(partial(page, scope=RARE, type="test:rare"))).records) == number // 10_000
        assert await quick(count) == Count(number)
        assert await quick(partial(count, scope=RARE)) == Count(number // 10_000)
        matches: list[dict[str, Any]] = [{"type": "test:rare"}, {"scope": BUSY}, {"error": "nowhere"}]
        for match in matches:
            found = await quick(partial(count, **match))
            assert found.number <= number / 2
            await quick(partial(page, **match))
    newest = (await inspector.tasks("default", JobState.PENDING)).records[0]
    asks: list[Callable[[], Awaitable[Any]]] = [
        inspector.queues,
        inspector.history,
        partial(inspector.why, newest),
    ]
    for ask in asks:
        assert await quick(ask)
    assert (await quick(partial(inspector.relatives, newest))).more  # nobody looked at all of its tenant
    assert len(await quick(partial(store.queued_ids, "knowledge"))) == 1_001


async def cancelled_base(store: Broker, hand: Hand, name: str) -> float:
    """How long the cancel of a base took, seconds; its jobs lie between as many of another tenant."""
    inspector, kb = Inspector(store), Scope("knowledge_base", name)
    mine = [new(scopes=(Scope("tenant", "1"), kb, Scope("knowledge", f"{n % 50}"))) for n in range(10_000)]
    others = [new(scopes=(Scope("tenant", "2"), Scope("knowledge_base", "kb2"))) for _ in range(10_000)]
    mixed = [one for pair in zip(mine, others, strict=True) for one in pair]
    for first in range(0, len(mixed), 1_000):
        await store.enqueue(mixed[first : first + 1_000])
    deletion = new(type="kb:delete", queue="low", scopes=(Scope("tenant", "1"), kb))
    await store.enqueue([deletion])
    began = perf_counter()
    effects = await inspector.effects(
        await inspector.cancel_knowledge_base(name, [f"{n}" for n in range(50)])
    )
    took = perf_counter() - began
    assert effects == dict.fromkeys(ids(mine), Effect.CANCELLED)
    assert await store.states(ids(others)) == [JobState.PENDING] * 10_000
    assert [one.job_id for one in await hand.take(5, "low")] == [deletion.job.id]
    return took


async def test_a_base_of_ten_thousand_jobs_goes_at_once_and_its_neighbour_stays(
    store: Broker, hand: Hand
) -> None:
    assert await cancelled_base(store, hand, "one") <= CANCEL_S
