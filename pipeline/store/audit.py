"""The audit log: who did what to what, and what came of it. A row is only ever added, and told its outcome once."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from pipeline.clock import now_ms
from pipeline.store.rows import BATCH, changed
from pipeline.store.tables_people import audit_logs

PLATFORM: Final = 0
"""The tenant of what concerns the whole platform."""


class Outcome(StrEnum):
    """What came of an action."""

    ACCEPTED = "accepted"
    """It was begun; no more is known of it."""
    SUCCESS = "success"
    PARTIAL = "partial"
    DENIED = "denied"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One row. Empty is what does not apply; `created_at` is in milliseconds, set when it is written."""

    action: str
    actor_user_id: str
    actor_role: str
    tenant_id: int = PLATFORM
    scope_type: str = ""
    scope_id: str = ""
    target_type: str = ""
    target_id: str = ""
    target_user_id: str = ""
    request_path: str = ""
    request_method: str = ""
    outcome: Outcome = Outcome.ACCEPTED
    details: Mapping[str, str] = field(default_factory=dict)
    id: int = 0
    created_at: int = 0


async def write(session: AsyncSession, deed: Deed) -> int:
    """Add a row; return its id."""
    row = {
        column.name: _cut(getattr(deed, column.name), getattr(column.type, "length", None))
        for column in audit_logs.columns
        if column.name not in {"id", "details", "created_at"}
    }
    row |= {"details": json.dumps(deed.details), "created_at": now_ms()}
    return int((await session.execute(audit_logs.insert().returning(audit_logs.c.id), row)).scalar_one())


async def close(session: AsyncSession, row: int, outcome: Outcome, details: Mapping[str, str]) -> None:
    """Say what came of an action."""
    values = {"outcome": outcome, "details": json.dumps(details)}
    await session.execute(update(audit_logs).where(audit_logs.c.id == row).values(values))


async def listed(
    session: AsyncSession, limit: int, before: int | None = None, **narrowed: str | int | None
) -> list[Deed]:
    """Return rows, the newest first, those `before` this id; `narrowed` names columns and what they must be."""
    query = select(audit_logs).order_by(audit_logs.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(audit_logs.c.id < before)
    for name, value in narrowed.items():
        if value is not None:
            query = query.where(audit_logs.c[name] == value)
    return [_deed(dict(row)) for row in (await session.execute(query)).mappings()]


async def prune(session: AsyncSession, before: int) -> int:
    """Delete rows that were written before this time (ms), a batch of the oldest; return how many."""
    rows = audit_logs.c
    oldest = select(rows.id).where(rows.created_at < before).order_by(rows.id).limit(BATCH)
    return await changed(session, delete(audit_logs).where(rows.id.in_(oldest)))


def _deed(row: Mapping[str, Any]) -> Deed:
    return Deed(**dict(row) | {"outcome": Outcome(row["outcome"]), "details": json.loads(row["details"])})


def _cut(value: Any, length: int | None) -> Any:
    return value[:length] if isinstance(value, str) else value
