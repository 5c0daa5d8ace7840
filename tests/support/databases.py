"""Migrated databases for tests: an SQLite file or a database on a PostgreSQL server, each with all tables and nothing in it."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from consumers.migrations.migrate import upgrade
from sqlalchemy import URL, make_url

POSTGRES: Final[Any] = pytest.param("postgres", marks=pytest.mark.postgres)
BOTH: Final = ("sqlite", POSTGRES)
"""What a test or fixture is parametrised with that runs on both."""


@contextmanager
def migrated(kind: str, folder: Path) -> Iterator[URL]:
    """Give a database of this kind: a file in `folder`, or one of a server's, which is dropped afterwards."""
    if kind == "sqlite":
        yield sqlite_file(folder)
        return
    from tests.support import postgres_server

    url = postgres_server.migrated_database()
    try:
        yield url
    finally:
        postgres_server.drop(url)


def sqlite_file(folder: Path) -> URL:
    """Return where a migrated file in `folder` is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "library.db"
    path.write_bytes(_migrated())
    return make_url(f"sqlite:///{path}")


@cache
def _migrated() -> bytes:
    """A migrated file, made once for all tests of this process."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "empty.db")
        upgrade(f"sqlite:///{path}")
        shutil.copy(path, path.with_suffix(".copy"))
        return path.with_suffix(".copy").read_bytes()


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Lock a database of SQLite while the block runs, as another process would. Its turn comes beside the loop, because whoever
    has the file may need the loop to leave it.
    """
    with closing(
        sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    ) as intruder:
        await asyncio.to_thread(intruder.execute, "BEGIN EXCLUSIVE")
        yield
