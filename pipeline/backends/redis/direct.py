"""A client whose commands cost what they must: redis-py spends more on taking a connection from its pool, measuring and
repeating than on the command itself, and on Python 3.11 it loses a cancellation now and then.
"""

import asyncio
import math
from collections import deque
from typing import Any, Final

from hiredis import pack_command
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, ReadOnlyError, ResponseError  # noqa: A004

KEPT: Final = 8
UNDER_WAY: Final = 64
"""Commands of a line whose answers are awaited; whoever wants one more waits."""


class Direct(Redis):
    """Keeps a few connections between commands, and one more for those whose order counts. Both ways a command is sent
    once, and what redis-py raises is raised.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._kept: list[Any] = []
        self._turns = asyncio.Semaphore(self.connection_pool.max_connections)
        self._line: Line | None = None
        self._opening = asyncio.Lock()

    async def send(self, *command: Any) -> Any:
        """Send a command and return its answer as it came.

        Who comes when all connections are in use gets one in turn: the pool gives it to whoever comes later.
        """
        if self._turns.locked():
            await self._wait()
        else:
            await self._turns.acquire()
        try:
            return await self._send(command)
        finally:
            self._turns.release()

    async def send_in_order(self, *command: Any) -> Any:
        """The same; but the server gets it before all that is sent in order later, and when the connection is lost, all
        that is under way on it is.
        """
        line = self._line
        if line is None or line.lost is not None:
            async with self._opening:
                line = self._line
                if line is None or line.lost is not None:
                    line = self._line = Line(self, await self._connection())
        return await line.ask(command)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """See `Redis`."""
        if self._line is not None:
            await self._line.close()
        await super().aclose(close_connection_pool)

    async def drop(self, connection: Any) -> None:
        """Give up a connection: an answer may still come that nobody would understand."""
        await connection.disconnect(nowait=True)
        await self.connection_pool.release(connection)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self.connection_pool.timeout):  # type: ignore[attr-defined]
                await self._turns.acquire()
        except TimeoutError:
            raise ConnectionError("all connections of this process are in use") from None

    async def _send(self, command: tuple[Any, ...]) -> Any:
        connection = await self._connection()
        try:
            async with asyncio.timeout(connection.socket_timeout):
                await write(connection, pack_command(command))
                answer = await connection.read_response(timeout=math.inf)
        except ResponseError as refusal:
            await (self.drop if isinstance(refusal, ReadOnlyError) else self._give_back)(connection)
            raise
        except BaseException:
            await self.drop(connection)
            raise
        await self._give_back(connection)
        return answer

    async def _connection(self) -> Any:
        while self._kept:
            connection = self._kept.pop()
            reader = connection._reader  # noqa: SLF001 - asking by a read costs a turn of the loop
            if reader is not None and not reader.at_eof() and reader.exception() is None:
                return connection
            await self.drop(connection)
        return await self.connection_pool.get_connection()  # type: ignore[no-untyped-call]

    async def _give_back(self, connection: Any) -> None:
        if len(self._kept) < KEPT:
            self._kept.append(connection)
        else:
            await self.connection_pool.release(connection)


class Line:
    """A connection that many share: answers come in the order of the commands. Once it fails it is of no use any more, and
    all whose answers it owes are told.
    """

    def __init__(self, client: Direct, connection: Any) -> None:
        self._client, self._connection = client, connection
        self._awaited: deque[asyncio.Future[Any]] = deque()
        self._turns = asyncio.Semaphore(UNDER_WAY)
        self.lost: Exception | None = None
        self._reading = asyncio.create_task(self._read(), name="reading answers of Redis")

    async def ask(self, command: tuple[Any, ...]) -> Any:
        """Send a command and return its answer. Raises what redis-py raises."""
        # What cannot be written must not await an answer, which would be another's.
        packed = pack_command(command)
        try:
            async with asyncio.timeout(self._connection.socket_timeout), self._turns:
                if self.lost is not None:
                    raise self.lost.with_traceback(None)  # without the frames of others who raised it
                answer = asyncio.get_running_loop().create_future()
                self._awaited.append(answer)
                await write(self._connection, packed)
                return await answer
        except TimeoutError as late:
            self._lose(late)
            raise

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        self._lose(ConnectionError("closed"))
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while self.lost is None:
                try:
                    said = await self._connection.read_response(timeout=math.inf, disconnect_on_error=False)
                except ResponseError as refusal:
                    self._answer(refusal)
                    if isinstance(refusal, ReadOnlyError):  # a primary that is none any more
                        raise
                else:
                    self._answer(said)
        except Exception as error:  # noqa: BLE001 - told to those who asked
            self._lose(error)
        finally:
            await self._client.drop(self._connection)

    def _answer(self, said: Any) -> None:
        answer = self._awaited.popleft()
        if answer.done():  # whoever asked is gone
            return
        if isinstance(said, Exception):
            answer.set_exception(said)
            answer.exception()  # seen, even where whoever asked found out by writing
        else:
            answer.set_result(said)

    def _lose(self, error: Exception) -> None:
        if self.lost is None:
            self.lost = ConnectionError(f"connection lost: {str(error) or type(error).__name__}")
            if asyncio.current_task() is not self._reading:  # which still has to give the connection back
                self._reading.cancel()
        while self._awaited:
            self._answer(self.lost)


async def write(connection: Any, packed: bytes) -> None:
    """Send a command. Where the answer before it was read there is nothing to wait for, so it leaves at once."""
    writer = connection._writer  # noqa: SLF001 - redis-py writes within `wait_for`, which loses cancellations
    writer.write(packed)
    await writer.drain()
