"""A disk without room: it is called by its name, nothing queued is lost, and work goes on once there is room."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from consumers.migrations.migrate import upgrade
from contracts.jobs import JobPayload
from pipeline import Context, Pipeline
from pipeline.backends.lite.broker import LiteBroker
from pipeline.errors import EnqueueFailed, StoreFull

from tests.support.commands import streamlane
from tests.support.disks import TinyDisk, tiny_disk
from tests.support.jobs import handles, working

pytestmark = pytest.mark.slow


class Weigh(JobPayload, type="support:weigh", queue="default"):
    """Carry a load."""

    load: str = ""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[TinyDisk]:
    with tiny_disk(tmp_path / "disk") as mounted:
        yield mounted


@pytest.mark.parametrize("spare_kb", [0, 40, 120])
def test_a_queue_that_has_no_room_to_begin_with_says_so(disk: TinyDisk, spare_kb: int) -> None:
    disk.fill(spare_kb=spare_kb)
    done = streamlane("queues", "--json", data_dir=disk.root / "data")
    assert done.code == 1
    assert "free space" in done.json["error"]


async def test_files_that_are_opened_again_on_a_full_disk_say_so(disk: TinyDisk) -> None:
    queue, url = disk.root / "queue.db", f"sqlite:///{disk.root}/streamlane.db"
    await LiteBroker.open(queue).close()
    upgrade(url)
    disk.fill()
    with pytest.raises(StoreFull, match=r"queue\.db: free space"):
        LiteBroker.open(queue)
    with pytest.raises(StoreFull, match=r"streamlane\.db: free space"):
        upgrade(url)


async def enqueue_until_full(pipeline: Pipeline, accepted: list[str]) -> None:
    while True:
        accepted.append((await pipeline.enqueue(Weigh(load="x" * 20_000))).id)


async def test_a_disk_that_fills_up_while_jobs_run_loses_none_and_work_goes_on_when_there_is_room(
    disk: TinyDisk,
) -> None:
    ran: list[str] = []

    async def weigh(_: Weigh, ctx: Context[None]) -> None:
        ran.append(ctx.id)

    async with Pipeline.open(data_dir=disk.root / "data") as pipeline:
        accepted = [(await pipeline.enqueue(Weigh(), delay=delay)).id for delay in (0, 0, 0.5, 0.5)]
        async with working(pipeline, handles(weigh, Weigh)):
            disk.fill()
            with pytest.raises(EnqueueFailed, match="free space"):
                await enqueue_until_full(pipeline, accepted)
            disk.free()
            accepted.append((await pipeline.enqueue(Weigh(load="x" * 20_000))).id)
            for ident in accepted:
                await pipeline.wait(ident, timeout=60)
    assert set(ran) == set(accepted)
