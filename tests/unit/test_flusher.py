"""What was decided reaches the store: together, in order, and as often as it takes."""

import asyncio
from collections.abc import Sequence

import pytest
import structlog
from pipeline.errors import StoreUnavailable
from pipeline.worker import flusher
from pipeline.worker.flusher import Flusher

from tests.support.jobs import turn
from tests.support.waiting import wait_until


class Store:
    """Doubles numbers, in batches; away as often as it is told; chokes on 13."""

    def __init__(self, away: int = 0) -> None:
        self.away = away
        self.batches: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, items: Sequence[int]) -> list[int]:
        await self.open.wait()
        if self.away > 0:
            self.away -= 1
            raise StoreUnavailable("away")
        if 13 in items:
            raise ValueError("13 is out of the question")
        self.batches.append(list(items))
        return [2 * item for item in items]


async def test_what_comes_in_one_turn_of_the_loop_goes_out_together() -> None:
    store = Store()
    sending = Flusher("sending", store.send)
    assert await asyncio.gather(*(sending.add(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert store.batches == [[0, 1, 2, 3, 4]]


async def test_what_comes_while_a_batch_is_under_way_goes_out_next_in_order() -> None:
    store = Store()
    sending = Flusher("sending", store.send)
    store.open.clear()
    answers = [sending.add(0)]
    await turn()
    answers += [sending.add(1), sending.add(2)]
    store.open.set()
    assert await asyncio.gather(*answers) == [0, 2, 4]
    assert store.batches == [[0], [1, 2]]


async def test_a_batch_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flusher, "BATCH", 3)
    store = Store()
    sending = Flusher("sending", store.send)
    await asyncio.gather(*(sending.add(n) for n in range(7)))
    assert store.batches == [[0, 1, 2], [3, 4, 5], [6]]


async def test_a_store_that_is_away_is_asked_again_and_it_is_said_once() -> None:
    store = Store(away=3)
    sending = Flusher("sending", store.send)
    with structlog.testing.capture_logs() as lines:
        assert list(await asyncio.gather(sending.add(1), sending.add(2))) == [2, 4]
    assert [line["event"] for line in lines] == [
        "sending failed; trying again until it works",
        "sending works again",
    ]
    assert store.batches == [[1, 2]]


@pytest.mark.parametrize("away", [0, 1])
async def test_an_item_at_fault_is_told_so_and_the_others_pass(away: int) -> None:
    store = Store(away)
    sending = Flusher("sending", store.send)
    answers = await asyncio.gather(*(sending.add(n) for n in (12, 13, 14)), return_exceptions=True)
    assert (answers[0], answers[2]) == (24, 28)
    assert str(answers[1]) == "13 is out of the question"
    assert await sending.add(15) == 30


async def test_confirmed_waits_for_what_was_added_before() -> None:
    store = Store()
    sending = Flusher("sending", store.send)
    await sending.confirmed()
    store.open.clear()
    answer = sending.add(1)
    waiting = asyncio.create_task(sending.confirmed())
    await turn()
    assert not waiting.done()
    store.open.set()
    await waiting
    assert answer.done()


async def test_closing_gives_a_store_that_is_away_its_time_and_says_what_was_not_confirmed() -> None:
    store = Store(away=10**6)
    sending = Flusher("sending", store.send)
    answers = [sending.add(1), sending.add(2)]
    assert await sending.close(0.05) == 2
    await wait_until(lambda: all(a.cancelled() for a in answers), describe="nobody waits any more")


async def test_an_answer_that_nobody_waits_for_any_more_disturbs_nobody() -> None:
    store = Store()
    sending = Flusher("sending", store.send)
    gone, there = sending.add(1), sending.add(2)
    gone.cancel()
    assert await there == 4
    assert await sending.close(1) == 0
