"""Large bodies: a script takes a few at a time, so that nobody waits long for the server, and none is left behind."""

from contracts.fences import EVERYTHING
from contracts.jobs import Scope
from contracts.states import JobState
from pipeline.backends.redis.broker import RedisBroker
from pipeline.clock import now_ms

from tests.support.hand import SOON_MS, Hand, ids, news, pending, reclaimed
from tests.support.waiting import wait_until

TENANT = Scope("tenant", "7")
LARGE = f'"{"x" * 400_000}"'
COUNT = 8


async def test_what_is_due_is_promoted_in_several_steps(store: RedisBroker) -> None:
    jobs = news(COUNT, data=LARGE, delay_ms=SOON_MS)
    await store.enqueue(jobs)
    due = now_ms() + SOON_MS
    await wait_until(lambda: now_ms() > due + 1, describe="all are due")
    first = await store.promote()
    assert 0 < first.moved < COUNT
    assert first.due_in_ms == 0

    async def all_moved() -> bool:
        await store.promote()
        return await pending(store) == COUNT

    await wait_until(all_moved, describe="all are pending")


async def test_what_a_lost_worker_held_is_handed_on(store: RedisBroker) -> None:
    await store.enqueue(news(COUNT, data=LARGE))
    assert len(await Hand(store).take(COUNT)) == COUNT
    assert {one.state for one in await reclaimed(store, count=COUNT)} == {JobState.PENDING}
    assert await pending(store) == COUNT


async def test_a_scope_is_cancelled_as_a_whole(store: RedisBroker) -> None:
    jobs = news(COUNT, data=LARGE, scopes=(TENANT,))
    await store.enqueue(jobs)
    assert set((await store.cancel_scope(TENANT, EVERYTHING)).cancelled) == set(ids(jobs))
