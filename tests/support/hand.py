"""A worker by hand: one consumer that claims and settles when a test tells it to, and the envelopes it works on."""

import itertools
from collections.abc import Sequence
from typing import Any, Final

from contracts.identity import new_id
from contracts.jobs import Job
from contracts.outcomes import Outcome
from contracts.states import JobState
from contracts.wire import PoisonError, UnknownVersionError, decode
from pipeline.broker import Broker, Delivery, NewJob, Reclaimed, ReclaimPolicy, Settlement
from pipeline.clock import now_ms
from pipeline.settle import poison, settle

from tests.support.waiting import wait_until

QUEUE: Final = "default"
SOON_MS: Final = 60
"""A delay that is over soon, and long enough to look at a job while it lasts."""
LEASE_MS: Final = 300
LOST_MS: Final = 120
"""A lease where nobody lives who could miss a renewal, so that nobody waits long for its end."""
RETRY_S: Final = 0.05

_numbers = itertools.count(1)


def new(*, delay_ms: int = 0, run_at: int | None = None, named: bool = False, **fields: Any) -> NewJob:
    """A job to enqueue; what a test does not care about is filled in."""
    usual: dict[str, Any] = {
        "id": new_id(),
        "type": "test:work",
        "queue": QUEUE,
        "data": "{}",
        "max_retry": 1,
    }
    job = Job(**usual | fields)
    return NewJob(job, delay_ms, run_at, named)


def news(count: int, **fields: Any) -> list[NewJob]:
    """Jobs with ascending ids, which decide the order of what happens within one millisecond."""
    return sorted((new(**fields) for _ in range(count)), key=lambda one: one.job.id)


def ids(jobs: Sequence[NewJob]) -> list[str]:
    return [one.job.id for one in jobs]


class Hand:
    """A consumer with a name of its own, like every worker process has."""

    def __init__(self, store: Broker) -> None:
        self.store = store
        self.name = f"hand-{next(_numbers)}-{new_id()[-12:]}"

    async def take(self, count: int = 1, queue: str = QUEUE) -> list[Delivery]:
        """Claim up to `count` jobs."""
        return await self.store.claim(self.name, [(queue, count)])

    async def take_one(self, queue: str = QUEUE) -> Delivery:
        (delivery,) = await self.take(1, queue)
        return delivery

    async def take_when_due(self, queue: str = QUEUE) -> Delivery:
        """Promote until there is a job, and claim it."""

        async def promoted() -> list[Delivery]:
            await self.store.promote()
            return await self.take(1, queue)

        (delivery,) = await wait_until(promoted, describe=f"a job of {queue} is due")
        return delivery

    async def settle(self, delivery: Delivery, outcome: BaseException | None = None) -> JobState | None:
        """End an attempt as its handler would: return or raise `outcome`."""
        (state,) = await self.store.settle([settlement(delivery, outcome)])
        return state

    async def run(self, outcome: BaseException | None = None, queue: str = QUEUE) -> JobState | None:
        """Claim one job and end its attempt at once."""
        return await self.settle(await self.take_one(queue), outcome)

    async def renewing(self, deliveries: Sequence[Delivery]) -> list[str]:
        """Renew once, on a connection of its own, as the lease thread does."""
        leases = self.store.leases()
        try:
            return [str(state) for state in leases.renew(deliveries)]
        finally:
            leases.close()


def envelope(delivery: Delivery) -> Job:
    """What a claimed record says."""
    return decode(delivery.record, delivery.queue)


def settlement(delivery: Delivery, outcome: BaseException | None = None) -> Settlement:
    """The settlement that an attempt's outcome means, with a short wait between attempts."""
    try:
        job = envelope(delivery)
    except (PoisonError, UnknownVersionError) as problem:
        return poison(delivery, str(problem))
    return settle(delivery, job, outcome, delay=lambda _: RETRY_S, now=now_ms())


async def run_all(store: Broker, queue: str = QUEUE, outcome: Outcome | None = None) -> list[str]:
    """Run what can be claimed until nothing is left; the ids in the order in which they were claimed."""
    hand, done = Hand(store), list[str]()
    while taken := await hand.take(50, queue):
        await store.settle([settlement(one, outcome) for one in taken])
        done += [one.job_id for one in taken]
    return done


async def reclaimed(
    store: Broker, *, lease_ms: int = LOST_MS, max_crashes: int = 3, count: int = 1
) -> list[Reclaimed]:
    """Reclaim, as the duty of a living worker does, until `count` deliveries were taken from lost ones."""
    policy = ReclaimPolicy(lease_ms=lease_ms, max_crashes=max_crashes)
    found: list[Reclaimed] = []

    async def enough() -> bool:
        found.extend(await store.reclaim(policy))
        return len(found) >= count

    await wait_until(
        enough, describe=f"{count} deliveries were reclaimed", longest_pause=lease_ms / 10_000, timeout=20
    )
    return found


async def state(store: Broker, job_id: str) -> JobState | None:
    """Where a job stands; a tombstone counts."""
    (found,) = await store.states([job_id])
    return found


async def pending(store: Broker, queue: str = QUEUE) -> int:
    return {stat.name: stat.pending for stat in await store.queue_stats()}[queue]
