"""The SQL database of this process, without all else that handlers need."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from consumers.migrations.migrate import upgrade
from pipeline import Database, Outbox, Pipeline, Settings
from pipeline.errors import ConfigurationError, StoreFull

DATABASE: Final = "database"
"""Under this name the store remembers where the documents of its jobs lie."""


def database_url(settings: Settings) -> str:
    """Return where the database is: by default in the data folder."""
    if settings.database_url:
        return settings.database_url.get_secret_value()
    return f"sqlite:///{settings.data_dir.absolute() / 'streamlane.db'}"


def outbox_of(pipeline: Pipeline, database: Database) -> Outbox:
    """Return the outbox of this database, which delivers to this pipeline."""
    return Outbox(database, pipeline.enqueue_many, pipeline.broker)


async def newest_database(settings: Settings) -> Database:
    """Bring the database to its newest form and return it; it is the caller's to close.

    Raises ConfigurationError, StoreUnavailable.
    """
    url = database_url(settings)
    await asyncio.to_thread(upgrade, url)
    return Database.open(url, connections=settings.database_connections)


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Open `newest_database` and close it."""
    database = await newest_database(settings)
    try:
        yield database
    finally:
        await database.close()


async def refuse_another(pipeline: Pipeline, database: Database) -> None:
    """Raise ConfigurationError where the jobs of this store belong to documents in another database: here they would end
    as if those had been deleted. The first database that comes is the one. Raises StoreUnavailable, too.
    """
    ours = await _facts(database)
    try:
        known = json.loads(await pipeline.broker.remember(DATABASE, json.dumps(ours)))
    except StoreFull:  # who starts later compares; workers have to start, as they make room
        return
    if known["id"] == ours["id"]:
        return
    settings = pipeline.settings
    jobs, choose = pipeline.broker.where, ""
    if settings.redis_url:
        jobs += f", namespace {settings.namespace!r},"
        choose = " or choose another STREAMLANE_NAMESPACE,"
    raise ConfigurationError(
        f"the jobs in {jobs} belong to documents in another database than {ours['path']}, one that was {known['path']}"
        f"{known['host'] and ' on '}{known['host']}: point STREAMLANE_DATA_DIR (or STREAMLANE_DATABASE_URL) to that one,{choose} or, if it is gone"
        " for good, run `streamlane doctor --adopt`, which puts this one in its place"
    )


async def adopt(pipeline: Pipeline, database: Database) -> None:
    """From now on the jobs of this store belong to documents in this database. Raises StoreUnavailable."""
    await pipeline.broker.remember(DATABASE, json.dumps(await _facts(database)), anew=True)


async def _facts(database: Database) -> dict[str, str]:
    host = "" if database.on_server else socket.gethostname()
    return {"id": await database.identity(), "host": host, "path": database.name}
