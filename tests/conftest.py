"""What every test stands on: its own settings and data folder, nothing left running, the real documents."""

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from consumers.migrations.migrate import upgrade
from hypothesis import settings
from sqlalchemy import URL

from tests.support.databases import BOTH, migrated
from tests.support.leaks import Running
from tests.support.redis_server import RedisServer, end_shared, forget, shared
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.postgres_server import PostgresServer

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"

# How long one example takes says nothing on a shared machine; tests have their own limit. Everyday runs try the same
# examples, so that a red one accuses the change; the thorough profile searches for new ones.
settings.register_profile("streamlane", deadline=None, max_examples=50, print_blob=True, derandomize=True)
settings.register_profile(
    "thorough", parent=settings.get_profile("streamlane"), max_examples=2000, derandomize=False
)
settings.load_profile("streamlane")


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the person who runs the tests counts, and what is written lies in `tmp_path`."""
    for name in [name for name in os.environ if name.startswith("STREAMLANE_")]:
        if not name.startswith("STREAMLANE_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("STREAMLANE_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of real documents beside the repository; skips where it is not."""
    if not SAMPLES.is_dir():
        pytest.skip("the real documents (../shared/samples) are not on this machine")
    return SAMPLES


@pytest.fixture(params=BOTH)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[URL]:
    """Where a database of the test's own is, with all tables: of each kind in turn."""
    with migrated(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def either_database(database_url: URL, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make `database_url` the one that is set, and return it."""
    where = database_url.render_as_string(hide_password=False)
    monkeypatch.setenv("STREAMLANE_DATABASE_URL", where)
    return where


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    """A Redis of the test's own, which it may kill, freeze and restart; empty, and nothing of it is kept on disk."""
    server = RedisServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def postgres_server() -> Iterator["PostgresServer"]:
    """A PostgreSQL of the test's own, which it may kill, suspend and start again; its database has all tables."""
    from tests.support.postgres_server import PostgresServer

    server = PostgresServer()
    try:
        upgrade(server.start().url)
        yield server
    finally:
        server.close()


@pytest.fixture
def redis_url() -> Iterator[str]:
    """Where the session's Redis is, for a test that harms it not and uses the namespace that is the default."""
    yield shared().url
    forget(shared(), "sl")


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Given to every async test: when it and its fixtures have ended, no task of theirs is alive."""
    before = asyncio.all_tasks()
    yield

    def left() -> set[asyncio.Task[object]]:
        return asyncio.all_tasks() - before - {asyncio.current_task()}

    await wait_until(lambda: not left(), describe=f"the test's tasks have ended: {left()}", timeout=3)


def pytest_sessionfinish() -> None:
    end_shared()  # not left to the exit of the process: a worker of xdist has none of that kind


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.fixturenames.insert(0, "no_task_left")


before_test = pytest.StashKey[Running]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[before_test] = Running.now()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    if leaked := item.stash[before_test].leaked_since():
        pytest.fail(f"left running by the test: {', '.join(leaked)}")
    return result
