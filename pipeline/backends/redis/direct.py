"""A client whose commands cost what they must: redis-py spends more on taking a connection from its pool, measuring and
repeating than on the command itself.
"""

import asyncio
import math
from typing import Any, Final

from hiredis import pack_command
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, NoScriptError  # noqa: A004

KEPT: Final = 8


class Direct(Redis):
    """Keeps a few connections between commands. `send` sends once, and raises what redis-py raises."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._kept: list[Any] = []
        self._turns = asyncio.Semaphore(self.connection_pool.max_connections)

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

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self.connection_pool.timeout):  # type: ignore[attr-defined]
                await self._turns.acquire()
        except TimeoutError:
            raise ConnectionError("all connections of this process are in use") from None

    async def _send(self, command: tuple[Any, ...]) -> Any:
        """A connection whose answer was not read is not used again."""
        connection = await self._connection()
        try:
            async with asyncio.timeout(connection.socket_timeout):
                writer = connection._writer  # noqa: SLF001 - redis-py writes within `wait_for`, which loses cancellations
                writer.write(pack_command(command))
                await writer.drain()
                answer = await connection.read_response(timeout=math.inf)
        except NoScriptError:
            await self._give_back(connection)
            raise
        except BaseException:
            await connection.disconnect(nowait=True)
            await self.connection_pool.release(connection)
            raise
        await self._give_back(connection)
        return answer

    async def _connection(self) -> Any:
        while self._kept:
            connection = self._kept.pop()
            reader = connection._reader  # noqa: SLF001 - asking by a read costs a turn of the loop
            if reader is not None and not reader.at_eof() and reader.exception() is None:
                return connection
            await connection.disconnect(nowait=True)
            await self.connection_pool.release(connection)
        return await self.connection_pool.get_connection()  # type: ignore[no-untyped-call]

    async def _give_back(self, connection: Any) -> None:
        if len(self._kept) < KEPT:
            self._kept.append(connection)
        else:
            await self.connection_pool.release(connection)
