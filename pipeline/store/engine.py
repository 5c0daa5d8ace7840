"""The SQL database: where it is, how it is opened, and what its errors mean.

On SQLite one connection writes and a few read, each with a thread of its own: a database file has one writer at a
time anyway, and a transaction that begins IMMEDIATE waits for its turn at its first statement, when nothing has been
read that could be stale by then. Other processes wait in line through the busy timeout.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Self
from weakref import WeakSet

from aiosqlite import Connection
from sqlalchemy import URL, Engine, event, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from pipeline.errors import ConfigurationError, StoreFull, StoreUnavailable
from pipeline.room import is_full
from pipeline.store.tables import database_identity
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


class Database:
    """One SQL database, shared by all tasks of a process."""

    def __init__(self, url: URL, busy_s: float) -> None:
        self.url = url
        self._busy_s = busy_s
        self._connections: WeakSet[VisitedConnection] = WeakSet()
        self._writer = self._engine(1, "BEGIN IMMEDIATE")
        self._reader = self._engine(READERS, "BEGIN DEFERRED", "PRAGMA query_only = ON")

    @classmethod
    def open(cls, url: str | URL, *, busy_s: float = BUSY_S) -> Self:
        """Name the database; it is connected to when it is first used. `busy_s` limits each wait for its writer.

        Raises ConfigurationError for a URL that cannot be used.
        """
        return cls(sqlite_url(url).set(drivername="sqlite+aiosqlite"), busy_s)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """One write transaction: committed at the end of the block, rolled back by whatever it raises.

        Raises StoreUnavailable, StoreFull; after an error in the commit itself it may have happened.
        """
        session = AsyncSession(self._writer, expire_on_commit=False, autoflush=False)
        with store_errors(self.url):
            try:
                yield session
                await session.commit()
            except BaseException:
                await _close(session)
                raise

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """One snapshot to read from. Raises StoreUnavailable."""
        session = AsyncSession(self._reader, expire_on_commit=False, autoflush=False)
        with store_errors(self.url):
            try:
                yield session
            finally:
                await _close(session)

    async def identity(self) -> str:
        """Return the id that this database got from its migrations. Raises StoreUnavailable."""
        async with self.read() as session:
            return str((await session.execute(select(database_identity.c.id))).scalar_one())

    async def close(self) -> None:
        """Close every connection; running transactions are the caller's to end first."""
        await self._writer.dispose()
        await self._reader.dispose()
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


async def _close(session: AsyncSession) -> None:
    """Roll back and give the connection back, to the end even if this task is cancelled meanwhile."""
    await asyncio.shield(asyncio.ensure_future(session.close()))


def sqlite_url(url: str | URL) -> URL:
    """Return `url` if it names an SQLite file. Raises ConfigurationError saying what to write instead."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError("database_url is not a URL: write sqlite:///folder/streamlane.db") from None
    if parsed.get_backend_name() != "sqlite":
        raise ConfigurationError(f"database_url: {parsed.get_backend_name()} is not supported, only sqlite")
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
