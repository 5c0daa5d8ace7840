"""SQLite behind a thread, visited once a statement.

aiosqlite sends cursor, execute, fetch and close to its thread one by one, and each visit costs a tenth of a
millisecond of waking up. Here one visit does all four, and the first of a transaction begins it as well.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Self

from aiosqlite import Connection


class VisitedConnection(Connection):
    """An aiosqlite connection whose transactions start with `begin`, at their first statement."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], begin: str) -> None:
        super().__init__(connect, iter_chunk_size=64)
        self._begin = begin
        self._begun = False
        self._thread.daemon = True  # as SQLAlchemy has it: an unclosed database must not keep a process alive
        self._stopping: asyncio.Future[Any] | None = None

    async def close(self) -> None:
        """Close the file and end the thread."""
        self._interrupt()
        await super().close()

    def stop(self) -> "asyncio.Future[Any] | None":
        """Tell the thread to close the file and end. Whoever cannot wait for that leaves it to `stopped`."""
        self._interrupt()
        self._stopping = super().stop()
        return self._stopping

    async def stopped(self) -> None:
        """Return when a thread that was told to end has no more to say to this event loop."""
        if self._stopping is not None:
            await asyncio.wait([self._stopping])

    def cursor(self) -> "VisitingCursor":  # type: ignore[override]  # what SQLAlchemy asks of a cursor, not more
        """Return a cursor; the thread hears of it when it executes."""
        return VisitingCursor(self)

    def _interrupt(self) -> None:
        """End a statement that a cancelled task gave up: nobody is to wait for the lock it has."""
        if self._connection is not None:
            self._connection.interrupt()

    async def visit(self, run: Callable[[sqlite3.Cursor], Any]) -> Any:
        """Run a statement in the thread, within a transaction."""
        return await self._execute(self._run, run)  # type: ignore[no-untyped-call]

    async def commit(self) -> None:
        """End the transaction and keep it."""
        await self._execute(self._commit)  # type: ignore[no-untyped-call]

    async def rollback(self) -> None:
        """End the transaction and drop it."""
        await self._execute(self._rollback)  # type: ignore[no-untyped-call]

    def _run(self, run: Callable[[sqlite3.Cursor], Any]) -> Any:
        if not self._begun:
            self._conn.execute(self._begin)
            self._begun = True
        self._check()
        cursor = self._conn.cursor()
        try:
            return run(cursor)
        finally:
            cursor.close()

    def _commit(self) -> None:
        try:
            self._check()
            self._conn.commit()
        finally:
            self._rollback()  # of a commit that failed: nobody else would

    def _rollback(self) -> None:
        self._begun = False
        self._conn.rollback()

    def _check(self) -> None:
        """SQLite drops a whole transaction after some errors. Nobody who passed over one may keep the second half."""
        if self._begun and not self._conn.in_transaction:
            error = sqlite3.OperationalError("an earlier error has rolled this transaction back")
            error.sqlite_errorcode = sqlite3.SQLITE_ABORT
            raise error


class VisitingCursor:
    """A cursor that has all its rows when `execute` returns."""

    def __init__(self, connection: VisitedConnection) -> None:
        self._connection = connection
        self._rows: Sequence[Any] = ()
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, statement: str, parameters: Any = ()) -> Self:
        """Run a statement and take its rows."""

        def run(cursor: sqlite3.Cursor) -> None:
            cursor.execute(statement, parameters)
            self._rows = cursor.fetchall() if cursor.description else ()
            self._see(cursor)

        await self._connection.visit(run)
        return self

    async def executemany(self, statement: str, parameters: Any) -> Self:
        """Run a statement once for each of many parameters."""

        def run(cursor: sqlite3.Cursor) -> None:
            cursor.executemany(statement, parameters)
            self._see(cursor)

        await self._connection.visit(run)
        return self

    async def fetchall(self) -> Sequence[Any]:
        """Return the rows taken by `execute`."""
        return self._rows

    async def close(self) -> None:
        """Nothing is open: the cursor in the thread was closed at the end of its visit."""

    def _see(self, cursor: sqlite3.Cursor) -> None:
        self.description, self.rowcount, self.lastrowid = (
            cursor.description,
            cursor.rowcount,
            cursor.lastrowid,
        )
