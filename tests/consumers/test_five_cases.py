"""Every handler: happy, run twice, cancelled in the middle, given poison, and with what it depends on down and up again.

The rows say how a job of each type comes to be asked for; everything runs in a real worker, on real parts.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from consumers.lanes import HANDLERS
from contracts.states import JobState

from tests.support.embedding_server import embedding_server
from tests.support.five import carrying, documents, store
from tests.support.five.rows import Row
from tests.support.five.stepping import Watch
from tests.support.five.world import (
    IMPATIENT_S,
    OF,
    Snapshot,
    World,
    but_for_accounts,
    difference,
    in_reach,
    lasting,
    open_world,
)
from tests.support.house import PLACES
from tests.support.waiting import wait_until

ROWS = (*documents.ROWS, *carrying.ROWS, *store.ROWS)
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.type)
on_both = pytest.mark.parametrize("place", PLACES)
Place = tuple[str, str]

_undisturbed: dict[tuple[str, Place, bool], tuple[Snapshot, int]] = {}


async def undisturbed(row: Row, place: Place, folder: Path, models: Any = None) -> tuple[Snapshot, int]:
    """What a job comes to, and of how many awaits it is; found out once for each type and place."""
    if (row.type, place, bool(models)) not in _undisturbed:
        async with open_world(folder / "undisturbed", place, models) as world:
            _, watch = await happy(world, row)
            _undisturbed[row.type, place, bool(models)] = await world.snapshot(), watch.runs[0].count
    return _undisturbed[row.type, place, bool(models)]


async def happy(world: World, row: Row) -> tuple[Snapshot, Watch]:
    """Run the job of a row; what there was before."""
    await row.begin(world)
    before, watch = await world.snapshot(), Watch(OF[row.type])
    record = await world.the_job(row.type)
    assert await world.run(watch, record.job.id) == [JobState.COMPLETED]
    return before, watch


def test_every_handler_has_a_row() -> None:
    assert sorted(row.type for row in ROWS) == sorted(handler.payload.spec.type for handler in HANDLERS)


@every_row
@on_both
async def test_it_does_its_work_in_one_run(row: Row, place: Place, tmp_path) -> None:
    async with open_world(tmp_path, place) as world:
        before, watch = await happy(world, row)
        after = await world.snapshot()
        assert len(watch.runs) == 1
        assert difference(before, after).keys() - {"jobs"}
        await world.expect_rest()
        _undisturbed[row.type, place, False] = after, watch.runs[0].count


@every_row
@on_both
async def test_delivered_twice_it_comes_to_the_same(row: Row, place: Place, tmp_path) -> None:
    async with open_world(tmp_path, place) as world:
        await row.begin(world)
        record, watch = await world.the_job(row.type), Watch(OF[row.type], loses_reply=True)
        assert await world.run(watch, record.job.id) == [JobState.COMPLETED]
        once, _ = await undisturbed(row, place, tmp_path)
        assert not difference(await world.snapshot(), once)
        assert len(watch.runs) == 2
        if not row.alone:
            receipt = await world.pipeline.enqueue(world.payload(record))
            assert await world.run(Watch(OF[row.type]), receipt.id) == [JobState.COMPLETED]
            assert not difference(await world.snapshot(), once)


@pytest.mark.slow
@every_row
@on_both
async def test_cancelled_in_the_middle_it_holds_nothing_and_asked_again_it_comes_to_the_same(
    row: Row, place: Place, tmp_path
) -> None:
    once, awaits = await undisturbed(row, place, tmp_path)
    hits = 0
    async with open_world(tmp_path, place) as world:
        await row.begin(world)
        for part in (1 / 6, 1 / 2, 5 / 6):
            record = await world.the_job(row.type)
            watch = Watch(OF[row.type], at=max(1, round(awaits * part)))
            if not await world.cancelled_in(watch, record, row.stop):
                break
            hits += 1
            await world.expect_rest()
            if await row.again(world, record) is False:
                break
        else:
            record = await world.the_job(row.type)
            assert await world.run(Watch(OF[row.type]), record.job.id) == [JobState.COMPLETED], (
                await world.death(record.job.id)
            )
        assert hits
        assert not difference(lasting(await world.snapshot()), lasting(once))


@every_row
@on_both
async def test_poison_is_given_up_at_once_and_the_next_job_is_done(row: Row, place: Place, tmp_path) -> None:
    once, _ = await undisturbed(row, place, tmp_path)
    async with open_world(tmp_path, place) as world:
        await row.begin(world)
        record, turn = await world.the_job(row.type), asyncio.Event()
        watch = Watch(OF[row.type], held={record.job.id: turn})
        job, before = world.payload(record), await world.snapshot()
        async with world.working(watch):
            for payload in world.strange(job):
                ident = (await world.pipeline.enqueue(payload)).id
                end = await world.ended(ident)
                if end is JobState.ARCHIVED:
                    why = await wait_until(partial(world.death, ident), describe="its death is written down")
                    assert why[0] == "skip", why
                    assert " " in why[1], why
                assert watch.of_job[ident] == 1
                assert not difference(but_for_accounts(await world.snapshot()), but_for_accounts(before)), (
                    payload
                )
            turn.set()
            assert await world.ended(record.job.id) is JobState.COMPLETED
        await world.services.outbox.relay(older_than_ms=0)
        assert not difference(but_for_accounts(await world.snapshot()), but_for_accounts(once))


@pytest.mark.parametrize("row", [row for row in ROWS if row.unreadable], ids=lambda row: row.type)
@on_both
async def test_what_nobody_can_read_is_given_up_with_a_reason_and_the_next_job_is_done(
    row: Row, place: Place, tmp_path
) -> None:
    once, _ = await undisturbed(row, place, tmp_path)
    async with open_world(tmp_path, place) as world:
        assert row.unreadable is not None
        await row.unreadable(world)
        record, watch = await world.the_job(row.type), Watch(OF[row.type])
        assert await world.run(watch, record.job.id) == [JobState.ARCHIVED]
        reason, said = await world.death(record.job.id) or ("", "")
        assert (reason, len(watch.runs)) == ("skip", 1)
        assert len(said.split()) > 3, said
        await world.expect_rest()
        await row.begin(world)
        record = await world.the_job(row.type)
        assert await world.run(watch, record.job.id) == [JobState.COMPLETED]
        lacking = {
            name: theirs for name, (_, theirs) in difference(await world.snapshot(), once).items() if theirs
        }
        assert not lacking


DOWN = [
    pytest.param(row, need, place.values[0], id=f"{place.id}-{row.type}-{need}", marks=place.marks)
    for row in ROWS
    for need in row.needs
    for place in (PLACES if need == "database" else PLACES[:1])
]


@pytest.fixture
def models() -> Iterator[Any]:
    with embedding_server() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(("row", "need", "place"), DOWN)
async def test_it_waits_for_what_is_down_and_goes_on_when_it_is_up(
    row: Row, need: str, place: Place, tmp_path, models
) -> None:
    given = models if need == "embedder" else None
    once, awaits = await undisturbed(row, place, tmp_path, given)
    async with open_world(tmp_path, place, given, IMPATIENT_S) as world:
        await row.begin(world)
        record = await world.the_job(row.type)
        watch = Watch(OF[row.type], at=max(1, round(awaits * row.needs[need])))
        async with world.working(watch):
            await world.hurry(row.type)
            await wait_until(lambda: watch.runs, describe="it runs")
            run = watch.runs[0]
            with await in_reach(run, world, need):
                run.go.set()
                await wait_until(lambda: world.put_off(record), describe="it is put off", timeout=30)
            assert await world.ended(record.job.id) is JobState.COMPLETED
        await world.services.outbox.relay(older_than_ms=0)
        failures = {0, 1} if need == "source" else {0}  # it is somebody else's, and is not waited for long
        assert watch.failures == failures, "an outage is no failure of the job"
        assert not difference(lasting(await world.snapshot()), lasting(once))
        await world.expect_rest()
