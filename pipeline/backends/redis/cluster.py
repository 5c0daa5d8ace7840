"""A cluster: each node has a client of its own, and who has which slot is asked whenever it is not known.

redis-py has a client for that, too; but one command that fails there closes the connections on which others are under way.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, ClusterDownError, ConnectionError, MovedError, TimeoutError  # noqa: A004

Place: TypeAlias = tuple[str, int]
HOPS: Final = 5
"""How often one command is sent on to another node, while slots move."""


class Nodes:
    """Sends each command to the node that has its key. `connect` makes the client of a node."""

    def __init__(self, places: Sequence[Place], connect: Callable[[Place], Any]) -> None:
        self._places, self._connect = list(places), connect
        self._clients: dict[Place, Any] = {}
        self._owners: list[Place | None] = []
        self._looking = asyncio.Lock()

    async def send(self, *command: Any) -> Any:
        """Send a command. Raises RedisError."""
        place = await self._owner(_key(command))
        for _ in range(HOPS):
            try:
                return await self._client(place).send(*command)
            except MovedError as moved:
                self._owners = []
                place = (moved.host or place[0], moved.port)
            except AskError as moving:
                return await self._ask((moving.host or place[0], moving.port), command)
            except (ConnectionError, TimeoutError, ClusterDownError):
                self._owners = []  # another may have its slots soon
                raise
        raise ClusterDownError(f"TRYAGAIN its slot was not found at {HOPS} nodes")

    async def at(self, key: str) -> Any:
        """Return the client of the node that has this key. Raises RedisError."""
        return self._client(await self._owner(key))

    async def any(self) -> Any:
        """Return the client of a node that answers. Raises RedisError."""
        return await self.at("")

    async def aclose(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.aclose()

    def _client(self, place: Place) -> Any:
        if place not in self._clients:
            self._clients[place] = self._connect(place)
        return self._clients[place]

    async def _owner(self, key: str) -> Place:
        async with self._looking:
            if not self._owners:
                await self._look()
            found = self._owners[key_slot(key.encode())]
        if found is None:
            self._owners = []
            raise ClusterDownError("CLUSTERDOWN nobody has the slot of this key")
        return found

    async def _look(self) -> None:
        """Ask who has which slot, those first that answered last."""
        failure: Exception = ConnectionError("no node is known")
        for place in [*self._places]:
            try:
                said = await self._client(place).send("CLUSTER", "SLOTS")
            except (ConnectionError, TimeoutError) as error:
                failure = error
                self._places.remove(place)
                self._places.append(place)
                continue
            self._owners = [None] * REDIS_CLUSTER_HASH_SLOTS
            for first, last, (host, port, *_), *_ in said:
                owner = (host or place[0], int(port))
                self._owners[first : last + 1] = [owner] * (last + 1 - first)
                if owner not in self._places:
                    self._places.append(owner)
            return
        raise failure

    async def _ask(self, place: Place, command: Sequence[Any]) -> Any:
        async with self._client(place).pipeline(transaction=False) as together:
            together.execute_command("ASKING")
            together.execute_command(*command)
            return (await together.execute())[1]


def _key(command: Sequence[Any]) -> str:
    match command[0]:
        case "EVALSHA" | "EVAL":
            return str(command[3])
        case "XREAD":
            return str(command[command.index("STREAMS") + 1])
        case _:
            return str(command[1])
