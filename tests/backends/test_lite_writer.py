"""Many operations, one commit: each for itself, none lost, and every failure told."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from contracts.states import JobState
from pipeline.backends.lite.broker import LiteBroker
from pipeline.backends.lite.transaction import Snapshot, Transaction
from pipeline.errors import JobNotFound, StoreFull, StoreUnavailable

from tests.backends.conftest import Open
from tests.support.hand import Hand, ids, new, news, run_all
from tests.support.jobs import turn
from tests.support.waiting import wait_until


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process writes, and takes its time."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@asynccontextmanager
async def busy(broker: LiteBroker) -> AsyncIterator[None]:
    """The writer works on something; what is asked meanwhile waits together."""
    begun, go_on = threading.Event(), threading.Event()

    def work(_transaction: Transaction) -> None:
        begun.set()
        assert go_on.wait(10)

    working = asyncio.ensure_future(broker.writer.submit(work))
    await wait_until(begun.is_set, describe="the writer is at work")
    yield
    await turn()
    go_on.set()
    await working


async def test_operations_that_wait_together_share_one_commit(
    broker: LiteBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[int] = []
    monkeypatch.setattr(broker.writer, "_committed", lambda done: commits.append(len(done)))
    async with busy(broker):
        pauses = [asyncio.ensure_future(broker.pause(f"queue{n}")) for n in range(100)]
    await asyncio.gather(*pauses)
    assert commits == [1, 100]


async def test_an_operation_that_raises_hurts_no_other_of_its_commit(broker: LiteBroker) -> None:
    async with busy(broker):
        bad = [asyncio.ensure_future(broker.run_now("nobody")) for _ in range(3)]
        good = [asyncio.ensure_future(broker.enqueue([new()])) for _ in range(3)]
    assert all(isinstance(e, JobNotFound) for e in await asyncio.gather(*bad, return_exceptions=True))
    receipts = [receipt for (receipt,) in await asyncio.gather(*good)]
    assert await broker.states([receipt.id for receipt in receipts]) == [JobState.PENDING] * 3


async def test_a_job_that_cannot_be_stored_hurts_no_other_enqueue(broker: LiteBroker) -> None:
    jobs = [new(data="1"), new(data="lone surrogate \ud800"), new(data="3")]
    async with busy(broker):
        calls = [asyncio.ensure_future(broker.enqueue([job])) for job in jobs]
    _, failed, _ = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(failed, UnicodeEncodeError)
    assert await broker.states(ids(jobs)) == [JobState.PENDING, None, JobState.PENDING]


async def test_what_an_operation_did_before_it_raised_is_undone(broker: LiteBroker, hand: Hand) -> None:
    def half(transaction: Transaction) -> None:
        transaction.run("pause_queue", queue="default")
        raise KeyError("then it fails")

    await broker.enqueue([new()])
    with pytest.raises(KeyError):
        await broker.writer.submit(half)
    assert len(await hand.take()) == 1


async def test_a_caller_that_is_cancelled_breaks_nothing(broker: LiteBroker) -> None:
    async with busy(broker):
        calls = [asyncio.ensure_future(broker.enqueue([new()])) for _ in range(3)]
        await turn()
        calls[1].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert len(await run_all(broker)) == 2, "what had not begun when its caller went is not done"


async def test_what_a_cancelled_caller_had_begun_is_done(broker: LiteBroker, path: Path) -> None:
    with held(path):
        call = asyncio.ensure_future(broker.enqueue([new()]))
        await turn()
        await wait_until(broker.writer._queue.empty, describe="the writer has it")
        call.cancel()
    await broker.ping()
    assert call.cancelled()
    assert len(await run_all(broker)) == 1


async def test_a_store_held_too_long_is_unavailable_to_all_who_waited(opened: Open, path: Path) -> None:
    broker = opened(busy_s=0.2)
    with held(path):
        calls = [broker.enqueue([new()]) for _ in range(600)]
        errors = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in errors} == {StoreUnavailable}
    assert "another process holds it" in str(errors[0])
    assert await run_all(broker) == []


async def limit_pages(broker: LiteBroker, spare: int) -> None:
    """Let the file grow by `spare` pages and no more, as on a full disk."""

    def limit(transaction: Transaction) -> None:
        (pages,) = transaction.connection.execute("PRAGMA page_count").fetchone()
        transaction.connection.execute(f"PRAGMA max_page_count = {pages + spare}")

    await broker.writer.submit(limit)


async def test_a_full_disk_refuses_jobs_and_loses_none(broker: LiteBroker, hand: Hand) -> None:
    stored = news(20)
    await broker.enqueue(stored)
    await limit_pages(broker, spare=1)
    refused = news(5, data='"' + "x" * 5000 + '"')
    with pytest.raises(StoreFull, match="free space"):
        await broker.enqueue(refused)
    assert await broker.states(ids(refused)) == [None] * 5
    assert await run_all(broker) == ids(stored), "work goes on, and makes room"
    await broker.enqueue(refused[:1])
    assert await broker.states(ids(refused[:1])) == [JobState.PENDING]


async def test_what_needs_no_room_happens_beside_what_does(broker: LiteBroker, hand: Hand) -> None:
    await broker.enqueue(news(3))
    delivery = await hand.take_one()
    await limit_pages(broker, spare=0)
    async with busy(broker):
        full = asyncio.ensure_future(broker.enqueue(news(3, data='"' + "x" * 5000 + '"')))
        done = asyncio.ensure_future(hand.settle(delivery))
    assert await done is JobState.COMPLETED
    with pytest.raises(StoreFull):
        await full


async def test_a_file_that_was_removed_takes_no_jobs_with_it(broker: LiteBroker, path: Path) -> None:
    await broker.enqueue([new()])
    os.unlink(path)  # noqa: PTH108 - pathlib is for other places than a coroutine
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        await broker.enqueue([new()])


async def test_a_closed_broker_says_so(broker: LiteBroker) -> None:
    await broker.close()
    await broker.close()
    for operation in (broker.ping(), broker.job("x"), broker.wait_for_work(["default"], 1)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await operation
    with pytest.raises(StoreUnavailable, match="closed"):
        broker.leases()


async def test_closing_finishes_what_was_asked_before(opened: Open, path: Path) -> None:
    broker = opened()
    jobs = news(200)
    calls = [asyncio.ensure_future(broker.enqueue([job])) for job in jobs]
    await turn()
    await broker.close()
    done = await asyncio.gather(*calls)
    assert len(done) == 200
    assert await opened().states(ids(jobs)) == [JobState.PENDING] * 200


async def test_a_long_listing_holds_up_no_writer(broker: LiteBroker) -> None:
    def slow(snapshot: Snapshot) -> int:
        (count,) = snapshot.connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) SELECT count(*) FROM n"
        ).fetchone()
        return int(count)

    listing = asyncio.ensure_future(broker.reader.run(slow))
    await broker.enqueue([new()])
    assert not listing.done()
    assert await listing == 3_000_000
