"""A proxy between a process and its Redis that loses, holds, delays and cuts what passes, when a test asks for it.

It runs in a thread of its own, so that an event loop and a lease thread can use it alike, and a test may block either.
What a test asks for is in force when the call returns.
"""

import asyncio
import contextlib
import math
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, TypeVar

import hiredis

from tests.support.faults import Loss

T = TypeVar("T")
Request = Sequence[bytes]
"""The words of one command."""
AT_ONCE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: a close is a reset


class Way(StrEnum):
    """Which bytes: those to the server or those from it."""

    REQUESTS = "requests"
    REPLIES = "replies"


BOTH: Final = (Way.REQUESTS, Way.REPLIES)


class Waiting:
    """A loss that waits for the request it hits."""

    def __init__(self, loss: Loss, matches: Callable[[Request], bool]) -> None:
        self.loss, self.matches = loss, matches
        self.happened = threading.Event()


class TcpProxy:
    """Listens on `port` of the loopback and passes everything on to one place. `close` ends it."""

    def __init__(self, host: str, port: int, *, framed: bool = True, name: str = "tcp proxy") -> None:
        """`framed`: commands can be told apart, so that single ones can be lost; not so with TLS. `name`: that of the thread."""
        self.place, self.framed = (host, port), framed
        self.links: set[Link] = set()
        self.losses: list[Waiting] = []
        self.held: set[Way] = set()
        self.delays: dict[Way, float] = dict.fromkeys(Way, 0.0)
        self.away_ = False
        self.lives: Callable[[], float | None] = lambda: None
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            self.loop.create_server(lambda: Client(self), "127.0.0.1", 0), self.loop
        ).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Cut every connection and listen no more. Idempotent."""
        if self.loop.is_closed():
            return
        self._now(self._end)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def cut(self) -> None:
        """Reset every connection."""
        self._now(self._cut)

    def lose(self, loss: Loss, matches: Callable[[Request], bool] = lambda _: True) -> Waiting:
        """The next request that matches is swallowed, or executed and its reply swallowed; then its connection is cut."""
        waiting = Waiting(loss, matches)
        self._now(lambda: self.losses.append(waiting))
        return waiting

    @contextmanager
    def losing(self, loss: Loss, matches: Callable[[Request], bool]) -> Iterator[None]:
        """As `lose`, but a loss that hit nothing is forgotten at the end."""
        if loss is Loss.NOTHING:
            yield
            return
        waiting = self.lose(loss, matches)
        try:
            yield
        finally:
            self._now(lambda: self.losses.remove(waiting) if waiting in self.losses else None)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Every connection is reset, those that are tried meanwhile at once."""

        def leave() -> None:
            self.away_ = True
            self._cut()

        self._now(leave)
        try:
            yield
        finally:
            self._now(lambda: setattr(self, "away_", False))

    @contextmanager
    def silent(self, *ways: Way) -> Iterator[None]:
        """Connections stay and nothing arrives (in these ways, or in both); at the end what was held arrives late, as after
        a broken wire was mended. Whoever wants it lost calls `cut` before.
        """
        ways = ways or BOTH
        self._now(lambda: self.held.update(ways))
        try:
            yield
        finally:
            self._now(lambda: self._deliver(ways))

    def strand(self) -> None:
        """The connections that there are stay open, and nothing arrives on them any more; new ones work."""

        def stranded() -> None:
            for link in self.links:
                link.left = math.inf

        self._now(stranded)

    @contextmanager
    def breaking(self, chance: random.Random, mean: int) -> Iterator[None]:
        """Every connection is reset after so many bytes on average, in the midst of whatever passes then."""

        def begin(on: bool) -> None:
            self.lives = (lambda: chance.randint(1, 2 * mean)) if on else (lambda: None)
            for link in self.links:
                link.left = self.lives()

        self._now(lambda: begin(on=True))
        try:
            yield
        finally:
            self._now(lambda: begin(on=False))

    @contextmanager
    def slow(self, seconds: float, *ways: Way) -> Iterator[None]:
        """Everything arrives so much later."""
        self._now(lambda: self.delays.update(dict.fromkeys(ways or BOTH, seconds)))
        try:
            yield
        finally:
            self._now(lambda: self.delays.update(dict.fromkeys(ways or BOTH, 0.0)))

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self.links)

    def _deliver(self, ways: Sequence[Way]) -> None:
        self.held.difference_update(ways)
        for link in tuple(self.links):
            for way in ways:
                link.lanes[way].flush()

    def _cut(self) -> None:
        for link in tuple(self.links):
            link.cut()

    def _end(self) -> None:
        self._server.close()
        self._cut()

    def _now(self, change: Callable[[], T]) -> T:
        """Do it in the proxy's thread, where nothing else happens meanwhile."""

        async def changed() -> T:
            return change()

        return asyncio.run_coroutine_threadsafe(changed(), self.loop).result()


class Lane:
    """One way of one connection: bytes arrive in their order."""

    def __init__(self, link: "Link", way: Way) -> None:
        self._proxy, self._link, self._way = link.proxy, link, way
        self._kept: list[bytes] = []
        self._last_at = 0.0
        self._ended = False
        self.out: asyncio.Transport | None = None

    def pass_on(self, data: bytes) -> None:
        loop = self._proxy.loop
        if self._link.left == math.inf:
            return
        if self._link.left is not None:
            part = data[: int(self._link.left)]
            self._link.left -= len(data)
            if self._link.left <= 0:
                self._kept.append(part)
                self.flush()
                loop.call_soon(self._link.cut)  # once the part is on its way
                self._link.left = math.inf
                return
        at = max(loop.time() + self._proxy.delays[self._way], self._last_at)
        if at > loop.time():
            self._last_at = at
            loop.call_at(at, self._arrive, data)
        else:
            self._arrive(data)

    def flush(self) -> None:
        """Write what was kept, where there is somebody to write to."""
        if self.out is not None and self._way not in self._proxy.held:
            kept, self._kept = self._kept, []
            for data in kept:
                self.out.write(data)
            if self._ended:
                self.out.close()

    def end(self) -> None:
        """Nothing more comes: close the other end once it has everything, however late that is."""
        self._ended = True
        loop = self._proxy.loop
        loop.call_at(max(loop.time(), self._last_at), self.flush)

    def _arrive(self, data: bytes) -> None:
        self._kept.append(data)
        self.flush()


class Link:
    """One connection: a client, the server, and what is lost between them."""

    def __init__(self, proxy: TcpProxy, client: asyncio.Transport) -> None:
        self.proxy = proxy
        self.left = proxy.lives()
        """How many bytes still pass before it is reset; infinite: none ever arrive."""
        self.lanes = {way: Lane(self, way) for way in Way}
        self.lanes[Way.REPLIES].out = client
        self._requests = hiredis.Reader()
        self._reply_lost: Waiting | None = None
        self._joining = proxy.loop.create_task(self._join())
        proxy.links.add(self)

    def asked(self, data: bytes) -> None:
        if not self.proxy.framed:
            self.lanes[Way.REQUESTS].pass_on(data)
            return
        self._requests.feed(data)
        while isinstance(words := self._requests.gets(), list):
            if (loss := self._loss(words)) is not None and loss.loss is Loss.REQUEST:
                loss.happened.set()
                self.cut()
                return
            self._reply_lost = loss or self._reply_lost
            self.lanes[Way.REQUESTS].pass_on(hiredis.pack_command(tuple(words)))

    def answered(self, data: bytes) -> None:
        if (lost := self._reply_lost) is not None:
            self._reply_lost = None
            if not data.startswith(b"-NOSCRIPT"):
                lost.happened.set()
                self.cut()
                return
            self.proxy.losses.append(lost)  # nothing happened yet: the same is about to be asked again
        self.lanes[Way.REPLIES].pass_on(data)

    def cut(self) -> None:
        """Reset both ends."""
        self.proxy.links.discard(self)
        self._joining.cancel()
        for lane in self.lanes.values():
            if lane.out is not None and not lane.out.is_closing():
                found: socket.socket = lane.out.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                lane.out.abort()

    def end(self) -> None:
        """One end has closed: so does the other, once it has everything."""
        for lane in self.lanes.values():
            lane.end()
        if all(lane.out is None or lane.out.is_closing() for lane in self.lanes.values()):
            self.proxy.links.discard(self)

    def _loss(self, words: Request) -> Waiting | None:
        for waiting in self.proxy.losses:
            if waiting.matches(words):
                self.proxy.losses.remove(waiting)
                return waiting
        return None

    async def _join(self) -> None:
        try:
            out, _ = await self.proxy.loop.create_connection(lambda: Upstream(self), *self.proxy.place)
        except OSError:
            self.cut()
        else:
            self.lanes[Way.REQUESTS].out = out
            self.lanes[Way.REQUESTS].flush()


class Client(asyncio.Protocol):
    """The end that connected to us."""

    link: Link | None = None

    def __init__(self, proxy: TcpProxy) -> None:
        self._proxy = proxy

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.link = Link(self._proxy, transport)
        if self._proxy.away_:
            self.link.cut()

    def data_received(self, data: bytes) -> None:
        if self.link is not None:
            self.link.asked(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.link is not None:
            self.link.end()


class Upstream(asyncio.Protocol):
    """The end that we connected to the server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.answered(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.end()


def evaluates(digest: str, text: str, key: str | None = None) -> Callable[[Request], bool]:
    """Whether a request runs this script (on this key)."""
    names, places = {digest.encode(), text.encode()}, None if key is None else {key.encode()}
    return lambda words: (
        words[0] in {b"EVALSHA", b"EVAL"} and words[1] in names and (places is None or words[3] in places)
    )


def says(*command: object) -> Callable[[Request], bool]:
    """Whether a request begins with these words."""
    words = [str(word).encode() for word in command]
    return lambda request: list(request[: len(words)]) == words
