"""Inserts that may meet the same row again: the part of SQL that each database spells in its own module."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final

from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncSession

BATCH: Final = 500
Row = Mapping[str, Any]


async def insert_new(session: AsyncSession, table: Table, rows: Sequence[Row]) -> None:
    """Insert what is not there yet: a row whose key is taken stays as it is."""
    if rows:
        await session.execute(_insert(session, table).on_conflict_do_nothing(), list(rows))


async def upsert(session: AsyncSession, table: Table, rows: Sequence[Row], *, replace: Sequence[str]) -> None:
    """Insert rows; where the primary key is taken, replace these columns."""
    if rows:
        statement = _insert(session, table)
        await session.execute(
            statement.on_conflict_do_update(
                index_elements=list(table.primary_key.columns),
                set_={name: statement.excluded[name] for name in replace},
            ),
            list(rows),
        )


def _insert(session: AsyncSession, table: Table) -> Any:
    return import_module(f"sqlalchemy.dialects.{session.get_bind().dialect.name}").insert(table)
