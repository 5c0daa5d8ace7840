"""One form for every periodic duty."""

import asyncio
import random

import pytest
import structlog
from pipeline.looper import Looper

from tests.support.jobs import turn
from tests.support.waiting import stays_true, wait_until


class Duty:
    """Counts its steps; each waits `pause` seconds for the next, or raises `error`."""

    def __init__(self, pause: float = 60) -> None:
        self.pause = pause
        self.error: BaseException | None = None
        self.steps = 0

    async def tick(self) -> float:
        self.steps += 1
        await turn()
        if self.error is not None:
            raise self.error
        return self.pause


async def test_the_first_step_comes_at_once_and_the_next_when_it_is_asked_for() -> None:
    duty = Duty()
    looper = Looper("duty", duty.tick)
    looper.start()
    await wait_until(lambda: duty.steps == 1, describe="the first step")
    looper.wake()
    await wait_until(lambda: duty.steps == 2, describe="the step asked for")
    await stays_true(lambda: duty.steps == 2, describe="no step is taken without need", during=0.05)
    await looper.stop()


async def test_a_step_says_when_the_next_one_comes() -> None:
    duty = Duty(pause=0.005)
    looper = Looper("duty", duty.tick)
    looper.start()
    await wait_until(lambda: duty.steps >= 5, describe="five steps")
    await looper.stop()


async def test_a_wake_during_a_step_is_not_lost() -> None:
    steps, inside, go_on = 0, asyncio.Event(), asyncio.Event()

    async def tick() -> float:
        nonlocal steps
        steps += 1
        inside.set()
        await go_on.wait()
        return 60

    looper = Looper("duty", tick)
    looper.start()
    await inside.wait()
    looper.wake()
    go_on.set()
    await wait_until(lambda: steps == 2, describe="one more step follows")
    await looper.stop()


async def test_a_failing_step_is_said_once_and_repeated_until_it_works() -> None:
    duty = Duty()
    duty.error = ValueError("broken")
    looper = Looper("duty", duty.tick)
    with structlog.testing.capture_logs() as lines:
        looper.start()
        await wait_until(lambda: duty.steps >= 3, describe="it is tried again")
        assert looper.failing
        duty.error = None
        await wait_until(lambda: not looper.failing, describe="it works again")
        await looper.stop()
    assert [line["event"] for line in lines] == [
        "duty failed; trying again until it works",
        "duty works again",
    ]


async def test_a_step_that_was_cancelled_by_itself_failed_like_any_other() -> None:
    duty = Duty()
    duty.error = asyncio.CancelledError()
    looper = Looper("duty", duty.tick)
    looper.start()
    await wait_until(lambda: duty.steps >= 2, describe="it is tried again")
    await looper.stop()


async def test_stopping_lets_a_step_end() -> None:
    inside, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def tick() -> float:
        inside.set()
        await go_on.wait()
        ended.set()
        return 60

    looper = Looper("duty", tick)
    looper.start()
    await inside.wait()
    stopping = asyncio.create_task(looper.stop())
    await turn()
    go_on.set()
    await stopping
    assert ended.is_set()


async def test_a_step_that_hangs_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.looper.STOP_S", 0.05)
    looper = Looper("duty", asyncio.Event().wait)
    looper.start()
    await asyncio.wait_for(looper.stop(), 1)


async def test_starting_and_stopping_in_any_order_leaves_at_most_one_step_running() -> None:
    running = most = 0

    async def tick() -> float:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await turn()
        running -= 1
        return 0

    looper, chance = Looper("duty", tick), random.Random(7)
    for _ in range(200):
        match chance.randrange(4):
            case 0:
                looper.start()
            case 1:
                looper.wake()
            case 2:
                await asyncio.gather(looper.stop(), looper.stop())
            case _:
                await turn()
    await looper.stop()
    assert (running, most) == (0, 1)
