"""Deliveries: claimed, held, settled, handed back."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import structlog
from pydantic_core import to_json

from contracts.states import JobState
from contracts.topology import home
from contracts.wire import encode_options
from pipeline.backends.redis.keys import Keys
from pipeline.backends.redis.scripts import script
from pipeline.backends.redis.server import Server
from pipeline.broker import Delivery, Settlement
from pipeline.records import Progress

HEAD: Final = 3
"""What `claim_jobs.lua` says before the jobs."""
STATES: Final = {state.value: state for state in JobState}
AT_ONCE: Final = 100
"""Jobs in one script, so that it holds the server for a few milliseconds at most."""

log = structlog.get_logger(component="redis")


class Turns:
    """Whose turn it is in each queue: that of jobs that come again, or that of fresh ones."""

    def __init__(self) -> None:
        self._fresh: set[str] = set()

    def again(self, queue: str, wanted: int) -> int:
        """Return 1 when those that come again are first, and count a turn of `wanted` jobs."""
        fresh = queue in self._fresh
        if wanted % 2:
            self._fresh ^= {queue}
        return 0 if fresh else 1


class Groups:
    """The queues that this process has found to have their consumer groups: groups that must be made again were lost."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def seen(self, read: set[str], made: set[str]) -> None:
        """Note queues that were read to their end, and those whose group was made for that."""
        if lost := made & self._known:
            log.warning(
                "consumer groups were gone and are made anew; what waits there runs, also again",
                queues=sorted(lost),
            )
        self._known |= read | made


async def claim(
    server: Server,
    keys: Keys,
    name: str,
    consumer: str,
    wants: Sequence[tuple[str, int]],
    state: tuple[Turns, Groups],
) -> list[Delivery]:
    """Claim at most n of each (queue, n) of one home."""
    turns, groups = state
    asked = [part for queue, n in wants if n > 0 for part in (queue, n, turns.again(queue, n))]
    if not asked:
        return []
    made = set[str]()
    while True:
        said = await server.run_in_order(
            script("claim_jobs"), keys.prefix(name), keys.control, consumer, *asked
        )
        made.update(said[1].split())
        if said[2] == 0 or len(said) > HEAD:
            break  # else all that came has ended, and behind it there may be some that has not
    now = int(said[0])
    fields = iter(said[HEAD:])
    claimed = [
        Delivery(queue, job_id, entry, consumer, _record(job_id, kind, data, opts), now)
        for queue, entry, job_id, kind, data, opts in zip(*[fields] * 6, strict=True)
    ]
    got = Counter(one.queue for one in claimed)
    groups.seen({queue for queue, n in wants if got[queue] < n}, made)
    return claimed


async def held(server: Server, keys: Keys, name: str, consumer: str, queues: Sequence[str]) -> list[Delivery]:
    """Return what is active of these queues, all of one home, in this consumer's name."""
    said = iter(await server.run(script("list_held"), keys.prefix(name), consumer, *queues))
    return [
        Delivery(queue, job_id, entry, consumer, _record(job_id, kind, data, opts), int(at))
        for queue, entry, job_id, kind, data, opts, at in zip(*[said] * 7, strict=True)
    ]


async def settle(
    server: Server, keys: Keys, name: str, settlements: Sequence[Settlement]
) -> list[JobState | None]:
    """Settle what is current in one home."""
    states: list[JobState | None] = []
    for first in range(0, len(settlements), AT_ONCE):
        asked = to_json([_said(one) for one in settlements[first : first + AT_ONCE]])
        said = await server.run_in_order(script("settle_jobs"), keys.prefix(name), keys.control, asked)
        states += [STATES.get(state) for state in said]
    return states


async def release(server: Server, keys: Keys, name: str, deliveries: Sequence[Delivery]) -> int:
    """Hand back what is current in one home."""
    released = 0
    for first in range(0, len(deliveries), AT_ONCE):
        args = [part for one in deliveries[first : first + AT_ONCE] for part in token(one)]
        released += await server.run(script("release_jobs"), keys.prefix(name), keys.control, *args)
    return released


async def report(server: Server, keys: Keys, one: Delivery, progress: Progress) -> bool:
    """Note the progress of a running job."""
    told = json.dumps([progress.done, progress.total, progress.stage])
    said = await server.run(
        script("report_progress"), keys.prefix(home(one.queue)), *token(one), told, progress.at
    )
    return bool(said)


def token(one: Delivery) -> tuple[str, str, str, str]:
    """Return what names a delivery, and proves whose it is."""
    return one.queue, one.entry, one.job_id, one.consumer


def _said(one: Settlement) -> tuple[Any, ...]:
    job = one.job
    kept = job.retention_ms if job else 0
    needed = job and (one.state is not JobState.COMPLETED or kept > 0 or job.scopes or job.unique)
    opts = encode_options(job) if job and needed else ""
    kind = job.type if job else ""
    return (*token(one.delivery), kind, one.state, opts, one.delay_ms, one.reason or "", one.error, kept)


def _record(job_id: str, kind: str, data: str, opts: str) -> dict[str, str]:
    return {"id": job_id, "type": kind, "data": data, "opts": opts}
