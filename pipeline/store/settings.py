"""Settings that are kept in the database, so that all processes have them. One wins over the environment if it can be used."""

from collections.abc import Mapping

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from pipeline.clock import now_ms
from pipeline.store.rows import changed, upsert
from pipeline.store.tables import system_settings


async def stored(session: AsyncSession) -> Mapping[str, str]:
    """Return what is kept, by name; whether it can be used, `pipeline.config.resolve` says."""
    rows = await session.execute(select(system_settings.c.name, system_settings.c.value))
    return {row.name: row.value for row in rows}


async def put(session: AsyncSession, name: str, value: str) -> None:
    """Keep a value."""
    row = {"name": name, "value": value, "updated_at": now_ms()}
    await upsert(session, system_settings, [row], replace=("value", "updated_at"))


async def remove(session: AsyncSession, name: str) -> bool:
    """Keep a value no longer; False if none was."""
    return bool(await changed(session, delete(system_settings).where(system_settings.c.name == name)))
