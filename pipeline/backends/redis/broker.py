"""Jobs in Redis Streams: the port `pipeline.broker.Broker`. What each verb promises is said there; how, in `lua/`."""

from collections.abc import Callable, Sequence
from typing import Final, Self, TypeVar

from contracts.fences import Coverage
from contracts.jobs import Scope
from contracts.states import JobState
from contracts.topology import by_home
from pipeline.backends.redis import (
    cancelling,
    dead_letters,
    deliveries,
    enqueuing,
    inspection,
    listing,
    locks,
    reclaiming,
    records,
    registry,
    retention,
    steering,
)
from pipeline.backends.redis.address import parse
from pipeline.backends.redis.control import Control, Wakeups
from pipeline.backends.redis.gathering import Gathering
from pipeline.backends.redis.keys import Keys, homes
from pipeline.backends.redis.leases import RedisLeases
from pipeline.backends.redis.probing import condition, look_at_settings, probe
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server, joined
from pipeline.backends.redis.speaking import mistaken
from pipeline.backends.redis.waiting import Waiting
from pipeline.broker import (
    CancelOutcome,
    Condition,
    DeadLetter,
    Delivery,
    NewJob,
    Promoted,
    Pruned,
    Reclaimed,
    ReclaimPolicy,
    Retention,
    ScopeCancel,
    Settlement,
)
from pipeline.config import Settings
from pipeline.errors import StoreFull, StoreUnavailable
from pipeline.receipt import Receipt
from pipeline.records import (
    ANY,
    HourStat,
    JobRecord,
    Obstacles,
    Page,
    Progress,
    QueueStat,
    TaskFilter,
    WorkerBeat,
)

WRITE_FACTOR: Final = 2
PROMOTED: Final = 200
"""Jobs moved by one script, so that it holds the server for a few milliseconds at most."""


class RedisBroker:
    """Where jobs are kept in Redis. `open` makes one."""

    def __init__(self, settings: Settings) -> None:
        self._address = parse(settings)
        self._keys = keys = Keys(settings.namespace, self._address.database)
        timeout_s = settings.redis_op_timeout_ms / 1000 * WRITE_FACTOR
        self._server = server = Server(
            self._address, timeout_s=timeout_s, replicas=settings.redis_wait_replicas
        )
        self._wakeups = Wakeups()
        self._control = Control(server, keys.control, self._wakeups)
        self._waiting = Waiting(server, keys, self._wakeups)
        self._claiming = deliveries.Turns(), deliveries.Groups()
        self._arrivals = {name: Gathering(enqueuing.Sending(server, keys, name), len) for name in homes()}

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        """Reach for Redis. Raises ConfigurationError, StoreUnavailable; the message says what to do."""
        broker = cls(settings)
        try:
            try:
                await broker.ping()
            except StoreFull:  # it can be read, and workers make room
                pass
            except StoreUnavailable as error:
                if instead := await mistaken(broker._address):
                    raise StoreUnavailable(f"Redis cannot be understood: {instead}") from error
                raise
            await look_at_settings(broker._server, verified=not settings.redis_skip_verify)
        except BaseException:
            await broker.close()
            raise
        return broker

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        asked = by_home(range(len(jobs)), lambda place: jobs[place].job.queue)
        said = [enqueuing.encode(new) for new in jobs]
        answers = await joined(
            self._arrivals[name].ask([said[i] for i in places]) for name, places in asked.items()
        )
        return in_order(asked, answers)

    async def claim(self, consumer: str, wants: Sequence[tuple[str, int]]) -> list[Delivery]:
        asked = by_home(range(len(wants)), lambda place: wants[place][0])
        claims = (
            deliveries.claim(
                self._server, self._keys, name, consumer, [wants[i] for i in places], self._claiming
            )
            for name, places in asked.items()
        )
        return [delivery for claimed in await joined(claims) for delivery in claimed]

    async def held(self, consumer: str, queues: Sequence[str]) -> list[Delivery]:
        found = await joined(
            deliveries.held(self._server, self._keys, name, consumer, among)
            for name, among in by_home(queues, str).items()
        )
        return [delivery for held in found for delivery in held]

    async def wait_for_work(self, queues: Sequence[str], timeout: float) -> bool:
        self._control.start()
        return await self._waiting.wait(queues, timeout)

    def leases(self) -> RedisLeases:
        return RedisLeases(self._address, self._keys)

    async def settle(self, settlements: Sequence[Settlement]) -> list[JobState | None]:
        asked = by_home(range(len(settlements)), lambda place: settlements[place].delivery.queue)
        answers = await joined(
            deliveries.settle(self._server, self._keys, name, [settlements[i] for i in places])
            for name, places in asked.items()
        )
        return in_order(asked, answers)

    async def release(self, deliveries_: Sequence[Delivery]) -> int:
        asked = by_home(range(len(deliveries_)), lambda place: deliveries_[place].queue)
        return sum(
            await joined(
                deliveries.release(self._server, self._keys, name, [deliveries_[i] for i in places])
                for name, places in asked.items()
            )
        )

    async def report(self, delivery: Delivery, progress: Progress) -> bool:
        return await deliveries.report(self._server, self._keys, delivery, progress)

    async def promote(self, limit: int = 500) -> Promoted:
        said = await joined(self._promote(name, queues, limit) for name, queues in homes().items())
        waits = [one.due_in_ms for one in said if one.due_in_ms is not None]
        return Promoted(sum(one.moved for one in said), min(waits, default=None))

    async def reclaim(self, policy: ReclaimPolicy) -> list[Reclaimed]:
        found = await joined(
            reclaiming.reclaim(self._server, self._keys, name, queues, policy)
            for name, queues in homes().items()
        )
        return [one for taken in found for one in taken]

    async def prune(self, retention_: Retention) -> Pruned:
        return await retention.prune(self._server, self._keys, retention_)

    async def cancel(self, job_ids: Sequence[str]) -> list[CancelOutcome]:
        return await cancelling.cancel(self._server, self._keys, job_ids)

    async def choose_cut(self) -> int:
        return await cancelling.choose_cut(self._server, self._keys)

    async def cancel_scope(self, scope: Scope, coverage: Coverage, cut: int | None = None) -> ScopeCancel:
        return await cancelling.cancel_scope(self._server, self._keys, scope, coverage, cut)

    async def run_now(self, job_id: str) -> None:
        await steering.run_now(self._server, self._keys, job_id)

    async def delete(self, job_id: str) -> None:
        await steering.delete(self._server, self._keys, job_id)

    async def purge(self, queue: str) -> int:
        return await steering.purge(self._server, self._keys, queue)

    async def pause(self, queue: str) -> None:
        await steering.set_paused(self._server, self._keys, queue, "SADD")

    async def resume(self, queue: str) -> None:
        await steering.set_paused(self._server, self._keys, queue, "SREM")

    async def job(self, job_id: str) -> JobRecord | None:
        return await records.find(self._server, self._keys, job_id)

    async def states(self, job_ids: Sequence[str]) -> list[JobState | None]:
        known = await records.standing(self._server, self._keys, job_ids)
        return [known.get(job_id) for job_id in job_ids]

    async def tasks(
        self, queue: str, state: JobState, *, cursor: str | None, limit: int, match: TaskFilter = ANY
    ) -> Page:
        return await listing.tasks(self._server, self._keys, queue, state, cursor, limit, match)

    async def count(self, queue: str, state: JobState, match: TaskFilter) -> tuple[int, bool]:
        return await listing.count(self._server, self._keys, queue, state, match)

    async def queue_stats(self) -> list[QueueStat]:
        return await inspection.queue_stats(self._server, self._keys)

    async def has_queued(self, scope: Scope, types: frozenset[str] | None = None) -> bool:
        return await inspection.has_queued(self._server, self._keys, scope, types)

    async def queued_ids(self, kind: str, types: frozenset[str] | None = None) -> set[str]:
        return await inspection.queued_ids(self._server, self._keys, kind, types)

    async def history(self, hours: int) -> list[HourStat]:
        return await inspection.history(self._server, self._keys, hours)

    async def obstacles(self, queue: str, job_id: str) -> Obstacles:
        return await inspection.obstacles(self._server, self._keys, queue, job_id)

    async def children(self, parent_id: str, scope: Scope, limit: int) -> tuple[list[JobRecord], bool]:
        return await inspection.children(self._server, self._keys, parent_id, scope, limit)

    async def heartbeat(self, beat: WorkerBeat, ttl_ms: int) -> None:
        await registry.heartbeat(self._server, self._keys, beat, ttl_ms)

    async def forget(self, worker: str) -> None:
        await registry.forget(self._server, self._keys, worker)

    async def workers(self) -> list[WorkerBeat]:
        return await registry.workers(self._server, self._keys)

    async def dead_letters(
        self, queues: Sequence[str], limit: int, *, tended: bool = False
    ) -> list[DeadLetter]:
        return await dead_letters.oldest(self._server, self._keys, queues, limit, tended=tended)

    async def tend_dead_letters(self, death_ids: Sequence[str]) -> None:
        await dead_letters.tend(self._server, self._keys, death_ids)

    async def forget_dead_letters(self, death_ids: Sequence[str]) -> None:
        await dead_letters.forget(self._server, self._keys, death_ids)

    async def lock(self, name: str, owner: str, ttl_ms: int, width: int = 1) -> int | None:
        return await locks.lock(self._server, self._keys, name, owner, ttl_ms, width)

    async def unlock(self, name: str, owner: str) -> bool:
        return await locks.unlock(self._server, self._keys, name, owner)

    async def remember(self, name: str, value: str, *, anew: bool = False) -> str:
        place = (self._keys.remembered, name)
        known = None if anew else await self._server.call("HGET", *place)
        if known is None:
            await self._server.call("HSET" if anew else "HSETNX", *place, value)
            known = await self._server.call("HGET", *place)
        return str(known)

    def on_signal(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self._control.add("signal", listener)

    def on_due(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self._control.add("due", listener)

    @property
    def where(self) -> str:
        return str(self._address)

    async def ping(self) -> None:
        await probe(self._server, self._keys)

    async def condition(self) -> Condition:
        return await condition(self._server)

    async def close(self) -> None:
        await self._waiting.close()
        await self._control.close()
        await self._server.close()

    async def _promote(self, name: str, queues: Sequence[str], limit: int) -> Promoted:
        moved, wait, left = 0, None, limit
        while left > 0:
            most = min(left, PROMOTED)
            said = await self._server.run(
                script("promote_jobs"), self._keys.prefix(name), self._keys.control, most, *queues
            )
            moved, wait, left = moved + said[0], int(said[1]) if said[1] else None, left - most
            if said[0] < most:
                break
        return Promoted(moved, wait)


R = TypeVar("R")


def in_order(asked: dict[str, list[int]], answers: Sequence[Sequence[R]]) -> list[R]:
    """Return the answers in the order of what was asked."""
    if len(answers) == 1:
        return list(answers[0])
    placed = {
        place: one
        for places, said in zip(asked.values(), answers, strict=True)
        for place, one in zip(places, said, strict=True)
    }
    return [placed[place] for place in range(len(placed))]
