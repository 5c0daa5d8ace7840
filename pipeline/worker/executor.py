"""One attempt: from a delivery to a confirmed settlement, as a list of steps."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from contracts.jobs import Job, JobPayload
from contracts.options import check_seconds
from contracts.outcomes import Retry, Snooze
from contracts.states import ArchiveReason, JobState
from contracts.wire import PoisonError, UnknownVersionError, decode
from pipeline.broker import Broker, Delivery, Settlement
from pipeline.client import Origin, Producer
from pipeline.config import Settings
from pipeline.errors import is_outage
from pipeline.failure import describe, stack
from pipeline.handlers import Context, Handler, HandlerTable
from pipeline.retry import RETRY_DELAYS, RetryDelay
from pipeline.settle import poison, settle, unknown
from pipeline.telemetry import span
from pipeline.worker.attempt import Attempt, Attempts
from pipeline.worker.control import AttemptControl
from pipeline.worker.flusher import Sorted
from pipeline.worker.invoke import Rooms, calmed, invoke, place
from pipeline.worker.verdict import End, decide, failure

SUSPECT_CRASHES: Final = 2
SUSPECT_SNOOZE_S: Final = 1.0
REMEMBERED: Final = 10_000

log = structlog.get_logger(component="worker")
job_log = structlog.get_logger(component="job")


@dataclass(frozen=True, slots=True)
class Ends:
    """Where attempts end: settlements and releases on their way to the store, and whoever waits for deaths."""

    settlements: Sorted[Settlement, JobState | None]
    releases: Sorted[Delivery, None]
    on_death: Callable[[], None]


class Settled(Exception):  # noqa: N818 - the end of an attempt, not an error
    """The attempt ends before its handler starts."""

    def __init__(self, settlement: Settlement) -> None:
        super().__init__()
        self.settlement = settlement


class Executor:
    """Makes attempts, for all pools of a process.

    Raises ConfigurationError for a handler that cannot run where it is to.
    """

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        handlers: HandlerTable,
        services: object,
        ends: Ends,
        attempts: Attempts,
        rooms: Rooms,
    ) -> None:
        self._broker, self._settings, self._services = broker, settings, services
        self._handlers = handlers.types()
        self._places = {name: place(handler) for name, handler in self._handlers.items()}
        self._ends, self._attempts, self._rooms = ends, attempts, rooms
        self._backoff = RETRY_DELAYS[settings.backoff]
        self._unknown_snooze_ms = round(settings.unknown_type_snooze_s * 1000)
        self._unknown_limit_ms = round(settings.unknown_type_limit_s * 1000)
        self._suspect: Attempt | None = None
        self._unreadable: dict[str, int] = {}

    async def run(self, attempt: Attempt) -> None:
        """Make one attempt. Raises nothing but a cancellation from outside."""
        try:
            job = self._decode(attempt)
            handler, payload = self._recognise(attempt, job)
            self._in_time(attempt, job)
            if job.crashes >= SUSPECT_CRASHES:
                await self._isolate(attempt, job)
            context = self._context(attempt, job)
            said = await self._handle(attempt, handler, payload, context)
            await self.conclude(attempt, said)
        except Settled as early:
            attempt.decided = True
            await self._confirm(early.settlement)
        finally:
            if self._suspect is attempt:
                self._suspect = None

    async def conclude(self, attempt: Attempt, said: object = None) -> None:
        """End an attempt, once: by what its handler said, or without it when it does not stop."""
        if attempt.decided or attempt.job is None:
            return
        attempt.decided = True
        await self._confirm(self._decide(attempt, attempt.job, said))

    def _decode(self, attempt: Attempt) -> Job:
        delivery = attempt.delivery
        try:
            attempt.job = decode(delivery.record, delivery.queue)
        except PoisonError as error:
            raise Settled(poison(delivery, str(error))) from None
        except UnknownVersionError as error:
            raise Settled(self._unread(attempt, str(error))) from None
        return attempt.job

    def _unread(self, attempt: Attempt, problem: str) -> Settlement:
        """A newer worker may read it: it waits, its record untouched, and we remember since when."""
        if len(self._unreadable) >= REMEMBERED:
            self._unreadable.clear()
        delivery, now = attempt.delivery, attempt.now()
        if now - self._unreadable.setdefault(delivery.job_id, now) >= self._unknown_limit_ms:
            return poison(delivery, f"nobody could read it: {problem}")
        return Settlement(delivery, JobState.SCHEDULED, delay_ms=self._unknown_snooze_ms, error=problem)

    def _recognise(self, attempt: Attempt, job: Job) -> tuple[Handler, JobPayload]:
        delivery = attempt.delivery
        handler = self._handlers.get(job.type)
        if handler is None or job.payload_version > handler.payload.spec.version:
            snooze_ms, limit_ms = self._unknown_snooze_ms, self._unknown_limit_ms
            raise Settled(unknown(delivery, job, snooze_ms=snooze_ms, limit_ms=limit_ms, now=attempt.now()))
        try:
            return handler, handler.payload.decode(job.data)
        except Exception as error:  # noqa: BLE001 - a validator of the payload may raise anything
            raise Settled(poison(delivery, describe(error))) from None

    def _in_time(self, attempt: Attempt, job: Job) -> None:
        """The limit of an attempt is its timeout, or what is left until its deadline on the store's clock."""
        limit_ms = float(job.timeout_ms or "inf")
        if job.deadline is not None:
            limit_ms = min(limit_ms, job.deadline - attempt.delivery.claimed_at)
        if limit_ms <= 0:
            error = job.last_error or "its deadline passed before it could start"
            raise Settled(
                Settlement(
                    attempt.delivery, JobState.ARCHIVED, job, reason=ArchiveReason.EXPIRED, error=error
                )
            )
        attempt.limit_s = None if limit_ms == float("inf") else limit_ms / 1000

    async def _isolate(self, attempt: Attempt, job: Job) -> None:
        """Jobs that were there when workers died run one at a time, so that the guilty one takes no innocent along."""
        if self._suspect is not None:
            later = Snooze(SUSPECT_SNOOZE_S)
            raise Settled(settle(attempt.delivery, job, later, delay=self._backoff, now=attempt.now()))
        self._suspect = attempt
        await asyncio.sleep(0)  # those claimed together with it are put off first
        await self._ends.settlements.confirmed()

    def _context(self, attempt: Attempt, job: Job) -> Context[Any]:
        return Context(
            job,
            self._services,
            Producer(self._broker, self._settings, Origin.of(job)),
            job_log,
            AttemptControl(self._broker, attempt),
            attempt.stop,
            attempt.delivery.claimed_at,
        )

    async def _handle(
        self, attempt: Attempt, handler: Handler, payload: JobPayload, context: Context[Any]
    ) -> object:
        """Run the handler; return what it returns or raises, whatever that is."""
        if attempt.told is not None:
            return None
        structlog.contextvars.bind_contextvars(
            job=context.id, type=context.type
        )  # for as long as this task lives
        with span("attempt"):
            self._attempts.start_clock(attempt)
            said: object = None
            try:
                where = self._places[context.type]
                said = await invoke(where, handler, payload, context, attempt, self._rooms)
            except BaseException as error:  # noqa: BLE001 - whatever a handler raises
                said = error
            finally:
                self._attempts.stop_clock(attempt)
            said = await calmed(attempt, said)
            if (said is not None or attempt.told) and (failed := failure(attempt, said)) is not None:
                _tell(context.job, failed, said)
            return said

    def _decide(self, attempt: Attempt, job: Job, said: object) -> End:
        """Return what counts, whatever was said: an attempt without an end would pass for a lost worker."""
        delay, now = self._delay(job), attempt.now()
        try:
            return decide(attempt, job, said, delay=delay, now=now)
        except Exception as error:  # noqa: BLE001 - whatever an outcome holds that no outcome should
            reason = f"the handler gave a {type(said).__name__} that cannot be used: {describe(error)}"
            log.warning("attempt failed", job=job.id, type=job.type, error=reason, retried=job.retried)
            return decide(attempt, job, Retry(reason=reason), delay=delay, now=now)

    async def _confirm(self, end: End) -> None:
        """Return when the store has confirmed. What it refuses is no longer ours: it was done, or went elsewhere."""
        try:
            if isinstance(end, Delivery):
                await self._ends.releases.add(end)
            elif end is not None:
                state = await self._ends.settlements.add(end)
                if state is None:
                    log.warning("settlement refused", job=end.delivery.job_id, meant=end.state)
                elif state is JobState.ARCHIVED:
                    say = log.info if end.reason is ArchiveReason.SKIP else log.error  # it was meant
                    say("job archived", job=end.delivery.job_id, reason=end.reason, error=end.error)
                    self._ends.on_death()
        except Exception as error:  # noqa: BLE001 - the lease ends, and the job is handed on
            log.critical("settlement impossible", error=describe(error), stack=stack(error))

    def _delay(self, job: Job) -> RetryDelay:
        """Return the wait between failed attempts: that of the handler's policy where it gives one."""
        handler = self._handlers.get(job.type)
        policy = None if handler is None else handler.retry
        if policy is None:
            return self._backoff

        def wait(failures: int) -> float:
            try:
                return check_seconds(policy(failures), "the wait of a retry policy")
            except Exception as error:  # noqa: BLE001 - a policy is the product's code
                log.warning("a retry policy is of no use", type=job.type, error=describe(error))
                return self._backoff(failures)

        return wait


def _tell(job: Job, failed: BaseException, said: object) -> None:
    """Write down that an attempt failed; that a store is away, which all jobs then meet, once a job and in a line."""
    if not is_outage(failed):
        log.warning(
            "attempt failed",
            error=failed.reason if isinstance(failed, Retry) else describe(failed),
            retried=job.retried,
            stack=stack(said) if isinstance(said, BaseException) else "",
        )
    elif not job.away_since:
        log.warning("put off: a store is away", error=describe(failed))
