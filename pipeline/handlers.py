"""Handlers: what runs for a job type, and what it is given."""

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

import structlog
import typing_extensions

from contracts.jobs import Job, JobPayload, JobSpec, Scope, types_of
from contracts.outcomes import Outcome
from contracts.topology import weights
from pipeline.broker import DeadLetter
from pipeline.client import Origin, Producer
from pipeline.errors import ConfigurationError
from pipeline.retry import RetryDelay

S = typing_extensions.TypeVar("S", default=Any)
P = TypeVar("P", bound=JobPayload)

Offload: TypeAlias = Literal["process"]


class Control(Protocol):
    """What the worker does for a running handler."""

    async def progress(self, done: int, total: int, stage: str) -> None:
        """Note how far the job is."""

    def lock(self, name: str, ttl: float, width: int) -> AbstractAsyncContextManager[int]:
        """Hold a lock while the job lives."""


@dataclass(frozen=True, slots=True)
class Context(Generic[S]):
    """One attempt, as its handler sees it. Times are milliseconds since the epoch.

    `final` says that a failure of this attempt is the last one. `services` is what the process was built with.
    Children enqueued through `pipeline` inherit root, trace and fences.
    """

    job: Job
    services: S
    pipeline: Producer
    log: structlog.typing.FilteringBoundLogger
    control: Control
    stop: asyncio.Event
    started_at: int = 0
    """When this attempt was claimed, in milliseconds since the epoch."""

    @property
    def id(self) -> str:
        """The job's id, the same in every attempt."""
        return self.job.id

    @property
    def type(self) -> str:
        """The job type."""
        return self.job.type

    @property
    def queue(self) -> str:
        """The queue it came from."""
        return self.job.queue

    @property
    def retried(self) -> int:
        """Failed attempts before this one."""
        return self.job.retried

    @property
    def max_retry(self) -> int:
        """Failed attempts allowed before the last one."""
        return self.job.max_retry

    @property
    def final(self) -> bool:
        """Whether a failure now archives the job."""
        return self.job.final

    @property
    def deadline(self) -> int | None:
        """When the job becomes worthless."""
        return self.job.deadline

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What the job belongs to."""
        return self.job.scopes

    @property
    def origin(self) -> Origin:
        """What a child enqueued by other means (an outbox) must inherit."""
        return Origin.of(self.job)

    @property
    def cancelled(self) -> bool:
        """Whether the job was told to stop; a sync handler looks at this between its steps."""
        return self.stop.is_set()

    async def progress(self, done: int, total: int, stage: str = "") -> None:
        """Say how far the work is; shown to people, never needed by the queue."""
        await self.control.progress(done, total, stage)

    def lock(self, name: str, ttl: float, width: int = 1) -> AbstractAsyncContextManager[int]:
        """Hold one of `width` places of a lock, renewed while the job lives and never longer; gives a fencing number.

        Raises Retry when all places are taken. A place that is lost cancels the handler.
        """
        return self.control.lock(name, ttl, width)


Run: TypeAlias = Callable[[Any, Any], Awaitable[Outcome | None] | Outcome | None]
DeathHook: TypeAlias = Callable[[Any, DeadLetter, Any], Awaitable[None]]
"""Called with the payload, the dead letter and the services."""


@dataclass(frozen=True, slots=True)
class Handler:
    """What runs for one job type. See `on`."""

    payload: type[JobPayload]
    run: Run
    offload: Offload | None = None
    on_archived: DeathHook | None = None
    retry: RetryDelay | None = None


def on(
    payload: type[P],
    run: Callable[[P, Any], Awaitable[Outcome | None] | Outcome | None],
    *,
    offload: Offload | None = None,
    on_archived: Callable[[P, DeadLetter, Any], Awaitable[None]] | None = None,
    retry: RetryDelay | None = None,
) -> Handler:
    """Say that `run` handles `payload`.

    An ``async def`` runs on the event loop, a ``def`` in a thread; with ``offload="process"`` a ``def`` runs in a
    child process that can be killed, and gets the payload only. `on_archived` is the final-failure hook: it runs once
    a death for every reason but `skip`. `retry` overrides the wait between failed attempts.

    Raises:
        ConfigurationError: `payload` is no job type, or `offload` no place.
    """
    if not isinstance(getattr(payload, "spec", None), JobSpec):
        raise ConfigurationError(
            f"{_named(payload)} is no job type: give a JobPayload class with type=… and queue=…"
        )
    if not callable(run):
        raise ConfigurationError(f"{payload.spec.type}: {run!r:.80} is no handler: give a function")
    if offload not in {None, "process"}:
        raise ConfigurationError(
            f'{payload.spec.type}: offload must be "process", or left out (a plain def then runs in a thread),'
            f" got {offload!r:.80}"
        )
    return Handler(payload, cast(Run, run), offload, cast("DeathHook | None", on_archived), retry)


def _named(value: object) -> str:
    return getattr(value, "__name__", f"{value!r:.80}")


class HandlerTable:
    """Handlers by job type.

    Raises ConfigurationError for what is no handler, and when two handle one type.
    """

    def __init__(self, handlers: Iterable[Handler]) -> None:
        handlers = list(handlers)
        for given in cast("list[object]", handlers):
            if not isinstance(given, Handler):
                name = _named(given)
                raise ConfigurationError(
                    f"{name} says no job type: give on(Payload, {name}), Payload being its class"
                )
        self._by_type: dict[str, Handler] = {}
        for handler in handlers:
            name = handler.payload.spec.type
            if name in self._by_type:
                raise ConfigurationError(f"two handlers for job type {name!r}")
            self._by_type[name] = handler

    def get(self, job_type: str) -> Handler | None:
        """Return the handler of a job type, or None."""
        return self._by_type.get(job_type)

    def types(self) -> Mapping[str, Handler]:
        """Return all handlers by type."""
        return dict(self._by_type)

    def require(self, pools: Iterable[str], awaiting: frozenset[str] = frozenset()) -> None:
        """Refuse to serve queues some of whose known types nobody handles.

        Raises ConfigurationError naming them.
        """
        for pool in pools:
            for queue in weights(pool):
                for payload in types_of(queue):
                    name = payload.spec.type
                    if name not in self._by_type and name not in awaiting:
                        near = difflib.get_close_matches(name, self._by_type, n=1)
                        hint = f" (nearest handled: {near[0]})" if near else ""
                        raise ConfigurationError(
                            f"pool {pool!r} reads queue {queue!r}, but nothing handles its job type {name!r}{hint}"
                        )
