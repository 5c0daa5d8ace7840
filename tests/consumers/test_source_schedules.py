"""Scheduled runs: one a tick, however many look; and what becomes of runs whose job is lost."""

import asyncio
from typing import Any

import pytest
from consumers.sources import firing, registry, runs
from consumers.sources.firing import Firing, firing_id
from contracts.sources import SyncMode, SyncState
from pipeline.clock import HOUR_MS, now_ms
from pipeline.errors import ConfigurationError
from sqlalchemy import text

from tests.support.harvest import Harvest, counts, open_harvest, write


@pytest.fixture
async def harvest(tmp_path, database_url):
    async with open_harvest(tmp_path, database_url) as opened:
        yield opened


@pytest.fixture
def at(monkeypatch):
    """Says which time it is for what is due."""

    def at(moment: int) -> None:
        monkeypatch.setattr(firing, "now_ms", lambda: moment)

    return at


def another(harvest: Harvest) -> Firing:
    """What another process would look with."""
    pipeline = harvest.pipeline
    return Firing(harvest.services.outbox, pipeline.inspector.has_queued, pipeline.broker.states)


async def logs(harvest: Harvest, source: Any) -> list[tuple[SyncState, str]]:
    async with harvest.services.database.read() as session:
        return [(run.state, run.message) for run in await runs.runs_of(session, source.id, 100)]


async def test_what_is_due_runs_once_however_many_processes_look(harvest: Harvest, at, tmp_path):
    write(tmp_path / "papers", {"a.md": "a"})
    source = await harvest.source(cron="0 * * * *")
    await another(harvest).tick()
    assert not await logs(harvest, source)
    due = source.next_run_at
    assert due
    assert due % HOUR_MS == 0
    at(due + 1000)
    await asyncio.gather(*(another(harvest).tick() for _ in range(8)))
    assert len(await logs(harvest, source)) == 1
    await harvest.work()
    await another(harvest).tick()
    (run,) = await look(harvest, source)
    assert (run.trigger, run.job_id, counts(run)) == ("schedule", firing_id(source.id, due), {"created": 1})
    assert (await harvest.row(source)).next_run_at == due + HOUR_MS


async def look(harvest: Harvest, source: Any) -> Any:
    async with harvest.services.database.read() as session:
        return await runs.runs_of(session, source.id, 100)


async def test_what_was_missed_is_made_up_for_once_and_a_clock_set_back_repeats_nothing(harvest: Harvest, at):
    source = await harvest.source(cron="*/10 * * * *")
    due = source.next_run_at or 0
    at(due + 24 * HOUR_MS)
    await another(harvest).tick()
    assert len(await logs(harvest, source)) == 1
    await harvest.work()
    at(due + 23 * HOUR_MS)
    await another(harvest).tick()
    assert len(await logs(harvest, source)) == 1


async def test_a_tick_is_left_out_while_a_run_is_under_way_or_the_source_paused(harvest: Harvest, at):
    source = await harvest.source(cron="@hourly")
    asked = await harvest.ask(source)
    at((source.next_run_at or 0) + 1)
    await another(harvest).tick()
    assert [run.id for run in await look(harvest, source)] == [asked]
    await harvest.work()
    async with harvest.services.database.transaction() as session:
        await registry.pause(session, await registry.find(session, 7, source.id, keep=True) or source)
    at(now_ms() + 48 * HOUR_MS)
    await another(harvest).tick()
    assert len(await look(harvest, source)) == 1
    async with harvest.services.database.transaction() as session:
        await registry.resume(session, await registry.find(session, 7, source.id, keep=True) or source)
    assert (
        (await harvest.row(source)).next_run_at or 0
    ) > now_ms()  # what was due meanwhile is not made up for


async def test_a_tick_whose_job_is_known_already_leaves_a_canceled_log(harvest: Harvest, at):
    source = await harvest.source(cron="@hourly")
    due = source.next_run_at or 0
    at(due)
    await another(harvest).tick()
    await harvest.work()
    async with harvest.services.database.transaction() as session:  # as a restored backup would have it
        await session.execute(text("DELETE FROM sync_logs"))
        await session.execute(text("UPDATE data_sources SET next_run_at = :due"), {"due": due})
    await another(harvest).tick()
    assert await logs(harvest, source) == [(SyncState.CANCELED, "this tick had its run already")]
    await harvest.work()
    assert len(await logs(harvest, source)) == 1


async def test_a_run_whose_job_is_lost_is_ended_and_one_that_only_waits_is_not(harvest: Harvest, at):
    lost, waiting = await harvest.source(name="lost"), await harvest.source(name="waiting")
    lost_run, waiting_run = await harvest.ask(lost), await harvest.ask(waiting)
    await harvest.pipeline.inspector.cancel(lost_run or "")
    await another(harvest).tick()
    assert await logs(harvest, lost) == [(SyncState.RUNNING, "")]
    at(now_ms() + firing.SILENT_MS + 1000)
    await another(harvest).tick()
    ((state, message),) = await logs(harvest, lost)
    assert (state, "its job is gone" in message) == (SyncState.FAILED, True)
    assert (await harvest.run(waiting_run or "")).state is SyncState.RUNNING
    assert await harvest.ask(lost)


async def test_the_mode_of_a_schedule_is_its_own(harvest: Harvest, at):
    source = await harvest.source(cron="@daily", mode=SyncMode.RECONCILE, timezone="Europe/Berlin")
    at(source.next_run_at or 0)
    await another(harvest).tick()
    (run,) = await look(harvest, source)
    assert run.mode is SyncMode.RECONCILE
    for wrong in ({"cron": "x"}, {"cron": "@daily", "timezone": "Mars"}, {"mode": SyncMode.PARTIAL_RESYNC}):
        with pytest.raises(ConfigurationError):
            await harvest.source(name="wrong", **wrong)
