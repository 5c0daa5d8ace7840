"""The SQL database: transactions that hold, errors that say what to do, connections that end."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest
from consumers.migrations.migrate import upgrade
from pipeline.errors import ConfigurationError, StoreFull, StoreUnavailable
from pipeline.store import Database
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from tests.support.waiting import wait_until

ADD = text("INSERT INTO things (name) VALUES (:name)")


@pytest.fixture
async def database(tmp_path):
    opened = Database.open(f"sqlite:///{tmp_path / 'a.db'}")
    async with opened.transaction() as session:
        await session.execute(text("CREATE TABLE things (name TEXT PRIMARY KEY)"))
    yield opened
    await opened.close()


async def names(database):
    async with database.read() as session:
        return list(await session.scalars(text("SELECT name FROM things ORDER BY name")))


async def add(database, *added, then=None):
    async with database.transaction() as session:
        for name in added:
            await session.execute(ADD, {"name": name})
        if then:
            raise then


async def test_a_transaction_is_committed_at_the_end_of_its_block(database):
    await add(database, "a", "b")
    assert await names(database) == ["a", "b"]


@pytest.mark.parametrize("cause", [RuntimeError("no"), asyncio.CancelledError(), SystemExit(3)])
async def test_whatever_a_block_raises_rolls_it_back(database, cause):
    with pytest.raises(type(cause)):
        await add(database, "a", then=cause)
    assert await names(database) == []
    await add(database, "b")
    assert await names(database) == ["b"]


async def test_a_transaction_cancelled_while_it_waits_leaves_the_writer_free(database):
    inside = asyncio.Event()

    async def hold():
        async with database.transaction() as session:
            await session.execute(ADD, {"name": "held"})
            inside.set()
            await asyncio.Event().wait()

    holder = asyncio.create_task(hold())
    await inside.wait()
    waiting = asyncio.create_task(add(database, "waits"))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    waiting.cancel()
    holder.cancel()
    await asyncio.gather(holder, waiting, return_exceptions=True)
    await asyncio.wait_for(add(database, "next"), 5)
    assert await names(database) == ["next"]


async def test_a_statement_cancelled_in_the_middle_is_rolled_back_and_the_next_runs(database):
    slow = text(
        "INSERT INTO things WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000000)"
        " SELECT 'row ' || i FROM n"
    )

    async def run():
        async with database.transaction() as session:
            await session.execute(slow)

    task = asyncio.create_task(run())
    await asyncio.wait([task], timeout=0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(add(database, "next"), 2)
    assert await names(database) == ["next"]


async def test_a_reader_sees_one_snapshot_and_is_never_in_the_way(database):
    await add(database, "a")
    async with database.read() as session:
        before = list(await session.scalars(text("SELECT name FROM things")))
        await add(database, "b")
        assert list(await session.scalars(text("SELECT name FROM things"))) == before
    assert await names(database) == ["a", "b"]


async def test_a_reader_cannot_write(database):
    async with database.read() as session:
        with pytest.raises((OperationalError, StoreUnavailable), match="readonly"):
            await session.execute(ADD, {"name": "a"})


async def test_transactions_of_many_tasks_and_processes_take_turns(database, tmp_path):
    other = Database.open(database.url)
    await asyncio.gather(*(add((database, other)[number % 2], f"{number:02}") for number in range(40)))
    await other.close()
    assert len(await names(database)) == 40


async def test_another_process_that_keeps_the_writer_is_an_error_with_a_reason(tmp_path, database):
    hasty = Database.open(database.url, busy_s=0.05)
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await add(hasty, "a")
        holder.execute("ROLLBACK")
    await add(hasty, "b")
    await hasty.close()
    assert await names(database) == ["b"]


async def test_a_writer_kept_by_another_task_is_an_error_after_the_limit(database):
    hasty = Database.open(database.url, busy_s=0.05)
    async with hasty.transaction() as session:
        await session.execute(ADD, {"name": "a"})
        with pytest.raises(StoreUnavailable, match="in use"):
            await add(hasty, "b")
    await hasty.close()
    assert await names(database) == ["a"]


async def test_a_full_disk_says_so_and_loses_nothing_that_was_committed(database):
    await add(database, "a")
    async with database.transaction() as session:
        pages = await session.scalar(text("PRAGMA page_count"))
        await session.execute(text(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StoreFull, match="free space"):
        await add(database, "x" * 100_000)
    assert await names(database) == ["a"]


@pytest.mark.parametrize("after", [[], ["b"]])
async def test_nothing_is_kept_of_a_transaction_that_sqlite_rolled_back_by_itself(database, after):
    async def pass_over_it():
        async with database.transaction() as session:
            await session.execute(ADD, {"name": "a"})
            await session.execute(text("ROLLBACK"))  # as SQLite does after some errors of the disk
            for name in after:
                await session.execute(ADD, {"name": name})

    with pytest.raises(StoreUnavailable, match="rolled this transaction back"):
        await pass_over_it()
    assert await names(database) == []
    await add(database, "c")
    assert await names(database) == ["c"]


async def test_a_commit_that_fails_is_rolled_back(database):
    async with database.transaction() as session:
        await session.execute(
            text("CREATE TABLE parts (of TEXT REFERENCES things DEFERRABLE INITIALLY DEFERRED)")
        )
    with pytest.raises(IntegrityError, match="FOREIGN KEY"):
        async with database.transaction() as session:
            await session.execute(text("INSERT INTO parts VALUES ('nothing')"))
    await add(database, "a")
    assert await names(database) == ["a"]


async def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path):
    (tmp_path / "notes.db").write_text("These are notes, and not at all what SQLite writes. " * 100)
    database = Database.open(f"sqlite:///{tmp_path / 'notes.db'}")
    with pytest.raises(StoreUnavailable, match=r"notes\.db"):
        await names(database)
    await database.close()


async def test_a_folder_that_is_not_there_is_an_error_that_names_the_file(tmp_path):
    database = Database.open(f"sqlite:///{tmp_path / 'nowhere' / 'a.db'}")
    with pytest.raises(StoreUnavailable, match=r"nowhere.*unable to open"):
        await names(database)
    await database.close()


async def test_a_mistake_in_a_statement_stays_what_it_is(database):
    await add(database, "a")
    with pytest.raises(IntegrityError):
        await add(database, "a")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "not a URL"),
        ("mysql://localhost/x", "not supported"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_before_anything_is_opened(url, says):
    with pytest.raises(ConfigurationError, match=says):
        Database.open(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:ge@heim:4711@127.0.0.1:9432/app",
        "postgresql://u:geheim@host:port/app",
        "postgresql://u:geheim@host:99999/app",
        "postgresql://u:geheim@[::1/app",
        "sqlite://u:heim@h:x/app",
    ],
)
@pytest.mark.parametrize("reading", [Database.open, upgrade])
def test_a_url_with_a_wrong_port_is_refused_without_what_it_says(reading, url):
    with pytest.raises(ConfigurationError, match="no port") as said:
        reading(url)
    assert "heim" not in str(said.value)


async def test_every_commit_is_on_the_disk(database):
    async with database.transaction() as session:
        assert await session.scalar(text("PRAGMA synchronous")) == 2
        assert await session.scalar(text("PRAGMA journal_mode")) == "wal"
        assert await session.scalar(text("PRAGMA foreign_keys")) == 1


async def test_a_closed_database_has_no_thread(tmp_path):
    before = threading.active_count()
    database = Database.open(f"sqlite:///{tmp_path / 'b.db'}")
    async with database.transaction() as session:
        await session.execute(text("CREATE TABLE t (a)"))
    async with database.read() as session:
        await session.execute(text("SELECT * FROM t"))
    assert threading.active_count() > before
    await database.close()
    await wait_until(lambda: threading.active_count() == before, describe="its threads have ended")
