"""PostgreSQL: transactions that hold, errors that say what to do, connections that come back."""

import asyncio

import pytest
from pipeline.errors import ConfigurationError, StoreFull, StoreUnavailable
from pipeline.store import Database, insert_new
from pipeline.store.postgres import libpq_url, named, session_settings
from sqlalchemy import Column, MetaData, Table, Text, make_url, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from tests.support.postgres_server import PostgresServer, drop, empty_database, fetch, run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

ADD = text("INSERT INTO things (name) VALUES (:name)")
SLOW = text("SELECT pg_sleep(60)")
THINGS = Table("things", MetaData(), Column("name", Text, primary_key=True))


@pytest.fixture
def url():
    made = empty_database()
    run(made, "CREATE TABLE things (name TEXT PRIMARY KEY)")
    yield made
    drop(made)


@pytest.fixture
async def database(url):
    opened = Database.open(url)
    yield opened
    await opened.close()


@pytest.fixture
def server():
    """A server of the test's own, with the table."""
    started = PostgresServer().start()
    run(started.url, "CREATE TABLE things (name TEXT PRIMARY KEY)")
    yield started
    started.close()


async def names(database):
    async with database.read() as session:
        return list(await session.scalars(text("SELECT name FROM things ORDER BY name")))


async def add(database, *added, then=None):
    async with database.transaction() as session:
        for name in added:
            await session.execute(ADD, {"name": name})
        if then:
            raise then


def waiting(url):
    (row,) = fetch(url, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    return bool(row[0])


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


async def test_what_a_block_raises_itself_is_not_taken_for_an_error_of_the_database(database):
    for cause in (TimeoutError("mine"), ConnectionResetError("mine"), OSError("mine")):
        with pytest.raises(type(cause), match="mine"):
            await add(database, "a", then=cause)


async def test_writers_do_not_wait_for_each_other(database):
    async with database.transaction() as session:
        await session.execute(ADD, {"name": "a"})
        await asyncio.wait_for(add(database, "b"), 10)
    assert await names(database) == ["a", "b"]


async def test_who_writes_can_look_something_up_however_many_write(url):
    database = Database.open(url, connections=4, busy_s=20)

    async def write(number):
        async with database.transaction() as session:
            await session.execute(ADD, {"name": str(number)})
            return len(await names(database))

    await asyncio.gather(*map(write, range(12)))
    assert len(await names(database)) == 12
    await database.close()


async def test_no_more_connections_are_made_than_allowed(url):
    database = Database.open(url, connections=3)
    await asyncio.gather(
        *(add(database, str(number)) for number in range(20)), *(names(database) for _ in range(20))
    )
    (row,) = fetch(url, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamlane'")
    assert row[0] <= 3
    await database.close()


async def test_a_reader_sees_one_snapshot(database):
    await add(database, "a")
    async with database.read() as session:
        before = list(await session.scalars(text("SELECT name FROM things")))
        await add(database, "b")
        assert list(await session.scalars(text("SELECT name FROM things"))) == before
    assert await names(database) == ["a", "b"]


async def test_a_reader_cannot_write(database):
    with pytest.raises(StoreUnavailable, match="read-only"):
        async with database.read() as session:
            await session.execute(ADD, {"name": "a"})
    await add(database, "b")


async def test_a_statement_cancelled_in_the_middle_is_rolled_back_and_the_next_runs(database, url):
    async def run_slowly():
        async with database.transaction() as session:
            await session.execute(ADD, {"name": "a"})
            await session.execute(SLOW)

    task = asyncio.create_task(run_slowly())
    asleep = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    await wait_until(lambda: bool(fetch(url, asleep)), describe="it sleeps")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(add(database, "a"), 10)
    assert await names(database) == ["a"]


async def test_of_two_that_wait_for_each_other_one_is_told_to_repeat(database, url):
    await add(database, "a", "b")
    change = text("UPDATE things SET name = name WHERE name = :name")
    first, second = asyncio.Event(), asyncio.Event()

    async def both(names, mine, others):
        async with database.transaction() as session:
            await session.execute(change, {"name": names[0]})
            mine.set()
            await others.wait()
            await session.execute(change, {"name": names[1]})

    ended = await asyncio.gather(both("ab", first, second), both("ba", second, first), return_exceptions=True)
    (refused,) = [one for one in ended if one is not None]
    assert isinstance(refused, StoreUnavailable)
    assert "deadlock detected" in str(refused)


async def test_a_row_that_somebody_keeps_locked_is_an_error_after_the_limit(database, url):
    hasty = Database.open(url, busy_s=0.2)
    await add(database, "a")
    async with database.transaction() as session:
        await session.execute(text("DELETE FROM things"))
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            async with hasty.transaction() as other:
                await other.execute(text("DELETE FROM things"))
    await hasty.close()


async def test_connections_all_in_use_are_an_error_after_the_limit(url):
    hasty = Database.open(url, busy_s=0.1, connections=2)
    async with hasty.transaction() as session:
        await session.execute(ADD, {"name": "a"})
        with pytest.raises(StoreUnavailable, match="in use"):
            await add(hasty, "b")
    await hasty.close()


async def test_a_statement_that_takes_too_long_is_ended_as_the_url_says(url):
    database = Database.open(url.update_query_dict({"statement_timeout": "100"}))
    with pytest.raises(StoreUnavailable, match="statement timeout"):
        async with database.transaction() as session:
            await session.execute(SLOW)
    await database.close()


@pytest.mark.parametrize(
    ("state", "kind"),
    [("53100", StoreFull), ("53300", StoreUnavailable), ("40001", StoreUnavailable), ("57P02", StoreUnavailable),
     ("58030", StoreUnavailable), ("XX001", StoreUnavailable), ("22012", DBAPIError), ("XX000", DBAPIError)],
)  # fmt: skip
async def test_states_of_the_world_are_told_from_mistakes(database, state, kind):
    raised = text(f"DO $$ BEGIN RAISE EXCEPTION 'because' USING ERRCODE = '{state}'; END $$")
    with pytest.raises(kind) as said:
        async with database.transaction() as session:
            await session.execute(raised)
    assert type(said.value) is kind or kind is DBAPIError


async def test_a_mistake_in_a_statement_stays_what_it_is(database):
    await add(database, "a")
    with pytest.raises(IntegrityError):
        await add(database, "a")


async def test_a_text_that_is_none_is_told_as_on_sqlite(database):
    with pytest.raises(UnicodeEncodeError):
        await add(database, "\ud800")
    await add(database, "b")


async def test_no_text_holds_nul(database):
    async with database.transaction() as session:
        await insert_new(session, THINGS, [{"name": "a\x00b"}, {"name": "c"}])
        await session.execute(ADD, {"name": "\x00"})
    async with database.read() as session:
        assert await session.scalar(select(THINGS.c.name).where(THINGS.c.name == "a\x00b")) == "a\ufffdb"
    assert await names(database) == ["a\ufffdb", "c", "\ufffd"]


async def test_a_server_that_was_restarted_is_used_again(server):
    database = Database.open(server.url)
    await asyncio.gather(*(add(database, str(number)) for number in range(6)), names(database))
    await asyncio.to_thread(server.restart)
    await wait_until(lambda: answers(database), describe="the sockets have closed")
    await asyncio.gather(*(add(database, str(number)) for number in range(6, 12)))
    assert len(await names(database)) == 12
    await database.close()


async def answers(database):
    try:
        return await names(database) is not None
    except StoreUnavailable:
        return False


async def test_a_server_that_ends_in_the_middle_is_an_error_and_nothing_is_kept(server):
    database = Database.open(server.url)

    async def go_on():
        async with database.transaction() as session:
            await session.execute(ADD, {"name": "a"})
            await asyncio.to_thread(server.restart)
            await session.execute(ADD, {"name": "b"})

    with pytest.raises(StoreUnavailable):
        await go_on()
    assert await names(database) == []
    await database.close()


async def test_a_server_that_is_not_there_is_an_error_that_names_it_without_the_password(server):
    server.stop()
    database = Database.open(server.url)
    with pytest.raises(
        StoreUnavailable, match=rf"postgresql://streamlane@127\.0\.0\.1:{server.port}/postgres"
    ) as said:
        await names(database)
    assert "geheim" not in str(said.value)
    await database.close()


async def test_a_migration_behind_the_back_of_a_prepared_statement_is_an_error_that_passes(database, url):
    everything = text("SELECT * FROM things")

    async def look():
        async with database.read() as session:
            return (await session.execute(everything)).all()

    await look()
    run(url, "ALTER TABLE things ADD COLUMN more INTEGER")
    with pytest.raises(StoreUnavailable, match="cached"):
        await look()
    assert await look() == []


def test_a_url_is_named_without_what_is_secret():
    url = make_url("postgresql://ann:hush@db.example/app?sslmode=require&sslpassword=hush")
    assert named(url) == "postgresql://ann@db.example/app"
    assert named(make_url("postgresql:///app?host=a:1&host=b:2")) == "postgresql://a:1,b:2/app"
    assert "hush" not in repr(Database.open(url).name)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("postgres://h/app", "postgresql://h/app"),
        ("postgresql+asyncpg://h/app?ssl=require", "postgresql://h/app?sslmode=require"),
        ("postgresql://h/app?sslmode=verify-full&sslrootcert=/ca.pem",
         "postgresql://h/app?sslmode=verify-full&sslrootcert=%2Fca.pem"),
    ],
)  # fmt: skip
def test_a_url_is_read_as_libpq_reads_it(given, read):
    assert libpq_url(make_url(given)) == read


def test_another_driver_is_refused():
    with pytest.raises(ConfigurationError, match=r"write postgresql://, not postgresql\+psycopg"):
        Database.open("postgresql+psycopg://h/app")


async def test_a_port_among_the_options_that_is_none_is_an_error_without_what_it_says():
    database = Database.open("postgresql://u:geheim@/app?host=127.0.0.1:heim")
    with pytest.raises(ConfigurationError, match="a port") as said:
        async with database.read() as session:
            await session.connection()
    await database.close()
    assert "heim" not in str(said.value)


async def test_an_option_that_cannot_be_used_is_an_error_without_the_password(url):
    database = Database.open(url.update_query_dict({"sslmode": "perhaps"}))
    with pytest.raises(ConfigurationError, match="sslmode") as said:
        await names(database)
    assert "geheim" not in str(said.value)
    await database.close()


def test_what_a_url_says_of_a_session_wins():
    ours = session_settings(make_url("postgresql://h/app?lock_timeout=5"), busy_s=30, statement_s=60)
    assert ours["statement_timeout"] == "60000"
    assert "lock_timeout" not in ours
