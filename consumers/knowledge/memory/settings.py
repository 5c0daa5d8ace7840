"""What a tenant wants of memory; by itself there is none."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.tenants import is_alive
from consumers.knowledge.tables.knowledge import table_of
from consumers.knowledge.tables.memory import MemoryWishes
from contracts.memory import WriteMode
from pipeline.store import changed, insert_new, now_ms


class MemorySettings(BaseModel):
    """Stored as JSON. `delay_s` is how long a conversation rests before it is read, `min_interval_s` puts a run off until so
    long after the last; `items` is the most that is remembered of one person.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    enabled: bool = False
    write_mode: WriteMode = WriteMode.EXPLICIT_ONLY
    delay_s: int = Field(90, ge=5, le=3_600)
    min_interval_s: int = Field(300, ge=0, le=86_400)
    items: int = Field(200, ge=1, le=2_000)

    @property
    def reads(self) -> bool:
        """Whether conversations are read."""
        return self.enabled and self.write_mode is WriteMode.AUTO


async def settings_of(session: AsyncSession, tenant_id: int) -> MemorySettings:
    """Return what a tenant wants; a deleted one wants none."""
    if not await is_alive(session, tenant_id):
        return MemorySettings()
    stored = await session.scalar(select(MemoryWishes.settings).where(MemoryWishes.tenant_id == tenant_id))
    return MemorySettings.model_validate(stored or {})


async def change_settings(
    session: AsyncSession, tenant_id: int, changes: Mapping[str, Any]
) -> MemorySettings:
    """Change what a tenant wants; what is left out stays. Raises pydantic.ValidationError."""
    none = {"tenant_id": tenant_id, "settings": {}, "updated_at": now_ms()}
    await insert_new(session, table_of(MemoryWishes), [none])
    its = MemoryWishes.tenant_id == tenant_id
    stored = await session.scalar(select(MemoryWishes.settings).where(its).with_for_update())
    before = MemorySettings.model_validate(stored or {})
    wanted = MemorySettings.model_validate({**before.model_dump(), **changes})
    values = {"settings": wanted.model_dump(mode="json"), "updated_at": now_ms()}
    await changed(session, update(MemoryWishes).where(its).values(**values))
    return wanted
