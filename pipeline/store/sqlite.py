"""SQLite: how a file is opened, and what its errors mean.

One connection writes and a few read, each with a thread of its own: a database file has one writer at a time anyway,
and a transaction that begins IMMEDIATE waits for its turn at its first statement, when nothing has been read that could
be stale by then. Other processes wait in line through the busy timeout.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

from aiosqlite import Connection
from sqlalchemy import URL, Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pipeline.errors import ConfigurationError, StoreFull, StoreUnavailable
from pipeline.room import is_full
from pipeline.store.urls import read_url
from pipeline.store.visits import VisitedConnection

BUSY_S: Final = 30.0
READERS: Final = 3
PRAGMAS: Final = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON")

_AWAY: Final = {
    sqlite3.SQLITE_ABORT,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PERM,
}


class SqliteFile:
    """Implements `pipeline.store.engine.Engines`."""

    def __init__(self, url: str | URL, busy_s: float) -> None:
        """Raises ConfigurationError for a URL that names no file."""
        self.url = sqlite_url(url).set(drivername="sqlite+aiosqlite")
        self.name = str(self.url.database)
        self._busy_s = busy_s
        self._connections: WeakSet[VisitedConnection] = WeakSet()
        self.writer = self._engine(1, "BEGIN IMMEDIATE")
        self.reader = self._engine(READERS, "BEGIN DEFERRED", "PRAGMA query_only = ON")

    def errors(self) -> AbstractContextManager[None]:
        """See the protocol."""
        return store_errors(self.url)

    async def close(self) -> None:
        """See the protocol."""
        await self.writer.dispose()
        await self.reader.dispose()
        for connection in list(self._connections):  # also those that a cancelled task gave up
            await connection.stopped()

    def _engine(self, size: int, begin: str, *pragmas: str) -> AsyncEngine:
        async def connect() -> Connection:
            made = VisitedConnection(lambda: _connect(self.url.database or "", self._busy_s, *pragmas), begin)
            self._connections.add(made)
            return await made

        return create_async_engine(
            self.url,
            async_creator=connect,
            pool_size=size,
            max_overflow=0,
            pool_timeout=self._busy_s,
            pool_reset_on_return=None,  # a session ends its transaction itself
        )


def sqlite_url(url: str | URL) -> URL:
    """Return `url` if it names a file. Raises ConfigurationError saying what to write instead."""
    parsed = read_url(url)
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigurationError("database_url needs a file: write sqlite:///folder/streamlane.db")
    return parsed


def prepare_connections(engine: Engine, begin: str, busy_s: float, *pragmas: str) -> None:
    """Make the connections of a synchronous engine like ours; each of its transactions starts with `begin`."""

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        _prepare(connection, busy_s, *pragmas)

    @event.listens_for(engine, "begin")
    def _begun(connection: Any) -> None:
        connection.exec_driver_sql(begin)


def _connect(path: str, busy_s: float, *pragmas: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    _prepare(connection, busy_s, *pragmas)
    return connection


def _prepare(connection: sqlite3.Connection, busy_s: float, *pragmas: str) -> None:
    for pragma in (f"PRAGMA busy_timeout = {round(busy_s * 1000)}", *PRAGMAS, *pragmas):
        connection.execute(pragma)
    connection.create_function(
        "lower", 1, _lower, deterministic=True
    )  # its own knows the letters of ASCII only


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


@contextmanager
def store_errors(url: URL) -> Iterator[None]:
    """Turn what the driver says about the state of the world into StoreUnavailable or StoreFull; bugs pass."""
    try:
        yield
    except PoolTimeout as error:
        raise StoreUnavailable(f"every connection to {url.database} is in use: {error}") from error
    except DBAPIError as error:
        cause = error.orig
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        if is_full(cause, Path(url.database or "")):
            raise StoreFull(f"no room for {url.database}: free space on its disk, then repeat") from error
        if code in _AWAY or error.connection_invalidated:
            raise StoreUnavailable(f"{url.database} cannot be used: {cause}") from error
        raise
