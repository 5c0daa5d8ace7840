"""Workers as a FastStream app: `faststream run module:app` works, `faststream docs gen module:app` describes the queues.

FastStream starts, stops and documents one subscriber a pool. What these do is done by the same crew as everywhere: the
framework's own consumers read without a free slot and end for ever when a group vanishes, so no job goes through them.
The only module that knows FastStream's insides; `tests/unit/test_faststream_app.py` pins them.
"""

import asyncio
import logging
import multiprocessing
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import structlog
from faststream import FastStream
from faststream._internal.broker import BrokerUsecase
from faststream._internal.configs import (
    BrokerConfig,
    SubscriberSpecificationConfig,
    SubscriberUsecaseConfig,
)
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream.exceptions import FeatureNotSupportedException
from faststream.middlewares import AckPolicy
from faststream.specification import AsyncAPI
from faststream.specification.asyncapi.utils import to_camelcase
from faststream.specification.schema import BrokerSpec, Message, Operation, SubscriberSpec
from faststream.specification.schema.bindings import ChannelBinding, redis
from pydantic.json_schema import models_json_schema

from contracts.jobs import JobPayload, types_of
from contracts.topology import home, weights
from contracts.topology import pool as known_pool
from contracts.topology import queue as known_queue
from contracts.wire import options_schema
from pipeline.config import Settings, load
from pipeline.errors import ConfigurationError, StoreUnavailable
from pipeline.handlers import Handler
from pipeline.looper import Tick
from pipeline.runtime import NO_DUTIES, SIGNALS, Pipeline, address_of, end_stalled, exit_code, stream_of
from pipeline.worker.crew import Crew
from pipeline.worker.garbage import relax

SOMEWHERE: Final = "redis://localhost:6379"
UNSET: Final = "STREAMLANE_REDIS_URL is not set: the same queues lie in a file of this machine"
NOTHING: Final = "nothing, as no handler is for its pools yet"
MISCONFIGURED: Final = 2
BESIDE: Final = "for anything else, app.add_broker(…) takes a broker of FastStream"

OpenServices: TypeAlias = Callable[[Pipeline], AbstractAsyncContextManager[Any]]


def worker_app(
    *,
    pools: Sequence[str],
    handlers: Iterable[Handler],
    services: OpenServices = lambda _: nullcontext(),
    only: Collection[str] | None = None,
    awaiting: frozenset[str] = frozenset(),
    duties: Callable[[Any], Mapping[str, Tick]] = lambda _: NO_DUTIES,
    settings: Settings | None = None,
) -> FastStream:
    """Return a FastStream app whose every process is a worker of these pools; settings come from the environment.

    `services` opens what handlers are given, once a process, and `duties` says what else a process does with it. The
    rest is as in `Pipeline.workers`. SIGTERM and SIGINT drain; a second one skips the wait. Exit codes: 0, 1 when the
    store is away at the start, 2 for a configuration that cannot be used, 70 for a dead event loop, 75 when a handler
    does not stop.

    Settings that cannot be used end `faststream run` here: its supervisor would start again and again what cannot start.

    Raises:
        UnknownNameError: a pool that does not exist.
    """
    if _run_by_faststream():
        _end_unless_usable(settings)
    handlers = tuple(handlers)
    names = tuple(dict.fromkeys(known_pool(name).name for name in pools))
    broker = CrewBroker(names, settings, only)

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        async with Pipeline.open(settings=settings) as pipeline, services(pipeline) as given:
            async with pipeline.workers(
                pools=names, handlers=handlers, services=given, only=only, awaiting=awaiting,
                duties=duties(given), stalled=end_stalled, claiming=False,
            ) as crew:  # fmt: skip
                broker.crew, broker.work = crew, _work(pipeline, names, handlers)
                relax()
                yield
            broker.exit_code = exit_code(crew)

    return WorkerApp(
        broker,
        logger=structlog.get_logger(component="faststream"),
        lifespan=lifespan,
        specification=Document(
            title=f"Streamlane: {', '.join(names)}",
            version=version("streamlane"),
            description="One channel a queue: who writes such an entry has enqueued a job.",
        ),
    )


def _run_by_faststream() -> bool:
    """Whether this is the process of `faststream run`, and none that it has started."""
    program, *words = sys.argv
    called = Path(program).with_suffix("")  # as a module it is faststream/__main__.py
    named = "faststream" in (called.name, called.parent.name if called.name == "__main__" else "")
    return named and words[:1] == ["run"] and multiprocessing.parent_process() is None


def _end_unless_usable(settings: Settings | None) -> None:
    try:
        address_of(settings or load())
    except ConfigurationError as error:
        sys.stderr.write(f"streamlane: {error}\n")
        sys.exit(MISCONFIGURED)


def _work(pipeline: Pipeline, pools: Sequence[str], handlers: Iterable[Handler]) -> str:
    handled = {handler.payload.spec.queue for handler in handlers}
    served = [f"{name} ({pipeline.settings.slots(name)})" for name in pools if handled & set(weights(name))]
    return f"works on {', '.join(served) or NOTHING}; the queue is {pipeline.broker.where}"


class CrewBroker(BrokerUsecase[Any, None, BrokerConfig]):
    """What FastStream starts and stops. It carries nothing: `Pipeline.enqueue` does.

    A queue that several pools read is documented once, where it is at home if it can be.
    """

    def __init__(self, pools: Sequence[str], settings: Settings | None, only: Collection[str] | None) -> None:
        super().__init__(
            config=BrokerConfig(),
            specification=BrokerSpec(
                url=[SOMEWHERE], protocol="redis", protocol_version="7.0", description=None, tags=(), security=None
            ),
            routers=(),
        )  # fmt: skip
        self.settings, self.only = settings, only
        self.crew: Crew | None = None
        self.work = ""
        self.exit_code = 0
        reads = {queue: name for name in reversed(pools) for queue in weights(name)}
        self._in_order = [
            self.subscriber(
                PoolSubscriber(self, name, [queue for queue in weights(name) if reads[queue] == name])
            )
            for name in pools
        ]

    @property
    def subscribers(self) -> list[SubscriberUsecase[Any]]:
        """See `Registrator`; in the order of the pools, not in any."""
        return self._in_order

    async def ping(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - the answer is there already
        """Return whether the store lets us work."""
        return self.crew is not None and not self.crew.failing

    def subscriber(
        self, subscriber: SubscriberUsecase[Any], persistent: bool = True
    ) -> SubscriberUsecase[Any]:
        """Take a pool. Other subscribers belong to a broker of their own, which an app may have beside this one."""
        if not isinstance(subscriber, PoolSubscriber):
            raise FeatureNotSupportedException(f"only pools are served here; {BESIDE}")
        return super().subscriber(subscriber, persistent)

    def publisher(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: jobs have ids, limits and locks. Raises FeatureNotSupportedException."""
        raise FeatureNotSupportedException(f"jobs are enqueued by Pipeline.enqueue(payload); {BESIDE}")

    async def publish(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as `publisher`."""
        self.publisher()

    async def request(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse, as `publisher`."""
        self.publisher()

    async def _connect(self) -> None: ...


class _Config(SubscriberUsecaseConfig):
    parser = decoder = staticmethod(lambda message: message)
    ack_policy = AckPolicy.MANUAL


class PoolSubscriber(SubscriberUsecase[Any]):
    """A pool, as FastStream sees it. It has no task of its own that the framework could restart: a pool ends by flag."""

    def __init__(self, broker: CrewBroker, pool: str, queues: Sequence[str]) -> None:
        calls: CallsCollection[Any] = CallsCollection()
        outer: Any = broker.config  # FastStream hands on its composition of configurations as one
        super().__init__(_Config(_outer_config=outer), PoolSpecification(broker, pool, queues, calls), calls)
        self._broker, self._pool = broker, pool

    async def start(self) -> None:
        """Let the pool claim."""
        if self._broker.crew is None:
            raise RuntimeError("a worker app runs by its lifespan: faststream run, or app.run()")
        self._broker.crew.claim(self._pool)
        self.running = True

    async def stop(self) -> None:
        """Let the pool claim no more; its jobs get their grace when the app ends."""
        self.running = False
        if self._broker.crew is not None:
            await self._broker.crew.rest(self._pool)

    async def get_one(self, *, timeout: float = 5) -> NoReturn:  # noqa: ARG002
        """Refuse. Raises FeatureNotSupportedException."""
        raise FeatureNotSupportedException("a job is taken by a pool, never by hand")

    def __aiter__(self) -> NoReturn:
        raise FeatureNotSupportedException("a job is taken by a pool, never by hand")

    def _make_response_publisher(self, message: Any) -> tuple[()]:  # noqa: ARG002
        return ()


class PoolSpecification(SubscriberSpecification[BrokerConfig, SubscriberSpecificationConfig]):
    """What AsyncAPI says of a pool: each queue is a channel, named as its stream."""

    def __init__(
        self, broker: CrewBroker, pool: str, queues: Sequence[str], calls: CallsCollection[Any]
    ) -> None:
        said = SubscriberSpecificationConfig(title_=None, description_=None)
        outer: Any = broker.config
        super().__init__(outer, said, calls)
        self._broker, self._pool, self._queues = broker, pool, queues

    @property
    def channel_labels(self) -> list[str]:
        """The streams."""
        settings = self._broker.settings or load()
        return [stream_of(settings, queue) for queue in self._queues]

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Return the channels by stream. Raises ConfigurationError when the environment cannot be used."""
        return {
            stream: self._channel(stream, queue)
            for stream, queue in zip(self.channel_labels, self._queues, strict=True)
        }

    def _channel(self, stream: str, queue: str) -> SubscriberSpec:
        only = self._broker.only
        types = [one for one in types_of(queue) if only is None or one.spec.type in only]
        group, consumer = home(queue), f"<host>:<process>:<start>/{self._pool}"
        about = (
            f"Queue {queue}: {known_queue(queue).about}. Read by XREADGROUP GROUP {group} {consumer} STREAMS {stream} >"
            f" with weight {weights(self._pool)[queue]} in its pool. Jobs that come again lie in {stream}:again."
        )
        binding = redis.ChannelBinding(
            channel=stream, method="xreadgroup", group_name=group, consumer_name=consumer
        )
        return SubscriberSpec(
            address=stream,
            description=about,
            operation=Operation(
                Message(entry_schema(queue, types), title=f"{stream}:Message"), bindings=None
            ),
            bindings=ChannelBinding(redis=binding),
        )


def entry_schema(queue: str, types: Sequence[type[JobPayload]]) -> dict[str, Any]:
    """Return the JSON schema of the entries in a queue's stream: one form a job type."""
    _, found = models_json_schema(
        [(payload, "validation") for payload in types], ref_template="#/$defs/{model}"
    )
    definitions = found.get("$defs", {})
    forms = {f"{payload.__name__}Entry": _entry(payload) for payload in types}
    return {
        "title": f"{to_camelcase(queue)}Queue",
        "description": "The fields of a stream entry. `data` and `opts` are JSON texts, shown here as what they hold.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in forms],
        "$defs": {**definitions, **forms, "JobOptions": options_schema()},
    }


def _entry(payload: type[JobPayload]) -> dict[str, Any]:
    name = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9._:-]+$"}
    return {
        "title": payload.spec.type,
        "description": (payload.__doc__ or "").strip(),
        "type": "object",
        "properties": {
            "id": {**name, "description": "names one job for ever; left out, it is <queue>:<entry id>"},
            "type": {"const": payload.spec.type},
            "data": {"$ref": f"#/$defs/{payload.__name__}"},
            "opts": {"$ref": "#/$defs/JobOptions"},
        },
        "required": ["type", "data"],
    }


class Document(AsyncAPI):
    """The AsyncAPI document, without what FastStream says of messages of its own, and with the server that is set."""

    def to_specification(self) -> Any:
        """See `AsyncAPI`. Raises ConfigurationError when the environment cannot be used."""
        for broker in self.brokers:
            if isinstance(broker, CrewBroker):
                where = address_of(broker.settings or load())
                broker.specification.url = [where or SOMEWHERE]
                broker.specification.description = "STREAMLANE_REDIS_URL" if where else UNSET
        found: Any = super().to_specification()
        for message in found.components.messages.values():
            message.correlationId = None
        for channel in found.channels.values():
            channel.parameters = _literal(channel.address)
        return found


def _literal(address: str) -> dict[str, Any]:
    """AsyncAPI takes braces for a parameter; these belong to the name."""
    name = address[address.index("{") + 1 : address.index("}")]
    return {
        name: {"description": "the braces are part of the name: a hash tag of Redis", "enum": [f"{{{name}}}"]}
    }


class WorkerApp(FastStream):
    """A FastStream app that stops as a worker does."""

    _crew_broker: CrewBroker
    _watch: asyncio.Task[None] | None = None

    def __init__(self, broker: CrewBroker, **options: Any) -> None:
        super().__init__(broker, **options)
        self._crew_broker = broker

    async def run(
        self,
        log_level: int = logging.INFO,
        run_extra_options: dict[str, Any] | None = None,
        sleep_time: float = 0.1,
    ) -> None:
        """Work until told to stop. Raises SystemExit unless all is well."""
        try:
            await super().run(log_level, run_extra_options, sleep_time)
        except (ConfigurationError, StoreUnavailable) as error:
            sys.stderr.write(f"streamlane: {error}\n")
            sys.exit(MISCONFIGURED if isinstance(error, ConfigurationError) else 1)
        if self._crew_broker.exit_code:
            sys.exit(self._crew_broker.exit_code)

    async def start(self, **run_extra_options: Any) -> None:
        """Let the pools claim, and see when to stop: at a signal, without a supervisor, or for a stuck handler."""
        loop, told = asyncio.get_running_loop(), Counter[int]()
        crew, supervisor = self._crew_broker.crew, multiprocessing.parent_process()

        def stop(number: signal.Signals) -> None:
            told[number] += 1
            # Ctrl-C reaches a child twice: from the terminal, then as SIGTERM from its supervisor.
            if crew is not None and (told[number] if supervisor else told.total()) > 1:
                crew.hurry()
            self.exit()

        for number in SIGNALS:
            loop.add_signal_handler(number, stop, number)
        if supervisor is not None:
            loop.add_reader(supervisor.sentinel, self._orphaned, supervisor.sentinel)
        if crew is not None:
            self._watch = asyncio.create_task(self._exit_when(crew.stuck), name="stuck handlers")
        await super().start(**run_extra_options)
        sys.stderr.write(f"streamlane: {self._crew_broker.work}\n")

    async def stop(self) -> None:
        """Let the pools claim no more."""
        if self._watch is not None:
            self._watch.cancel()
        await super().stop()

    async def _exit_when(self, stuck: asyncio.Event) -> None:
        await stuck.wait()
        self.exit()

    def _orphaned(self, sentinel: int) -> None:
        """Stop as well when the supervisor was killed: nobody would, and nobody starts what ends."""
        asyncio.get_running_loop().remove_reader(sentinel)
        self.exit()
