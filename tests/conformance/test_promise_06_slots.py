"""Promise 6: a worker never holds more jobs than its free slots; nothing waits in a local buffer behind a running job."""

import asyncio
from collections import Counter
from functools import partial

from pipeline.broker import Broker
from pipeline.handlers import Context, on
from pipeline.runtime import Pipeline

from tests.conformance.conftest import Start
from tests.support.faults import Faults, Loss
from tests.support.hand import Hand, news
from tests.support.waiting import stays_true, wait_until
from tests.support.work import Attachment, Work


class Gate:
    """A handler that waits until it is let through, and knows how many are inside."""

    def __init__(self) -> None:
        self.inside = self.most = self.passed = 0
        self.starts: Counter[str] = Counter()
        self._one = asyncio.Semaphore(0)

    async def __call__(self, job: object, ctx: Context) -> None:
        self.inside += 1
        self.starts[ctx.id] += 1
        self.most = max(self.most, self.inside)
        try:
            await self._one.acquire()
        finally:
            self.inside -= 1
        self.passed += 1

    def refilled(self, passed: int, inside: int) -> bool:
        return (self.passed, self.inside) == (passed, inside)

    def let(self, count: int) -> None:
        for _ in range(count):
            self._one.release()


async def active(pipeline: Pipeline) -> int:
    return sum(stat.active for stat in await pipeline.inspector.queues())


async def test_a_claim_gives_at_most_what_was_asked_for_each_queue(store: Broker, hand: Hand) -> None:
    await store.enqueue([*news(5), *news(5, queue="chat_attachment")])
    taken = await store.claim(hand.name, [("default", 2), ("chat_attachment", 1), ("summary", 3)])
    assert sorted(d.queue for d in taken) == ["chat_attachment", "default", "default"]
    assert await store.claim(hand.name, [("default", 0)]) == []


async def test_a_claim_gives_no_more_where_jobs_that_come_again_wait_beside_fresh_ones(
    store: Broker, hand: Hand
) -> None:
    await store.enqueue(news(3))
    await store.release(await hand.take(3))
    await store.enqueue(news(3))
    assert [len(await hand.take(2)) for _ in range(4)] == [2, 2, 2, 0]


async def test_no_more_are_held_than_there_are_slots_and_the_rest_waits_for_anybody(start: Start) -> None:
    gate = Gate()
    pipeline = await start(on(Work, gate), on(Attachment, gate), pool_core_concurrency=3)
    await pipeline.enqueue_many([*(Work(n=n) for n in range(10)), *(Attachment(n=n) for n in range(10))])
    await wait_until(lambda: gate.inside == 3, describe="all slots are taken")

    async def three_held() -> bool:
        return await active(pipeline) == 3 == gate.inside

    await stays_true(three_held, describe="three are held, and all of them run", during=0.3)
    idle = Gate()
    await start(on(Work, idle), on(Attachment, idle), pool_core_concurrency=4)
    await wait_until(lambda: idle.inside == 4, describe="another worker takes what waits")
    for step in range(1, 5):
        gate.let(1)
        await wait_until(partial(gate.refilled, step, 3), describe="a freed slot is filled")
        assert await active(pipeline) <= 7
    gate.let(20)
    idle.let(20)
    await wait_until(lambda: gate.passed + idle.passed == 20, describe="all are done")
    assert (gate.most, idle.most) == (3, 4)


async def test_a_claim_that_was_lost_does_not_overfill_the_slots_and_starts_nothing_twice(
    start: Start, faults: Faults, loss: Loss
) -> None:
    """Neither when the worker was idle, nor beside a job that runs."""
    gate = Gate()
    pipeline = await start(on(Work, gate), pool_core_concurrency=2)
    faults.lose(loss, "claim")
    receipts = await pipeline.enqueue_many([Work(n=n) for n in range(6)])
    await wait_until(lambda: gate.inside == 2 and not faults.waiting("claim"), describe="slots are taken")
    faults.lose(loss, "claim")
    gate.let(1)
    await wait_until(partial(gate.refilled, 1, 2), describe="the freed slot is filled")
    assert not faults.waiting("claim")

    async def two_held() -> bool:
        return await active(pipeline) == 2

    await stays_true(two_held, describe="two are held", during=0.2)
    gate.let(6)
    for receipt in receipts:
        await pipeline.wait(receipt.id, timeout=10)
    assert gate.most == 2
    assert gate.starts == {receipt.id: 1 for receipt in receipts}


async def test_a_slot_is_free_again_only_when_the_end_of_its_job_is_confirmed(
    start: Start, faults: Faults
) -> None:
    gate = Gate()
    pipeline = await start(on(Work, gate), pool_core_concurrency=1)
    first, second = await pipeline.enqueue_many([Work(n=1), Work(n=2)])
    await wait_until(lambda: gate.inside == 1, describe="the first runs")
    for _ in range(3):
        faults.lose_request("settle")
    gate.let(1)
    await wait_until(lambda: faults.waiting("settle") <= 1, describe="its end is not confirmed")
    assert gate.inside == 0
    gate.let(1)
    for receipt in (first, second):
        await pipeline.wait(receipt.id, timeout=10)
    assert (gate.most, gate.passed) == (1, 2)


async def test_one_slow_job_holds_up_nobody_else(start: Start) -> None:
    """Twenty at once take as long as one: they run beside each other."""
    gate = Gate()
    pipeline = await start(on(Work, gate), pool_core_concurrency=20)
    receipts = await pipeline.enqueue_many([Work(n=n) for n in range(20)])
    await wait_until(lambda: gate.inside == 20, describe="all run at once")
    gate.let(20)
    for receipt in receipts:
        await pipeline.wait(receipt.id, timeout=10)
