"""Clients whose commands cost what they must: redis-py spends more on taking a connection from its pool, measuring and
repeating than on the command itself, and on Python 3.11 it loses a cancellation now and then.
"""

import asyncio
import math
from collections import deque
from typing import Any, Final

from hiredis import pack_command
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, ReadOnlyError, ResponseError  # noqa: A004

UNDER_WAY: Final = 256
"""Commands of one line whose answers are awaited; whoever wants one more waits."""


class Line:
    """A connection that many share: answers come in the order of the commands. Once it fails it is of no use any more, and
    all whose answers it owes are told.
    """

    def __init__(self, client: Redis, connection: Any) -> None:
        self._client, self._connection = client, connection
        self._awaited: deque[asyncio.Future[Any]] = deque()
        self._turns = asyncio.Semaphore(UNDER_WAY)
        self.lost: Exception | None = None
        self._reading = asyncio.create_task(self._read(), name="reading answers of Redis")

    async def ask(self, command: tuple[Any, ...]) -> Any:
        """Send a command and return its answer. Raises what redis-py raises."""
        try:
            async with asyncio.timeout(self._connection.socket_timeout), self._turns:
                if self.lost is not None:
                    raise self.lost
                answer = asyncio.get_running_loop().create_future()
                self._awaited.append(answer)
                writer = self._connection._writer  # noqa: SLF001 - redis-py has no way to write without waiting
                writer.write(pack_command(command))
                await writer.drain()
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
            await self._connection.disconnect(nowait=True)
            await self._client.connection_pool.release(self._connection)

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
            self._reading.cancel()
        while self._awaited:
            self._answer(self.lost)


class Direct(Redis):
    """Sends all commands on one line, in the order in which they are sent; redis-py's own use the pool as ever."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._line: Line | None = None
        self._opening = asyncio.Lock()

    async def send(self, *command: Any) -> Any:
        """Send a command, once, and return its answer as it came. Raises what redis-py raises."""
        line = self._line
        if line is None or line.lost is not None:
            line = await self._open()
        return await line.ask(command)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """See `Redis`."""
        if self._line is not None:
            await self._line.close()
        await super().aclose(close_connection_pool)

    async def _open(self) -> Line:
        async with self._opening:
            if self._line is None or self._line.lost is not None:
                connection = await self.connection_pool.get_connection()  # type: ignore[no-untyped-call]
                self._line = Line(self, connection)
            return self._line


class Patient(Redis):
    """Sends each command on a connection of its own, for those that wait at the server."""

    async def send(self, *command: Any) -> Any:
        """Send a command, once, and return its answer as it came. Raises what redis-py raises."""
        connection = await self.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.send_packed_command(connection.pack_command(*command), check_health=False)
            return await connection.read_response(timeout=math.inf)
        except BaseException:  # its answer would be read as that of the next command
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self.connection_pool.release(connection)
