"""Two transactions at once: the second starts when the first has done its work and not yet committed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pipeline.store import Database
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from tests.support.waiting import wait_until

Work = Callable[[AsyncSession], Awaitable[Any]]

WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def interleaved(
    database: Database, first: Work, second: Work, *, then: Work | None = None
) -> tuple[Any, Any]:
    """Do the first and, before it commits, start the second in a transaction of its own; return what both said. With
    `then`, the first goes on with it when the second has met it.

    On PostgreSQL the first commits once the second has ended or waits for it; on SQLite, where it cannot even begin.
    """

    async def later() -> Any:
        async with database.transaction() as session:
            return await second(session)

    async with database.transaction() as session:
        said = await first(session)
        task = asyncio.create_task(later())
        await _met(database, task)
        if then is not None:
            await then(session)
    return said, await task


async def _met(database: Database, task: "asyncio.Task[Any]") -> None:
    if not database.on_server:
        return

    async def waits() -> bool:
        async with database.read() as session:
            return task.done() or bool(await session.scalar(WAITING))

    await wait_until(waits, describe="the second transaction has met the first")
