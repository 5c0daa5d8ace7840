"""Bring a database to the tables that this version of the code knows."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import URL, Connection, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError

from pipeline.errors import ConfigurationError, StoreUnavailable
from pipeline.store.engine import is_postgres
from pipeline.store.postgres import PostgresServer
from pipeline.store.sqlite import BUSY_S, prepare_connections, sqlite_url, store_errors

if TYPE_CHECKING:
    from alembic.config import Config

FOLDER: Final = Path(__file__).parent
LOCK: Final = 0x73747265616D6C6E
"""Of all advisory locks of a server, the one of these migrations."""
LOCKED_S: Final = 300.0
LONGEST_S: Final = 3600.0
"""For one statement of a migration."""


def latest() -> str:
    """Return the newest revision that this version of the code knows."""
    return max(path.name.partition("_")[0] for path in (FOLDER / "versions").glob("[0-9]*.py"))


def upgrade(url: str | URL) -> bool:
    """Bring the database to the newest tables; False if it had them. Several processes may do so at once.

    It is one transaction: killed in the middle, nothing has happened.

    Raises:
        ConfigurationError: the URL cannot be used, a newer version of the code has been here, or the server lacks pgvector.
        StoreUnavailable: the server is away, or the file or its folder cannot be made or written.
    """
    if is_postgres(url):
        with ThreadPoolExecutor(1) as beside:  # for a caller whose thread runs an event loop
            return beside.submit(lambda: asyncio.run(_upgrade_server(url))).result()
    return _upgrade_file(sqlite_url(url).set(drivername="sqlite"))


def _upgrade_file(target: URL) -> bool:
    _make_folder(target)
    engine = create_engine(target)
    prepare_connections(engine, "BEGIN IMMEDIATE", BUSY_S)
    try:
        with store_errors(target), engine.begin() as connection:
            return _upgraded(connection, str(target.database))
    finally:
        engine.dispose()


async def _upgrade_server(url: str | URL) -> bool:
    server = PostgresServer(url, LOCKED_S, 2, statement_s=LONGEST_S)
    try:
        with server.errors():
            async with server.writer.begin() as connection:
                # of two that start at once, one waits here until the other has committed
                await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
                return await connection.run_sync(_upgraded, server.name)
    finally:
        await server.close()


def _upgraded(connection: Connection, name: str) -> bool:
    found = revision(connection)
    if found == latest():
        return False
    if found is not None and found > latest():
        raise ConfigurationError(
            f"{name} has tables of a newer version ({found}, this one knows {latest()}): update"
        )
    from alembic import command  # takes a third of a second, and is needed once

    try:
        command.upgrade(config(connection), "head")
    except DBAPIError as error:
        if (lack := _lack(error, name)) is not None:
            raise ConfigurationError(lack) from None
        raise
    return True


def _lack(error: DBAPIError, name: str) -> str | None:
    """Return what a server needs that only those who run it can give."""
    state, said = getattr(error.orig, "sqlstate", None), str(error.orig)
    if state in {"0A000", "58P01"} and "extension" in said:
        return (
            f"{name} has no pgvector, by which documents are searched: install it on its server"
            " (Debian: postgresql-<version>-pgvector; image: pgvector/pgvector) and start again"
        )
    if state == "42501":
        return (
            f"{name} does not let us make tables or the extension vector ({said}): let its owner start once"
        )
    return None


def revision(connection: Connection) -> str | None:
    """Return the revision that a database is at; None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def config(connection: Connection) -> "Config":
    """Return what Alembic needs to know; its output goes nowhere."""
    from alembic.config import Config

    made = Config(attributes={"connection": connection})
    made.set_main_option("script_location", str(FOLDER))
    made.set_main_option("path_separator", "os")
    return made


def _make_folder(target: URL) -> None:
    try:
        Path(target.database or "").parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"the folder of {target.database} cannot be made: {error}") from error
