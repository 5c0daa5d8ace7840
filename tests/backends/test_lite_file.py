"""One file: what it survives, where it refuses to be, and what it says when it cannot be used."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from contracts.states import JobState
from pipeline.backends.lite.broker import LiteBroker
from pipeline.backends.lite.connection import SCHEMA_VERSION, UPGRADES, refuse_network
from pipeline.errors import ConfigurationError, StoreUnavailable

from tests.backends.conftest import Open
from tests.support.hand import Hand, ids, new, news, run_all


def files_beside(path: Path) -> list[Path]:
    return list(path.parent.iterdir())


def damage(path: Path) -> None:
    """Leave the first page and the last as they are."""
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 8192))


async def test_everything_survives_a_restart(opened: Open) -> None:
    first = opened()
    pending, scheduled, active = new(), new(delay_ms=60_000), new()
    await first.enqueue([active, pending, scheduled])
    delivery = await Hand(first).take_one()
    await first.pause("low")
    await first.close()
    again = opened()
    assert await again.states(ids([active, pending, scheduled])) == [
        JobState.ACTIVE,
        JobState.PENDING,
        JobState.SCHEDULED,
    ]
    assert await Hand(again).settle(delivery) is JobState.COMPLETED
    assert [one.name for one in await again.queue_stats() if one.paused] == ["low"]


async def test_closing_leaves_one_file_and_nothing_open(path: Path) -> None:
    process = psutil.Process()
    threads, files = threading.active_count(), process.num_fds()
    for _ in range(3):
        broker = LiteBroker.open(path)
        broker.on_signal(lambda: None)
        leases = broker.leases()
        await broker.enqueue([new()])
        leases.renew(await Hand(broker).take())
        await broker.close()
    assert files_beside(path) == [path]
    assert (threading.active_count(), process.num_fds()) == (threads, files)


async def test_a_broker_without_a_path_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker = LiteBroker.open(None)
    await broker.enqueue(news(3))
    assert len(await run_all(broker)) == 3
    await broker.close()
    assert files_beside(tmp_path / "any") == []


async def test_the_folder_is_made(tmp_path: Path) -> None:
    broker = LiteBroker.open(tmp_path / "new" / "folder" / "queue.db")
    await broker.ping()
    await broker.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match=r"folder .*file/sub cannot be made"):
        LiteBroker.open(tmp_path / "file" / "sub" / "queue.db")


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"notes of somebody else\n" * 100)
    with pytest.raises(StoreUnavailable, match="not a queue file"):
        LiteBroker.open(path)
    assert path.read_bytes().startswith(b"notes of somebody else")


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")
    with pytest.raises(ConfigurationError, match="another program"):
        LiteBroker.open(path)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_schema").fetchall() == [("notes",)]


async def test_a_file_of_a_newer_version_is_refused(path: Path, opened: Open) -> None:
    await opened().close()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(ConfigurationError, match="newer version"):
        LiteBroker.open(path)


async def test_a_file_of_an_older_version_is_refused_with_what_to_do(path: Path, opened: Open) -> None:
    await opened().close()
    with closing(sqlite3.connect(path)) as older:
        older.execute(f"PRAGMA user_version = {min(UPGRADES) - 1}")
    with pytest.raises(
        ConfigurationError, match="older version: finish its jobs with that one, or move it away"
    ):
        LiteBroker.open(path)


async def test_a_file_that_lacks_what_came_later_gets_it(path: Path, opened: Open) -> None:
    broker = opened()
    await broker.enqueue([new()])
    await broker.close()
    with closing(sqlite3.connect(path)) as older:
        older.execute("DROP INDEX dead_untended")
        older.execute("ALTER TABLE dead DROP COLUMN tended")
        older.execute("PRAGMA user_version = 4")
    broker = opened()
    assert (await broker.queue_stats())[0].pending == 1
    assert await broker.dead_letters(["default"], 1, tended=True) == []


async def test_a_damaged_file_is_reported_with_what_to_do(path: Path, opened: Open) -> None:
    broker = opened()
    await broker.enqueue(news(500))
    await broker.close()
    damage(path)
    with pytest.raises(StoreUnavailable, match="damaged: stop all workers"):
        await run_all(opened())


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
async def test_a_file_that_may_not_be_written_is_reported(path: Path, opened: Open) -> None:
    await opened().close()
    os.chmod(path, 0o400)  # noqa: PTH101 - pathlib is for other places than a coroutine
    with pytest.raises(StoreUnavailable, match="write permission"):
        LiteBroker.open(path)


def test_a_directory_in_its_place_is_reported(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        LiteBroker.open(path)


def mounted(where: str, kind: str) -> SimpleNamespace:
    return SimpleNamespace(mountpoint=where, fstype=kind)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p", "SMB3", "fuse.glusterfs"])
def test_a_network_file_system_is_refused(kind: str) -> None:
    mounts = [mounted("/", "ext4"), mounted("/share", kind)]
    with pytest.raises(ConfigurationError, match="put the data folder on a local disk"):
        refuse_network(Path("/share/data/queue.db"), mounts)


def test_only_the_file_system_that_holds_the_file_counts() -> None:
    mounts = [mounted("/", "nfs"), mounted("/local", "ext4"), mounted("/local/share", "nfs")]
    refuse_network(Path("/local/data/queue.db"), mounts)
    refuse_network(Path("/local/shared/queue.db"), mounts)


async def test_several_processes_open_a_new_file_at_once(path: Path) -> None:
    async def one() -> None:
        broker = await asyncio.to_thread(LiteBroker.open, path)
        await broker.enqueue([new()])
        await broker.close()

    await asyncio.gather(*(one() for _ in range(8)))
    broker = LiteBroker.open(path)
    assert len(await run_all(broker)) == 8
    await broker.close()
