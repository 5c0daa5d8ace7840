"""The one connection of this process that writes. Operations queue up; many share one commit and one fsync."""

import asyncio
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from pipeline.backends.lite.errors import closed, of_the_world, store_error
from pipeline.backends.lite.operations import Fleeting, Joint, Operation
from pipeline.backends.lite.transaction import Transaction
from pipeline.errors import StoreFull, StoreUnavailable

T = TypeVar("T")

ROOM: Final = 10_000
"""Operations that may wait; more callers wait for room."""
ANSWER_S: Final = 30.0
"""How long the disk may take, beside waiting for other processes."""
BATCH: Final = 256
"""Operations that share a commit at most, so that the first of them need not wait long."""


@dataclass(slots=True)
class _Request:
    operation: Operation[Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Runs operations one after the other in a thread of its own. An operation that raises changes nothing and does
    not hurt the others of its commit.

    `busy_s` limits each wait for other processes; `lasting`: what was committed survives a power failure.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        committed: Callable[[Sequence[Transaction]], None],
        *,
        busy_s: float,
        lasting: bool = True,
    ) -> None:
        self._path = path
        self._connection = connection
        self._committed = committed
        self._busy_s = busy_s
        self._lasting = lasting
        self._file = _identity(path)
        self._room = asyncio.Semaphore(ROOM)
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._closing = False
        self._durable = False
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, name="lite-writer", daemon=True)
        self._thread.start()

    async def submit(self, operation: Operation[T]) -> T:
        """Run `operation`; when this returns, what it did is durable. A cancelled caller's operation may have happened.

        Raises what the operation raised, StoreUnavailable, StoreFull.
        """
        try:
            async with asyncio.timeout(ANSWER_S + self._busy_s), self._room:
                if self._closing:
                    raise closed(self._path)
                request = _Request(operation, asyncio.get_running_loop().create_future())
                self._queue.put(request)
                result: T = await request.future
                return result
        except TimeoutError:
            raise StoreUnavailable(f"queue file {self._path}: its disk does not answer; check it") from None

    async def close(self) -> None:
        """Finish what is queued, close the connection and end the thread. Idempotent."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.wrap_future(self._ended)
        self._thread.join()

    def _serve(self) -> None:
        going = True
        while going:
            batch, going = self._take()
            try:
                if batch:
                    self._perform(batch)
            except BaseException as error:  # noqa: BLE001 - a dead thread would leave every caller waiting
                for request in batch:
                    request.error = error
            _answer(batch)
        self._connection.close()
        self._ended.set_result(None)

    def _take(self) -> tuple[list[_Request], bool]:
        """Wait for operations; return some to share a commit, and whether to go on after them."""
        batch: list[_Request] = []
        request = self._queue.get()
        while request is not None:
            if not request.future.cancelled():
                batch.append(request)
            if len(batch) >= BATCH or self._queue.empty():
                return batch, True
            request = self._queue.get()
        return batch, False

    def _perform(self, batch: list[_Request]) -> None:
        try:
            self._be_durable(batch)
            self._begin(batch)
            transactions = [
                transaction
                for kind, requests in groupby(batch, lambda request: type(request.operation))
                for transaction in self._apply(kind, list(requests))
            ]
            _forget_paused(transactions)
            self._connection.execute("COMMIT")
        except (sqlite3.Error, StoreUnavailable) as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            failure = store_error(error, self._path) if isinstance(error, sqlite3.Error) else error
            if isinstance(failure, StoreFull) and len(batch) > 1:
                for request in batch:  # what needs no room, such as settling, still happens
                    self._perform([request])
                return
            for request in batch:
                request.result, request.error = None, failure
            return
        self._committed(transactions)

    def _waiting(self) -> list[_Request]:
        waiting = []
        while not self._queue.empty():
            request = self._queue.get()
            if request is None:
                self._queue.put(None)
                break
            waiting.append(request)
        return waiting

    def _apply(self, kind: type[Operation[Any]], requests: Sequence[_Request]) -> list[Transaction]:
        """Run requests of one kind: together if they can be, else, or when that raises, each alone."""
        if len(requests) > 1 and issubclass(kind, Joint):
            operations: list[Any] = [request.operation for request in requests]
            transaction, results, _ = self._attempt(partial(kind.together, operations=operations))
            if results is not None:
                for request, result in zip(requests, results, strict=True):
                    request.result, request.error = result, None
                return [transaction]
        transactions = []
        for request in requests:
            transaction, request.result, request.error = self._attempt(request.operation)
            transactions.append(transaction)
        return transactions

    def _attempt(self, operation: Operation[T]) -> tuple[Transaction, T | None, Exception | None]:
        transaction = Transaction(self._connection)
        result, failure = None, None
        self._connection.execute("SAVEPOINT operation")
        try:
            result = operation(transaction)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and of_the_world(error):
                raise
            failure = error
            self._connection.execute("ROLLBACK TO operation")
        self._connection.execute("RELEASE operation")
        return transaction, result, failure

    def _be_durable(self, batch: Sequence[_Request]) -> None:
        durable = self._lasting and not all(isinstance(request.operation, Fleeting) for request in batch)
        if durable != self._durable:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable

    def _begin(self, batch: list[_Request]) -> None:
        """Wait for our turn among the processes; short random pauses, so that none is always late.

        Who came while we waited in vain has waited as well, and fails with us.
        """
        if _identity(self._path) != self._file:
            raise StoreUnavailable(
                f"queue file {self._path} was removed or replaced while in use: start again"
            )
        deadline = time.monotonic() + self._busy_s
        for pause in _pauses():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() > deadline:
                    batch += self._waiting()
                    raise
            time.sleep(pause)


def _forget_paused(transactions: Sequence[Transaction]) -> None:
    """Let nobody be woken for a paused queue."""
    if any(transaction.woken for transaction in transactions):
        paused = {row["queue"] for row in transactions[0].run("select_paused")}
        for transaction in transactions:
            transaction.woken -= paused


def _pauses() -> Iterator[float]:
    longest = 0.002
    while True:
        yield random.uniform(0.0003, longest)  # noqa: S311 - spreads the tries of several processes
        longest = min(longest * 1.2, 0.02)


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116 - in the path of every commit
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _answer(batch: Sequence[_Request]) -> None:
    """Wake each caller, with one wake-up a loop."""
    loops: dict[asyncio.AbstractEventLoop, list[_Request]] = {}
    for request in batch:
        loops.setdefault(request.future.get_loop(), []).append(request)
    for loop, requests in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, requests)


def _resolve(requests: Sequence[_Request]) -> None:
    for request in requests:
        if request.future.done():
            continue
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)
