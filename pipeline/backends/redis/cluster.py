"""A cluster: each node has a client of its own, and who has which slot is asked whenever it is not known.

redis-py has clients for that, too. But one command that fails there closes the connections on which others are under way;
and they follow to the node that a slot is moving to. Our scripts must not: what has not arrived there yet would be missing
to them. While a slot moves, its home stands still.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import ClusterDownError, ConnectionError, MovedError, TimeoutError  # noqa: A004

Place: TypeAlias = tuple[str, int]
HOPS: Final = 5
"""How often one command is sent on to another node."""
ASK: Final = ("CLUSTER", "SLOTS")
AWAY: Final = (ConnectionError, TimeoutError, OSError)


class Slots:
    """Who has which slot, as far as is known; and all the places where nodes were ever seen."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = list(places)
        self._owners: list[Place | None] = []

    def known(self) -> bool:
        """Whether anything is known."""
        return bool(self._owners)

    def forget(self) -> None:
        """Know nothing, because something was wrong."""
        self._owners = []

    def learn(self, asked: Place, said: Any) -> None:
        """Read what a node says to CLUSTER SLOTS. One that does not know its own name is where it was asked."""
        self._owners = [None] * REDIS_CLUSTER_HASH_SLOTS
        for first, last, (host, port, *_), *_ in said:
            owner = (host or asked[0], int(port))
            self._owners[first : last + 1] = [owner] * (last + 1 - first)
            if owner not in self._places:
                self._places.append(owner)

    def places(self) -> tuple[Place, ...]:
        """Return every place, those last that did not answer."""
        return tuple(self._places)

    def silent(self, place: Place) -> None:
        """Note that a node did not answer."""
        self._places.remove(place)
        self._places.append(place)

    def owner(self, command: Sequence[Any]) -> Place:
        """Return where a command belongs. Raises ClusterDownError where nobody has its slot."""
        found = self._owners[key_slot(_key(command).encode())] if self._owners else None
        if found is None:
            self.forget()
            raise ClusterDownError("CLUSTERDOWN nobody is known to have the slot of this key")
        return found


class Nodes:
    """Sends each command to the node that has its key. `connect` makes the client of a node."""

    def __init__(self, places: Sequence[Place], connect: Callable[[Place], Any]) -> None:
        self._slots, self._clients = Slots(places), Clients(connect)
        self._looking = asyncio.Lock()

    async def send(self, *command: Any) -> Any:
        """Send a command. Raises RedisError."""
        return await self._follow(lambda place: self._clients[place].send(*command), command)

    async def send_in_order(self, *command: Any) -> Any:
        """Send a command before those that are sent in order to this node later. Raises RedisError."""
        return await self._follow(lambda place: self._clients[place].send_in_order(*command), command)

    async def _follow(self, send: Callable[[Place], Awaitable[Any]], command: Sequence[Any]) -> Any:
        await self._look()
        place = self._slots.owner(command)
        for _ in range(HOPS):
            try:
                return await send(place)
            except MovedError as moved:
                self._slots.forget()
                place = (moved.host or place[0], moved.port)
            except (*AWAY, ClusterDownError):
                self._slots.forget()  # another may have them soon
                raise
        raise ClusterDownError(f"CLUSTERDOWN the slot was not found at {HOPS} nodes")

    @asynccontextmanager
    async def at(self, key: str) -> AsyncIterator[Any]:
        """Give the client of the node that has this key, and ask anew who has it when that fails. Raises RedisError."""
        await self._look()
        try:
            yield self._clients[self._slots.owner(("GET", key))]
        except (*AWAY, ClusterDownError, MovedError):
            self._slots.forget()
            raise

    async def aclose(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.aclose()

    async def _look(self) -> None:
        if self._slots.known():
            return
        async with self._looking:
            failure: Exception | None = None
            for place in self._slots.places():
                if self._slots.known():
                    return
                try:
                    self._slots.learn(place, await self._clients[place].send(*ASK))
                except AWAY as error:
                    failure = error
                    self._slots.silent(place)
            if failure is not None and not self._slots.known():
                raise failure


class ThreadNodes:
    """The same for another thread."""

    def __init__(self, places: Sequence[Place], connect: Callable[[Place], Any]) -> None:
        self._slots, self._clients = Slots(places), Clients(connect)

    def execute_command(self, *command: Any) -> Any:
        """Send a command. Raises RedisError."""
        self._look()
        place = self._slots.owner(command)
        try:
            return self._clients[place].execute_command(*command)
        except (*AWAY, ClusterDownError, MovedError):
            self._slots.forget()
            raise

    def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            client.close()

    def _look(self) -> None:
        failure: Exception | None = None
        for place in self._slots.places():
            if self._slots.known():
                return
            try:
                self._slots.learn(place, self._clients[place].execute_command(*ASK))
            except AWAY as error:
                failure = error
                self._slots.silent(place)
        if failure is not None and not self._slots.known():
            raise failure


class Clients(dict[Place, Any]):
    """The client of each node, made when it is first needed."""

    def __init__(self, connect: Callable[[Place], Any]) -> None:
        super().__init__()
        self._connect = connect

    def __missing__(self, place: Place) -> Any:
        self[place] = self._connect(place)
        return self[place]


def _key(command: Sequence[Any]) -> str:
    match command[0]:
        case "EVALSHA" | "EVAL":
            return str(command[3])
        case "XREAD":
            return str(command[command.index("STREAMS") + 1])
        case _:
            return str(command[1])
