"""Settings that all processes share: stored in the database, over what each is told by its environment."""

from typing import Final

import structlog

from pipeline import Database, Pipeline
from pipeline.store.settings import stored

log: Final = structlog.get_logger(component="settings")


async def share(pipeline: Pipeline, database: Database) -> None:
    """Go on with the settings that are stored; what cannot be used is left out and said. Raises StoreUnavailable."""
    async with database.read() as sql:
        settings, problems = pipeline.settings.resolved(await stored(sql))
    for name, problem in problems.items():
        log.warning("a stored setting cannot be used", name=name, problem=problem)
    pipeline.configure(settings)
