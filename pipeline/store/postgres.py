"""PostgreSQL: how a server is connected to, and what its errors mean.

The URL is libpq's, as psql takes it: `sslmode`, `sslrootcert`, `target_session_attrs` and several hosts work, and what is
no parameter of libpq is a setting of the session, as in `?statement_timeout=5000`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import URL, event
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pipeline.errors import ConfigurationError, StoreFull, StoreUnavailable
from pipeline.store.urls import read_url

BACKENDS: Final = ("postgresql", "postgres")
DRIVERS: Final = {"postgresql", "postgres", "postgresql+asyncpg"}
CONNECT_S: Final = 10.0
STATEMENT_S: Final = 60.0
PATIENCE_S: Final = 5.0
"""With a server that does not even say that a statement took too long."""
RECYCLE_S: Final = 600

_AWAY: Final = ("08", "25006", "28", "3D000", "40", "53", "55P03", "57", "58", "F0", "XX001", "XX002")
"""Connections, a standby, who may come in, deadlocks, means, locks, operators and time limits, the disk, damaged data."""
_FULL: Final = "53100"
_NUL: Final = "\x00"


class PostgresServer:
    """Implements `pipeline.store.engine.Engines`."""

    def __init__(
        self, url: str | URL, busy_s: float, connections: int, *, statement_s: float = STATEMENT_S
    ) -> None:
        """A third of the `connections` reads, so that who writes and has to look something up waits for no writer.

        Raises ConfigurationError for a URL that cannot be used, or if the driver is not installed.
        """
        self.url = read_url(url)
        self.name = named(self.url)
        self._url = libpq_url(self.url)
        self._busy_s = busy_s
        self._silence_s = statement_s + PATIENCE_S
        self._settings = session_settings(self.url, busy_s, statement_s)
        reading = max(1, connections // 3)
        writer = self._engine(max(1, connections - reading))
        reader = self._engine(reading)
        self.writer = writer
        self.reader = reader.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """See the protocol."""
        try:
            yield
        except PoolTimeout as error:
            raise StoreUnavailable(f"every connection to {self.name} is in use: {error}") from error
        except DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None) or ""
            if state == _FULL:
                raise StoreFull(f"no room for {self.name}: free space on its disk, then repeat") from error
            if state.startswith(_AWAY) or error.connection_invalidated or _outdated(error):
                raise StoreUnavailable(f"{self.name} cannot be used: {self._said(error.orig)}") from error
            raise

    async def close(self) -> None:
        """See the protocol."""
        await self.writer.dispose()
        await self.reader.dispose()

    def _engine(self, size: int) -> AsyncEngine:
        try:
            made = create_async_engine(
                URL.create("postgresql+asyncpg"),
                async_creator=self._connect,
                pool_size=size,
                max_overflow=0,
                pool_timeout=self._busy_s,
                pool_recycle=RECYCLE_S,
            )
        except ModuleNotFoundError:
            raise ConfigurationError(
                "database_url names PostgreSQL and its driver is not here: install the postgres extra"
                " (streamlane[postgres])"
            ) from None
        event.listen(made.sync_engine, "checkout", _refuse_closed)
        event.listen(made.sync_engine, "handle_error", self._heard)
        event.listen(made.sync_engine, "before_cursor_execute", _without_nul, retval=True)
        return made

    async def _connect(self) -> Any:
        import asyncpg

        try:
            return await asyncpg.connect(
                self._url,
                timeout=CONNECT_S,
                command_timeout=self._silence_s,
                server_settings=self._settings,
            )
        except asyncpg.exceptions.ClientConfigurationError as error:
            raise ConfigurationError(f"database_url cannot be used: {self._said(error)}") from None
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise StoreUnavailable(f"{self.name} does not let us in: {self._said(error)}") from error
        except (ValueError, OverflowError):  # what it says repeats what it did not understand
            raise ConfigurationError(
                "database_url cannot be used: a host, a port or an option in it is not one"
            ) from None

    def _heard(self, context: ExceptionContext) -> Exception | None:
        """A driver's timeout and a broken socket come as what they are, not as errors of a database; and a text that is none
        is what it is on SQLite.
        """
        error = context.original_exception
        if not isinstance(error, OSError):  # TimeoutError is one
            return _no_text(error)
        context.is_disconnect = True
        return StoreUnavailable(f"{self.name} does not answer: {self._said(error)}")

    def _said(self, error: BaseException | None) -> str:
        """Return what an error says, whatever it had to say of the password."""
        said = str(error).strip() or type(error).__name__
        return said.replace(self.url.password, "***") if self.url.password else said


def named(url: URL) -> str:
    """Return a URL as people are told it: without the password, and without what the query may hide."""
    hosts = url.query.get("host", ())
    host = url.host or ",".join([hosts] if isinstance(hosts, str) else hosts) or "localhost"
    who = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{who}{host}{port}/{url.database or ''}"


def libpq_url(url: URL) -> str:
    """Return a URL as libpq and asyncpg read it. Raises ConfigurationError for another driver."""
    if url.drivername not in DRIVERS:
        raise ConfigurationError(f"database_url: write postgresql://, not {url.drivername}://")
    query = {"sslmode" if name == "ssl" else name: value for name, value in url.query.items()}
    return url.set(drivername="postgresql", query=query).render_as_string(hide_password=False)


def session_settings(url: URL, busy_s: float, statement_s: float) -> Mapping[str, str]:
    """Return what a session is told, where the URL says nothing else. Times are milliseconds."""
    ours = {
        "application_name": "streamlane",
        "jit": "off",
        "lock_timeout": str(round(busy_s * 1000)),
        "statement_timeout": str(round(statement_s * 1000)),
        "idle_in_transaction_session_timeout": str(round(statement_s * 1000)),  # of a process that was frozen
    }
    return {name: value for name, value in ours.items() if name not in url.query}


def _outdated(error: DBAPIError) -> bool:
    """Whether a migration has changed what a prepared statement was about; the next time it is prepared anew."""
    return type(error.orig).__name__ == "InvalidCachedStatementError"


def _no_text(error: BaseException | None) -> UnicodeEncodeError | None:
    while error is not None and not isinstance(error, UnicodeEncodeError):
        error = error.__cause__
    return error


def _refuse_closed(connection: DBAPIConnection, _record: object, _proxy: object) -> None:
    """A server that ended has said so: asked here, which costs no round trip, its connections are replaced unnoticed."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _without_nul(
    _connection: object, _cursor: object, statement: str, parameters: Any, _context: object, many: bool
) -> tuple[str, Any]:
    """No text on PostgreSQL may hold the character NUL, which SQLite keeps: it becomes U+FFFD."""
    rows = parameters if many else [parameters]
    if any(type(value) is str and _NUL in value for row in rows for value in row):
        rows = [tuple(_clean(value) for value in row) for row in rows]
    return statement, rows if many else rows[0]


def _clean(value: Any) -> Any:
    return value.replace(_NUL, "\ufffd") if isinstance(value, str) else value
