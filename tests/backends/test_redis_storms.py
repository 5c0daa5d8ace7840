"""Connections that are killed, reset, cut in the midst of a word, or silently dead; calls cancelled at random; promoters that
are killed or too many. Afterwards everything has run, and nothing of the storm is left.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from pipeline.backends.redis.broker import RedisBroker
from pipeline.client import Enqueue
from pipeline.config import load
from pipeline.handlers import Context
from pipeline.records import Progress
from pipeline.runtime import Pipeline

from tests.support.crash import Process
from tests.support.hand import Hand, ids, new, news, settlement
from tests.support.redis_server import RedisServer
from tests.support.redis_workers import SOON_S, clients, done, insist, opened, settings, working
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import stays_true, wait_until
from tests.support.work import Work, marks

STORM_S = 3.0
BACK_S = 5.0


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[TcpProxy]:
    made = TcpProxy(redis_server.host, redis_server.port)
    yield made
    made.close()


async def passes(seconds: float) -> None:
    """Let time pass."""
    await stays_true(lambda: True, describe="time passes", during=seconds)


async def kills(server: RedisServer, proxy: TcpProxy) -> None:
    with server.client() as client:
        for _ in range(10):
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            await passes(STORM_S / 10)


async def sleeps(server: RedisServer, proxy: TcpProxy) -> None:
    server.suspend()
    try:
        await passes(STORM_S)
    finally:
        server.resume()


async def restarts(server: RedisServer, proxy: TcpProxy) -> None:
    for _ in range(5):
        server.restart()
        await passes(STORM_S / 8)


async def resets(server: RedisServer, proxy: TcpProxy) -> None:
    with proxy.breaking(random.Random(5), mean=6000):
        await passes(STORM_S)


@pytest.mark.slow
@pytest.mark.parametrize("storm", [kills, sleeps, restarts, resets])
async def test_after_a_storm_everything_has_run_and_nothing_of_it_is_left(
    tmp_path: Path, storm: Callable[[RedisServer, TcpProxy], Awaitable[None]]
) -> None:
    server = RedisServer(appendonly="yes", appendfsync="everysec").start()
    proxy = TcpProxy(server.host, server.port)
    ran, url = set[int](), f"redis://127.0.0.1:{proxy.port}/0"

    async def handle(job: Work, ctx: Context) -> None:
        ran.add(job.n)

    async def feed(pipeline: Pipeline, over: asyncio.Event) -> int:
        number = 0
        while not over.is_set():
            number += 1
            await insist(pipeline, Work(n=number), delay=0.01 if number % 3 == 0 else None, timeout=30)
        return number

    try:
        async with working(url, handle) as (pipeline, crew):
            await done(pipeline, Work())
            tasks, over = len(asyncio.all_tasks()), asyncio.Event()
            feeding = asyncio.ensure_future(feed(pipeline, over))
            await storm(server, proxy)
            began = time.monotonic()
            await done(pipeline, Work(), timeout=BACK_S)
            assert time.monotonic() - began < BACK_S
            over.set()
            number = await feeding
            await wait_until(
                lambda: ran >= set(range(1, number + 1)), describe="all have run", timeout=BACK_S
            )
            await wait_until(lambda: not crew.failing, describe="it is ready")
            await wait_until(lambda: len(asyncio.all_tasks()) <= tasks + 1, describe="no task is left")
            with server.client() as client:
                assert clients(client) <= 16 + 5
        await wait_until(lambda: proxy.connections == 0, describe="every connection is closed")
    finally:
        proxy.close()
        server.close()


async def test_connections_that_are_silently_dead_are_given_up_on(
    redis_server: RedisServer, proxy: TcpProxy, tmp_path: Path
) -> None:
    """The blocking read is under way, and nobody ever says that its connection is gone."""
    async with (
        opened(redis_server.url) as elsewhere,
        working(f"redis://127.0.0.1:{proxy.port}/0") as (pipeline, crew),
    ):
        await done(pipeline, Work(folder=str(tmp_path)))
        running = await elsewhere.enqueue(Work(act="hang", folder=str(tmp_path)))
        await wait_until(lambda: len(marks(tmp_path, "started")) == 2, describe="it runs")
        proxy.strand()
        await elsewhere.enqueue(Work(folder=str(tmp_path)))
        await wait_until(lambda: len(marks(tmp_path, "done")) == 2, describe="the next runs", timeout=SOON_S)
        later = await elsewhere.enqueue(Work(folder=str(tmp_path)), delay=0.1)
        await elsewhere.wait(later.id, timeout=SOON_S)
        assert [one.job for one in marks(tmp_path, "started")].count(running.id) == 1
        assert not crew.failing


async def test_nobody_gets_the_answer_to_what_another_asked_and_gave_up_on(
    redis_server: RedisServer, proxy: TcpProxy
) -> None:
    chance = random.Random(11)
    store = await RedisBroker.open(
        load(redis_url=f"redis://127.0.0.1:{proxy.port}/0", redis_op_timeout_ms=10_000)
    )
    wrong, right = list[Any](), 0
    try:
        jobs = {one.job.id: one for one in (new(type=f"type:{number}") for number in range(50))}
        await store.enqueue(list(jobs.values()))
        held = {one.job_id: one for one in await Hand(store).take(25)}

        async def ask(job_id: str) -> None:
            nonlocal right
            expected = jobs[job_id].job
            match chance.randrange(6):
                case 0:
                    found = await store.job(job_id)
                    fine = found is not None and (found.job.id, found.job.type) == (job_id, expected.type)
                case 1:
                    (receipt,) = await store.enqueue([jobs[job_id]])
                    fine = receipt.id == job_id and receipt.duplicate
                case 2:
                    number = await store.lock(f"lock:{job_id}", job_id, 60_000)
                    fine = number is not None and number == await store.lock(f"lock:{job_id}", job_id, 60_000)
                case 3:
                    fine = await store.states([job_id, "nobody"]) == [
                        "active" if job_id in held else "pending",
                        None,
                    ]
                case 4 if job_id in held:
                    fine = await store.report(held[job_id], Progress(1, 2, job_id))
                case _:
                    fine = await store._server.call("ECHO", job_id) == job_id
            right += 1
            if not fine:
                wrong.append(job_id)

        async def impatient() -> None:
            for _ in range(170):
                asking = asyncio.ensure_future(ask(chance.choice(list(jobs))))
                if chance.random() < 0.7:
                    asyncio.get_running_loop().call_later(chance.random() * 0.05, asking.cancel)
                with suppress(asyncio.CancelledError):
                    await asking

        with proxy.slow(0.005):
            await asyncio.gather(*(impatient() for _ in range(12)))
    finally:
        await store.close()
    assert wrong == []
    assert right > 200
    await wait_until(lambda: proxy.connections == 0, describe="every connection is closed")


@pytest.mark.slow
async def test_no_delayed_job_is_lost_when_promoters_are_killed_all_the_time(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    chance = random.Random(2)
    async with opened(redis_server.url) as producer, AsyncExitStack() as processes:
        receipts = [
            receipt
            for _ in range(10)
            for receipt in await producer.enqueue_many(
                [
                    Enqueue(Work(folder=str(tmp_path)), delay=chance.uniform(0.5, 6), retention=60)
                    for _ in range(50)
                ]
            )
        ]
        ends = time.monotonic() + 6
        while time.monotonic() < ends:
            victim = await processes.enter_async_context(Process("worker", settings(redis_server.url)))
            await passes(chance.uniform(0.2, 0.7))
            with redis_server.client() as client:
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            victim.kill()
        async with working(redis_server.url) as (pipeline, _):
            await wait_until(
                lambda: {one.job for one in marks(tmp_path, "done")} >= {one.id for one in receipts},
                describe="each has run",
                timeout=20,
            )
            for receipt in receipts:  # one that had run when its worker was killed runs again
                await pipeline.wait(receipt.id, timeout=SOON_S)
                assert (await pipeline.inspector.job(receipt.id)).state == "completed"


async def test_promoters_at_once_move_each_job_once(redis_server: RedisServer) -> None:
    stores = [await RedisBroker.open(load(redis_url=redis_server.url)) for _ in range(8)]
    try:
        jobs = news(2000, delay_ms=800)
        for first in range(0, len(jobs), 500):
            await stores[0].enqueue(jobs[first : first + 500])

        async def promote(store: RedisBroker) -> int:
            moved = 0
            while (said := await store.promote(100)).due_in_ms is not None or said.moved:
                moved += said.moved
            return moved

        assert sum(await asyncio.gather(*map(promote, stores))) == len(jobs)
        hand, claimed = Hand(stores[0]), list[str]()
        while taken := await hand.take(200):
            claimed += [one.job_id for one in taken]
            await stores[0].settle([settlement(one) for one in taken])
        assert sorted(claimed) == sorted(ids(jobs))
    finally:
        for store in stores:
            await store.close()
