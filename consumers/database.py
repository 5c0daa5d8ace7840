"""The SQL database of this process, without all else that handlers need."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from consumers.migrations.migrate import upgrade
from pipeline import Database, Settings


def database_url(settings: Settings) -> str:
    """Return where the database is: by default in the data folder."""
    if settings.database_url:
        return settings.database_url.get_secret_value()
    return f"sqlite:///{settings.data_dir.absolute() / 'streamlane.db'}"


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Bring the database to its newest form and open it. Raises ConfigurationError, StoreUnavailable."""
    url = database_url(settings)
    await asyncio.to_thread(upgrade, url)
    database = Database.open(url)
    try:
        yield database
    finally:
        await database.close()
