"""The composition root: from settings to a pipeline, its workers and its duties. The only module that names a backend."""

import asyncio
import difflib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any, ClassVar, Final

import structlog

from contracts.jobs import types_of
from contracts.topology import QUEUES, weights
from contracts.topology import pool as known_pool
from pipeline.backends.lite.broker import LiteBroker
from pipeline.backends.redis.address import parse
from pipeline.backends.redis.keys import Keys
from pipeline.broker import Broker
from pipeline.client import Producer
from pipeline.config import Settings, load
from pipeline.errors import ConfigurationError, StoreUnavailable
from pipeline.handlers import Handler, HandlerTable
from pipeline.inspector import Inspector
from pipeline.ledger import Ledger
from pipeline.looper import Looper, Tick
from pipeline.services.dead_letters import EVERY_S, DeadLetters, record_tended
from pipeline.services.heartbeat import Heartbeat
from pipeline.services.promoter import Promoter
from pipeline.services.pruner import Pruner
from pipeline.services.reclaimer import Reclaimer
from pipeline.telemetry import configure
from pipeline.worker.crew import Crew, first_of
from pipeline.worker.garbage import relax
from pipeline.worker.offload import close_children, refuse_while_read

QUEUE_FILE: Final = "queue.db"
EXIT_STALLED: Final = 70
EXIT_STUCK: Final = 75
"""Start me again: a handler did not stop, and only a new process gives its slot back."""
NO_DUTIES: Final[Mapping[str, Tick]] = MappingProxyType({})
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = structlog.get_logger(component="worker")


class Pipeline(Producer):
    """Enqueues jobs, runs workers, and shows what goes on. Made by `Pipeline.open()`.

    `ledger`, where deaths are recorded for good, may be set until workers start; without one, another process that has one
    records them. The child processes of
    `run_in_child` end with the last pipeline of a process.
    """

    _opened: ClassVar[int] = 0

    def __init__(self, broker: Broker, settings: Settings, ledger: Ledger | None = None) -> None:
        super().__init__(broker, settings)
        self.broker, self.settings, self.ledger = broker, settings, ledger
        self.inspector = Inspector(broker, settings.slots)

    def configure(self, settings: Settings) -> None:
        """Go on with these settings, before workers start."""
        self.settings = self._settings = settings
        self.inspector.configure(settings.slots)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        url: str | None = None,
        settings: Settings | None = None,
        ledger: Ledger | None = None,
        **overrides: Any,
    ) -> AsyncIterator["Pipeline"]:
        """Open the pipeline that the environment describes; keyword arguments are settings that win over it, and `url`
        is short for `redis_url`.

        Raises:
            ConfigurationError: a setting is unknown or cannot be used.
            StoreUnavailable: the queue cannot be opened; the message says what to do.
        """
        refuse_while_read()
        if url is not None:
            overrides["redis_url"] = url
        if settings is not None and overrides:
            raise ConfigurationError("give either settings=… or single settings, not both")
        settings = settings or load(**overrides)
        configure(settings.log_format, settings.log_level)
        broker = await _broker(settings)
        cls._opened += 1

        async def close() -> None:
            cls._opened -= 1
            await broker.close()
            if not cls._opened:
                await close_children()

        try:
            yield cls(broker, settings, ledger)
        finally:
            await through(close())

    @asynccontextmanager
    async def workers(
        self,
        *,
        pools: Sequence[str],
        handlers: Iterable[Handler],
        services: object = None,
        only: Collection[str] | None = None,
        awaiting: frozenset[str] = frozenset(),
        duties: Mapping[str, Tick] = NO_DUTIES,
        stalled: Callable[[], None] = lambda: None,
        claiming: bool = True,
    ) -> AsyncIterator[Crew]:
        """Run workers and the periodic duties inside this process; leaving the block drains them.

        Every known job type of the pools' queues needs a handler, but those in `awaiting`, and a queue of nothing else
        is left alone; with `only`, just these types are handled and others wait for another worker. `duties` are run
        beside ours, each step saying when the next one is due. `stalled` is called, in a thread, when the event loop
        has been blocked for `loop_stall_s`. Unless `claiming`, a pool begins when `Crew.claim` names it.

        Raises ConfigurationError, UnknownNameError before anything starts.
        """
        pools = tuple(dict.fromkeys(known_pool(name).name for name in pools))
        table = _handlers(handlers, pools, only, awaiting)
        broker, settings = self.broker, self.settings
        served = {name: _served(name, table, awaiting) for name in pools}
        queues = dict.fromkeys(queue for name in pools for queue in weights(name))
        letters = DeadLetters(broker, table.types(), services, queues=queues, ledger=self.ledger, only=only)
        loopers = self._loopers(letters, duties)
        deaths, promoter = loopers[0], loopers[1]
        crew = Crew(
            broker, settings, table, pools=served, services=services, on_death=deaths.wake, stalled=stalled
        )  # fmt: skip
        heartbeat = Looper("heartbeat", Heartbeat(broker, crew.beat).tick)
        loop = asyncio.get_running_loop()
        unlisten = broker.on_signal(crew.nudge), broker.on_due(lambda: _soon(loop, promoter.wake))
        crew.start()
        for name in pools if claiming else ():
            crew.claim(name)
        for looper in (*loopers, heartbeat):
            looper.start()

        async def end() -> None:
            await asyncio.gather(crew.stop(), *(looper.stop() for looper in loopers))
            for stop_listening in unlisten:
                stop_listening()
            await heartbeat.stop()
            with suppress(StoreUnavailable):  # it ends by itself
                await broker.forget(crew.id)

        try:
            yield crew
        finally:
            await through(end(), crew.hurry)

    @asynccontextmanager
    async def tending(
        self, *, handlers: Iterable[Handler], services: object = None, duties: Mapping[str, Tick] = NO_DUTIES
    ) -> AsyncIterator[None]:
        """Run the periodic duties inside this process, and no jobs; the final-failure hooks are those of `handlers`. As many
        processes as like may do so, beside workers or without them.
        """
        table = HandlerTable(handlers)
        letters = DeadLetters(self.broker, table.types(), services, queues=tuple(QUEUES), ledger=self.ledger)
        loopers, loop = self._loopers(letters, duties), asyncio.get_running_loop()
        unlisten = self.broker.on_due(lambda: _soon(loop, loopers[1].wake))
        for looper in loopers:
            looper.start()

        async def end() -> None:
            unlisten()
            await asyncio.gather(*(looper.stop() for looper in loopers))

        try:
            yield
        finally:
            await through(end())

    def _loopers(self, letters: DeadLetters, duties: Mapping[str, Tick]) -> Sequence[Looper]:
        """The periodic duties of a process: first that of the dead letters, then the promoter."""
        broker, deaths = self.broker, Looper("dead_letter", letters.tick)
        return (
            deaths,
            Looper("promoter", Promoter(broker).tick),
            Looper("reclaimer", Reclaimer(broker, self.settings, deaths.wake).tick),
            Looper("pruner", Pruner(broker, self.settings, self._oldest_unsent).tick),
            *(Looper(name, duty) for name, duty in duties.items()),
        )

    @asynccontextmanager
    async def recording(self) -> AsyncIterator[None]:
        """Write into the ledger, while the block runs, the deaths that workers without one have taken care of."""

        async def record() -> float:
            more = self.ledger is not None and await record_tended(self.broker, self.ledger, list(QUEUES))
            return 0 if more else EVERY_S

        looper = Looper("dead_letter", record)
        looper.start()
        try:
            yield
        finally:
            await looper.stop()

    async def _oldest_unsent(self) -> int:
        unsent = self.inspector.unsent
        return (await unsent.waiting())[1] if unsent else 0

    async def serve(
        self,
        *,
        pools: Sequence[str],
        handlers: Iterable[Handler],
        services: object = None,
        only: Collection[str] | None = None,
        awaiting: frozenset[str] = frozenset(),
        duties: Mapping[str, Tick] = NO_DUTIES,
    ) -> int:
        """Be a worker process until SIGTERM or SIGINT, then drain; a second signal skips the wait. Return its exit code.

        Ends the process itself where nothing else can: with 70 when its event loop is dead, with 75 when a handler does
        not stop.
        """
        asked = asyncio.Event()
        crews: list[Crew] = []

        def stop() -> None:
            if asked.is_set():
                for crew in crews:
                    crew.hurry()
            asked.set()

        # Not by the loop: it does not give the signals back to who had them, so that the next would end the process
        # in the middle of closing.
        loop = asyncio.get_running_loop()
        before = {number: signal.signal(number, lambda *_: _soon(loop, stop)) for number in SIGNALS}
        try:
            async with self.workers(
                pools=pools, handlers=handlers, services=services, only=only, awaiting=awaiting,
                duties=duties, stalled=end_stalled,
            ) as crew:  # fmt: skip
                crews.append(crew)
                relax()
                await first_of(asked.wait(), crew.stuck.wait())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return exit_code(crew)


def end_stalled() -> None:
    """End this process, whose event loop is dead, for another to take its jobs."""
    _exit(EXIT_STALLED)


def exit_code(crew: Crew) -> int:
    """Return what a process says at its end whose crew has stopped; end it here if a handler does not stop."""
    if crew.left:
        _exit(EXIT_STUCK)
    return EXIT_STUCK if crew.stuck.is_set() else 0


def stream_of(settings: Settings, queue: str) -> str:
    """Return the name of the stream in which Redis keeps a queue. Raises UnknownNameError."""
    return Keys(settings.namespace).stream(queue)


def address_of(settings: Settings) -> str:
    """Return where Redis is, without user and password; "" where it is not used. Raises ConfigurationError."""
    return str(parse(settings)) if settings.redis_url else ""


async def _broker(settings: Settings) -> Broker:
    if settings.redis_url is None:
        return LiteBroker.open(settings.data_dir / QUEUE_FILE)
    from pipeline.backends.redis.broker import RedisBroker  # here: its client loads as long as all the rest

    return await RedisBroker.open(settings)


def _handlers(
    handlers: Iterable[Handler], pools: Sequence[str], only: Collection[str] | None, awaiting: frozenset[str]
) -> HandlerTable:
    table = HandlerTable(handlers)
    read = {queue for name in pools for queue in weights(name)}
    for name, handler in table.types().items():
        if (queue := handler.payload.spec.queue) not in read:
            log.warning(
                "no pool given here reads the queue of a handler",
                type=name,
                queue=queue,
                pool=QUEUES[queue].pool,
            )
    if only is None:
        table.require(pools, awaiting)
        return table
    for name in only:
        if table.get(name) is None:
            near = difflib.get_close_matches(name, table.types(), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"only={name!r} names a job type without a handler{hint}")
    return HandlerTable(handler for name, handler in table.types().items() if name in only)


def _served(pool: str, handlers: HandlerTable, awaiting: frozenset[str]) -> dict[str, int]:
    """Return the queues a pool reads and their weights. Jobs that all await their handler wait where they are: taken,
    they would be put off until they count as poison.
    """

    def alone(queue: str) -> bool:
        names = {payload.spec.type for payload in types_of(queue)}
        return bool(names) and names <= awaiting and names.isdisjoint(handlers.types())

    return {queue: weight for queue, weight in weights(pool).items() if not alone(queue)}


async def through(ending: Coroutine[Any, Any, None], hurry: Callable[[], None] = lambda: None) -> None:
    """Wait for an ending even when cancelled meanwhile: that only makes it hurry."""
    task = asyncio.ensure_future(ending)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
            hurry()
    task.result()
    if cancelled:
        raise asyncio.CancelledError


def _soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Call back in the loop, from whatever thread; a loop that is closed needs no call."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)


def _exit(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)
