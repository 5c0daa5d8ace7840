"""Producing: from a payload and its options to an enqueued job."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from contracts.identity import new_id
from contracts.jobs import Job, JobPayload, JobSpec, Unique
from contracts.options import CHECKS, check_kind
from contracts.states import JobState
from contracts.topology import QUEUES, by_home, home
from pipeline.broker import Broker, NewJob
from pipeline.config import Settings
from pipeline.errors import (
    ConfigurationError,
    EnqueueFailed,
    JobArchived,
    JobCancelled,
    PartialEnqueue,
    PayloadInvalid,
    PayloadTooLarge,
    StoreUnavailable,
    WaitTimeout,
)
from pipeline.receipt import Receipt

SHORTEST_POLL_S: Final = 0.02
LONGEST_POLL_S: Final = 0.5
POLL_SHARE: Final = 0.1
"""What is waited longer than need be, of the time waited so far: a poll asks every home of a store."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a child inherits: the root that a cancel fences, its parent and its trace."""

    parent_id: str
    root_id: str
    root_at: int
    trace: str = ""

    @classmethod
    def of(cls, job: Job) -> "Origin":
        """Return the origin of the children of `job`."""
        return cls(job.id, job.root_id or job.id, job.root_at, job.trace)


@dataclass(frozen=True, slots=True)
class Enqueue:
    """A payload and what its enqueue asks for; None means what the payload's class says.

    `delay`, `timeout`, `retention` in seconds; `run_at` and `deadline` in milliseconds since the epoch. A given
    `id` names one job for ever: enqueueing it again is a duplicate. `origin` makes it a child.

    Raises ConfigurationError naming the option that cannot be, and what can.
    """

    payload: JobPayload
    _: KW_ONLY
    id: str | None = None
    delay: float | None = None
    run_at: int | None = None
    queue: str | None = None
    max_retry: int | None = None
    timeout: float | None = None
    deadline: int | None = None
    retention: float | None = None
    unique: Unique | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        spec = getattr(type(self.payload), "spec", None)
        if not isinstance(spec, JobSpec):
            raise ConfigurationError(
                f"{self.payload!r:.80} is no job payload: give an instance of a JobPayload class with type=… and queue=…"
            )
        try:
            if (asked := _ASKED(self)) != _NOTHING:
                for option, value in zip(_OPTIONS, asked, strict=True):
                    if value is not None:
                        _CHECKS[option](value, option)
                if self.delay is not None and self.run_at is not None:
                    raise ValueError("give either delay or run_at, not both")
                if self.queue is not None and home(self.queue) != home(spec.queue):
                    raise ValueError(
                        f"it lives in pool {home(spec.queue)!r}; queue {self.queue!r} is elsewhere"
                    )
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{spec.type}: {error}") from None


_OPTIONS: Final = tuple(option.name for option in fields(Enqueue) if option.name not in {"payload", "_"})
_ASKED: Final = attrgetter(*_OPTIONS)
_NOTHING: Final = (None,) * len(_OPTIONS)
_CHECKS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    **CHECKS,
    "unique": partial(check_kind, kind=Unique),
    "origin": partial(check_kind, kind=Origin),
}


class Producer:
    """Enqueues jobs; with an `origin`, as children of that job."""

    def __init__(self, broker: Broker, settings: Settings, origin: Origin | None = None) -> None:
        self._broker = broker
        self._settings = settings
        self._origin = origin

    async def enqueue(
        self,
        payload: JobPayload,
        *,
        id: str | None = None,  # noqa: A002 - the public name of the option
        delay: float | None = None,
        run_at: int | None = None,
        queue: str | None = None,
        max_retry: int | None = None,
        timeout: float | None = None,
        deadline: int | None = None,
        retention: float | None = None,
        unique: Unique | None = None,
    ) -> Receipt:
        """Store a job; it is durable when this returns. See `Enqueue` for the units.

        Raises:
            EnqueueFailed: the store did not confirm; repeating with the error's `job_id` happens once.
            PayloadTooLarge, PayloadInvalid, ConfigurationError: the job cannot be accepted as it is; nothing was sent.
        """
        item = Enqueue(
            payload, id=id, delay=delay, run_at=run_at, queue=queue, max_retry=max_retry, timeout=timeout,
            deadline=deadline, retention=retention, unique=unique,
        )  # fmt: skip
        new = self._prepare(item)
        try:
            (receipt,) = await self._broker.enqueue([new])
        except StoreUnavailable as error:
            raise EnqueueFailed(new.job.id, error) from error
        return receipt

    async def enqueue_many(self, items: Sequence[JobPayload | Enqueue]) -> list[Receipt]:
        """Store many jobs, in one round trip a pool.

        Raises:
            PartialEnqueue: the store did not confirm all; the error has the receipts and every job's id.
            PayloadTooLarge, PayloadInvalid, ConfigurationError: one cannot be accepted as it is; nothing was sent.
        """
        news = [self._prepare(item if isinstance(item, Enqueue) else Enqueue(item)) for item in items]
        receipts: list[Receipt | None] = [None] * len(news)
        failed: StoreUnavailable | None = None
        for places in by_home(range(len(news)), lambda place: news[place].job.queue).values():
            try:
                stored = await self._broker.enqueue([news[place] for place in places])
            except StoreUnavailable as error:
                failed = error
            else:
                for place, receipt in zip(places, stored, strict=True):
                    receipts[place] = receipt
        if failed is not None:
            raise PartialEnqueue(receipts, [new.job.id for new in news], failed) from failed
        return [receipt for receipt in receipts if receipt is not None]

    async def wait(self, job_id: str, *, timeout: float) -> None:
        """Return when the job is done.

        A job that nobody remembers is done: completed jobs are kept for their retention only.

        Raises:
            JobArchived, JobCancelled, JobDeleted: how else it ended.
            WaitTimeout: it has not ended within `timeout` seconds.
            StoreUnavailable: the store cannot say; wait again.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                while not await self._ended(job_id):
                    waited = time.monotonic() - began
                    await asyncio.sleep(min(max(waited * POLL_SHARE, SHORTEST_POLL_S), LONGEST_POLL_S))
        except TimeoutError:
            standing = await self._standing(job_id)
            raise WaitTimeout(
                f"job {job_id} has not ended after {timeout:g} s; it goes on{standing}"
            ) from None

    async def _standing(self, job_id: str) -> str:
        """Say what is known of a job that somebody waits for in vain."""
        try:
            record, workers = await self._broker.job(job_id), await self._broker.workers()
        except StoreUnavailable as error:
            return f": {error}"
        if record is None:
            return ""
        job = record.job
        said = f": {record.state}, attempt {job.attempt} of {job.max_retry + 1}"
        if job.last_error:
            said += f", last error: {job.last_error}"
        if not any(job.queue in pool.weights for worker in workers for pool in worker.pools):
            said += f"; no worker of pool {QUEUES[job.queue].pool} lives"
        return said

    async def _ended(self, job_id: str) -> bool:
        record = await self._broker.job(job_id)
        if record is None:
            (state,) = await self._broker.states([job_id])
            return _outcome(job_id, state, "")
        return _outcome(job_id, record.state, ": ".join(filter(None, (record.reason, record.job.last_error))))

    def _prepare(self, item: Enqueue) -> NewJob:
        payload = item.payload
        spec = type(payload).spec
        try:
            data, scopes = payload.encode(), payload.scopes()
        except ValueError as error:
            raise PayloadInvalid(f"{spec.type}: {error}") from error
        size = len(data.encode())
        if size > self._settings.max_payload_kb * 1024:
            raise PayloadTooLarge(
                f"the payload of {spec.type} has {size // 1024} KB, the limit is {self._settings.max_payload_kb}:"
                " put the data in the file store and pass its key"
            )
        timeout = item.timeout if item.timeout is not None else spec.timeout
        timeout = timeout if timeout is not None else self._settings.timeout_s
        origin = item.origin or self._origin
        retention = spec.retention if item.retention is None else item.retention
        job = Job.of(
            id=item.id or new_id(),
            type=spec.type,
            queue=item.queue or spec.queue,
            data=data,
            max_retry=spec.max_retry if item.max_retry is None else item.max_retry,
            timeout_ms=round((timeout or 0) * 1000),
            deadline=item.deadline,
            retention_ms=round(retention * 1000),
            payload_version=spec.version,
            scopes=scopes,
            unique=item.unique,
        )
        if origin is not None:
            job = replace(
                job,
                root_id=origin.root_id,
                root_at=origin.root_at,
                parent_id=origin.parent_id,
                trace=origin.trace,
            )
        return NewJob(job, round((item.delay or 0) * 1000), item.run_at, named=item.id is not None)


def _outcome(job_id: str, state: JobState | None, detail: str) -> bool:
    match state:
        case None | JobState.COMPLETED:
            return True
        case JobState.ARCHIVED:
            raise JobArchived(f"job {job_id} was archived ({detail})")
        case JobState.CANCELLED:
            raise JobCancelled(f"job {job_id} was cancelled")
        case _:
            return False
