"""One process sweeps at a time, each five minutes once, and another one goes on where it was killed."""

import asyncio
from contextlib import AsyncExitStack, suppress

import pytest
from consumers.knowledge.documents.lifecycle import delete
from contracts.knowledge import ParseStatus
from contracts.payloads.maintenance import KnowledgeListDelete
from pipeline.clock import now_ms
from pipeline.errors import StoreUnavailable
from pipeline.holding import holding
from pipeline.looper import Looper

from tests.support.house import PLACES, open_house
from tests.support.library import Killed
from tests.support.library_work import killed_at
from tests.support.waiting import stays_true, wait_until

PENDING, FAILED = ParseStatus.PENDING, ParseStatus.FAILED
LEASE_S = 0.6


@pytest.fixture(params=PLACES)
async def opened(request, tmp_path):
    """Open the house with settings."""
    async with AsyncExitStack() as houses:

        async def open_(**settings):
            return await houses.enter_async_context(open_house(tmp_path, request.param, **settings))

        yield open_


@pytest.fixture
async def house(opened):
    return await opened()


async def stuck(house, content="one"):
    document = await house.document(PENDING, content)
    await house.lose_jobs()
    await house.age()
    return document


async def test_of_many_processes_one_sweeps_in_each_period(house):
    first = await stuck(house)
    pauses = await asyncio.gather(*(house.keeper(every_s=3600).tick() for _ in range(5)))
    assert await house.library.status(first.id) is FAILED
    assert all(0 < pause <= 3600 for pause in pauses)
    second = await house.document(PENDING, "two")
    await house.cancel_jobs(second)
    await house.age()
    await house.keeper(every_s=3600).tick()
    assert await house.library.status(second.id) is PENDING, "this period has had its sweep"


async def test_sweeps_are_aligned_so_that_all_processes_come_together(house):
    every_s = 7.0
    keeper = house.keeper(every_s=every_s)
    pause = await keeper.tick()
    due = now_ms() / 1000 + pause
    assert min(due % every_s, every_s - due % every_s) < 1


async def test_a_sweep_that_still_runs_is_not_joined_by_another(house):
    document = await stuck(house)
    waiting = house.keeper()
    async with holding(house.pipeline.broker, "housekeeping", 30) as place:
        assert place is not None
        assert await waiting.tick() <= 10, "it comes back: whoever leads may be lost"
        assert await waiting.sweep() is None
        assert await house.library.status(document.id) is PENDING
    assert await waiting.tick() > 0
    assert await house.library.status(document.id) is FAILED


async def test_where_the_leader_was_killed_another_sweeps_within_the_lease(house):
    document = await stuck(house)
    assert await house.pipeline.broker.lock("housekeeping", "killed", round(LEASE_S * 1000)) is not None
    looper = Looper("sweeps", house.keeper(lease_s=LEASE_S).tick)
    looper.start()

    async def swept() -> bool:
        return await house.library.status(document.id) is FAILED

    try:
        assert not await swept()
        await wait_until(swept, describe="another sweeps", timeout=5 * LEASE_S)
    finally:
        await looper.stop()


async def test_a_leader_that_works_for_long_stays_the_leader(house):
    long, other = house.keeper(lease_s=LEASE_S), house.keeper(lease_s=LEASE_S)
    begun, enough = asyncio.Event(), asyncio.Event()

    async def takes_long():
        begun.set()
        await enough.wait()

    long.recover = takes_long
    leading = asyncio.create_task(long.tick())
    await begun.wait()

    async def refused():
        return await other.sweep() is None

    await stays_true(refused, describe="nobody else sweeps", during=3 * LEASE_S)
    enough.set()
    await leading


async def test_a_leader_that_has_lost_its_place_leaves_the_sweep_to_the_next(house, monkeypatch):
    document = await stuck(house)
    broker, keeper = house.pipeline.broker, house.keeper(lease_s=LEASE_S)

    async def taken(*_):
        return None

    def renewed():
        return any(task.get_name() == "lock housekeeping" for task in asyncio.all_tasks())

    async def until_it_is_lost():
        with monkeypatch.context() as patch:
            patch.setattr(broker, "lock", taken)
            assert renewed()
            await wait_until(lambda: not renewed(), describe="it is lost")

    keeper.recover = until_it_is_lost
    await keeper.tick()
    assert await house.library.status(document.id) is PENDING
    await house.keeper().tick()
    assert await house.library.status(document.id) is FAILED


async def test_a_clock_that_was_far_ahead_does_not_stop_the_sweeps(house):
    document = await stuck(house)
    await house.pipeline.broker.remember("housekeeping", str(10**9), anew=True)
    await house.keeper().tick()
    assert await house.library.status(document.id) is FAILED


async def test_switched_off_it_does_not_sweep_by_itself_and_still_does_when_asked(opened):
    house = await opened(housekeeping_enabled=False)
    document = await stuck(house)
    keeper = house.keeper()
    assert await keeper.tick() > 0
    assert await house.library.status(document.id) is PENDING
    assert len((await house.sweep()).deeds) == 1


async def test_the_threshold_is_a_setting(opened):
    house = await opened(housekeeping_threshold_s=4 * 3600)
    document = await stuck(house)
    assert (await house.sweep()).deeds == []
    await house.age()
    await house.sweep()
    assert "(> 4h0m0s)" in (await house.library.document(document.id)).error_message


async def test_an_outage_of_the_queue_puts_the_sweep_off_until_it_is_over(house):
    document = await stuck(house)
    looper = Looper("sweeps", house.keeper().tick)

    async def swept() -> bool:
        return await house.library.status(document.id) is FAILED

    with house.backend.faults.away():
        looper.start()
        await wait_until(lambda: looper.failing, describe="a sweep was tried")
        assert not await swept()
    await wait_until(swept, describe="it was made up for")
    await looper.stop()


async def test_an_outage_of_the_database_never_fails_documents(house, monkeypatch):
    documents = [await stuck(house, content) for content in ("one", "two")]
    await house.impatient()
    inspector, outage = house.pipeline.inspector, AsyncExitStack()
    asked = inspector.has_queued

    async def and_then_it_is_away(*args):
        answer = await asked(*args)
        await outage.enter_async_context(house.database_away())
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(inspector, "has_queued", and_then_it_is_away)
        async with outage:
            with pytest.raises(StoreUnavailable):
                await house.looks()
    for document in documents:
        assert await house.library.status(document.id) is PENDING
    assert len((await house.sweep()).deeds) == 2


async def test_without_a_database_nothing_is_decided(house):
    document = await stuck(house)
    keeper = house.keeper()
    if house.proxy is None:
        pytest.skip("SQLite has no connection that could be cut: its file is open")
    with house.proxy.away(), pytest.raises(StoreUnavailable):
        await keeper.sweep()
    assert await house.library.status(document.id) is PENDING
    await keeper.sweep()
    assert await house.library.status(document.id) is FAILED


async def test_stopping_does_not_wait_for_a_sweep_that_hangs(house):
    await stuck(house)
    asked = asyncio.Event()

    async def never(*_):
        asked.set()
        await asyncio.Event().wait()

    house.pipeline.inspector.has_queued = never
    looper = Looper("sweeps", house.keeper().tick)
    looper.start()
    await asked.wait()
    async with asyncio.timeout(10):
        await looper.stop()
    assert await house.pipeline.broker.lock("housekeeping", "another", 1000) is not None


async def test_a_sweep_that_is_killed_at_any_statement_is_made_up_for_by_the_next(tmp_path):
    async with open_house(tmp_path, ("lite", "sqlite")) as house:
        library = house.library

        async def left_behind(content):
            await house.document(PENDING, f"pending{content}")
            await house.document(ParseStatus.FINALIZING, f"finalizing{content}")
            deleting = await house.document(PENDING, f"deleting{content}")
            await library.do(delete, 7, [deleting.id], now_ms())
            await house.lose_jobs()
            await house.age()

        await left_behind("")
        with killed_at(0) as statements:
            await house.looks()
        states = "SELECT parse_status, count(*) FROM knowledges GROUP BY 1 ORDER BY 1"
        once = await library.rows(states)
        assert once == [("completed", 1), ("deleting", 1), ("failed", 1)]
        for number in range(1, len(statements), 3):
            await house.clear()
            await left_behind(number)
            with killed_at(number) as ran:
                with suppress(Killed):
                    await house.looks()
                assert len(ran) == number, "it was killed"
                await library.reopen()
                house.reopen_outbox()
                await house.looks()
            assert await library.rows(states) == once, f"killed before statement {number}"
            assert await library.rows("SELECT count(*) FROM slots") == [(0,)]
            assert len(await house.waiting(KnowledgeListDelete)) == 1
