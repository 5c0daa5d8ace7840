"""Statements as the store's users say them: conditional writes, and inserts that may meet the same row again.

Rows that others may insert as well are given sorted by their key: two that insert the same ones then wait for each other
and never in a circle.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar, cast

from sqlalchemy import CursorResult, Executable, Table
from sqlalchemy.ext.asyncio import AsyncSession

BATCH: Final = 500
"""Values in one statement: a database takes only so many."""
Row = Mapping[str, Any]
T = TypeVar("T")


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield `values` in parts that fit into one statement."""
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]


async def changed(session: AsyncSession, statement: Executable, values: Row | None = None) -> int:
    """Run a conditional UPDATE or DELETE and return how many rows met its condition."""
    result = await session.execute(statement, values, execution_options={"synchronize_session": False})
    return cast("CursorResult[Any]", result).rowcount


async def insert_new(session: AsyncSession, table: Table, rows: Sequence[Row]) -> None:
    """Insert what is not there yet: a row whose key is taken stays as it is."""
    if rows:
        await session.execute(_insert(session.get_bind().dialect.name, table), list(rows))


async def insert_one(session: AsyncSession, table: Table, row: Row) -> bool:
    """Insert a row; False where its key is taken, by whom is committed by then."""
    return bool(await changed(session, _insert(session.get_bind().dialect.name, table).values(row)))


async def upsert(session: AsyncSession, table: Table, rows: Sequence[Row], *, replace: Sequence[str]) -> None:
    """Insert rows; where the primary key is taken, replace these columns."""
    if rows:
        await session.execute(_insert(session.get_bind().dialect.name, table, *replace), list(rows))


@cache
def _insert(dialect: str, table: Table, *replace: str) -> Any:
    """PostgreSQL and SQLite have the same ON CONFLICT, each in its own module."""
    statement = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
    if not replace:
        return statement.on_conflict_do_nothing()
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key),
        set_={name: statement.excluded[name] for name in replace},
    )
