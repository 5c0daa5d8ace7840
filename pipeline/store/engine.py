"""The SQL database: one surface over SQLite and PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Protocol, Self

from sqlalchemy import URL, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pipeline.errors import ConfigurationError
from pipeline.store.postgres import BACKENDS as POSTGRES
from pipeline.store.postgres import PostgresServer
from pipeline.store.sqlite import BUSY_S, SqliteFile
from pipeline.store.tables import database_identity
from pipeline.store.urls import EXAMPLES, read_url

CONNECTIONS = 12
"""The most that a process has to a server."""


class Engines(Protocol):
    """How one kind of database is connected to, and what its errors mean. `name` is for people: no password is in it."""

    url: URL
    name: str
    writer: AsyncEngine
    reader: AsyncEngine

    def errors(self) -> AbstractContextManager[None]:
        """Turn what the driver says about the state of the world into StoreUnavailable or StoreFull; bugs pass."""

    async def close(self) -> None:
        """Close every connection."""


class Database:
    """One SQL database, shared by all tasks of a process."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.url = engines.url
        self.name = engines.name

    @classmethod
    def open(cls, url: str | URL, *, busy_s: float = BUSY_S, connections: int = CONNECTIONS) -> Self:
        """Name the database; it is connected to when it is first used. `busy_s` limits each wait for a connection and
        for what others have locked; `connections` to a server are the most that are made.

        Raises ConfigurationError for a URL that cannot be used.
        """
        if is_postgres(url):
            return cls(PostgresServer(url, busy_s, connections))
        return cls(SqliteFile(url, busy_s))

    @property
    def on_server(self) -> bool:
        """Whether it is PostgreSQL: other machines may have it open, too."""
        return is_postgres(self.url)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """One write transaction: committed at the end of the block, rolled back by whatever it raises.

        On PostgreSQL others write meanwhile (READ COMMITTED), and one of two that wait for each other is ended: it raises
        StoreUnavailable and may be repeated. Raises StoreUnavailable, StoreFull; after an error in the commit itself it
        may have happened.
        """
        session = AsyncSession(self._engines.writer, expire_on_commit=False, autoflush=False)
        with self._engines.errors():
            try:
                yield session
                await session.commit()
            except BaseException:
                await _close(session)
                raise

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """One snapshot to read from. Raises StoreUnavailable."""
        session = AsyncSession(self._engines.reader, expire_on_commit=False, autoflush=False)
        with self._engines.errors():
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
        await self._engines.close()


def is_postgres(url: str | URL) -> bool:
    """Whether a URL names PostgreSQL rather than SQLite. Raises ConfigurationError saying what to write instead."""
    kind = read_url(url).get_backend_name()
    if kind not in {*POSTGRES, "sqlite"}:
        raise ConfigurationError(f"database_url: {kind} is not supported: write {EXAMPLES}")
    return kind in POSTGRES


async def _close(session: AsyncSession) -> None:
    """Roll back and give the connection back, to the end even if this task is cancelled meanwhile."""
    await asyncio.shield(asyncio.ensure_future(session.close()))
