"""Real processes on the same store, to be killed and frozen: workers that do `tests.support.work`, and a churn.

They are forked from one server that has imported everything, because an import takes longer than most tests.
"""

import asyncio
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Self

import contracts.jobs
from contracts.fences import coverage
from contracts.jobs import Scope
from contracts.outcomes import Retry, Snooze
from contracts.payloads.documents import KnowledgePostProcess
from pipeline.broker import Broker
from pipeline.handlers import on
from pipeline.runtime import Pipeline
from pipeline.store import Database, Outbox

from tests.support import chores
from tests.support.dying import die_at, steps
from tests.support.hand import Hand, new, settlement
from tests.support.moving import moved
from tests.support.waiting import wait_until
from tests.support.work import TYPES, Work, work

FORKS: Final = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__, "pipeline.backends.redis.broker"])


class Process:
    """A process of ours. It ends with the test, at the latest."""

    def __init__(self, role: str, settings: Mapping[str, Any], **options: Any) -> None:
        self._process = FORKS.Process(target=be, args=(role, {"settings": dict(settings), **options}))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def kill(self) -> None:
        """End it at once, without a word."""
        self._process.kill()
        self._process.join()

    def freeze(self) -> None:
        """Stop its time."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let its time go on."""
        os.kill(self.pid, signal.SIGCONT)

    def ask_to_stop(self) -> None:
        self._process.terminate()

    async def ended(self, *, timeout: float = 20) -> int:
        """Its exit code, once it has one."""
        await wait_until(
            lambda: not self._process.is_alive(), describe=f"process {self.pid} ended", timeout=timeout
        )
        assert self._process.exitcode is not None
        return self._process.exitcode

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.thaw()
        self.kill()
        self._process.close()


async def worker(
    settings: Mapping[str, Any],
    pools: Sequence[str] = ("core",),
    moves: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Be a worker of these pools that knows `Work`, in a version that moved some queues to other pools."""
    contracts.jobs._REGISTRY = TYPES
    with moved(moves):
        async with Pipeline.open(**settings) as pipeline:
            return await pipeline.serve(pools=pools, handlers=[on(Work, work)], only={"test:work"})


async def drudge(settings: Mapping[str, Any]) -> int:
    """Be a worker of the core pool that knows `Chore`."""
    contracts.jobs._REGISTRY = chores.TYPES
    async with Pipeline.open(**settings) as pipeline:
        handlers = [on(chores.Chore, chores.chore, retry=lambda _: 0.05)]
        return await pipeline.serve(pools=["core"], handlers=handlers, only={"test:chore"})


async def churn(settings: Mapping[str, Any], journal: str, seed: int) -> int:
    """Enqueue, claim, settle, hand back, promote, without end, in random order; write each id that is confirmed."""
    chance = random.Random(seed)
    file = os.open(journal, os.O_WRONLY | os.O_APPEND)

    def confirm(job_id: str) -> None:
        os.write(file, f"{job_id}\n".encode())

    async with Pipeline.open(**settings) as pipeline:
        await asyncio.gather(*(_lane(pipeline.broker, chance, confirm) for _ in range(3)))
    return 0


async def _lane(store: Broker, chance: random.Random, confirm: Callable[[str], None]) -> None:
    hand = Hand(store)
    while True:
        batch = [new(retention_ms=600_000, max_retry=99, delay_ms=chance.choice([0, 0, 5])) for _ in range(3)]
        for receipt in await store.enqueue(batch):
            confirm(receipt.id)
        await store.promote(limit=chance.randint(1, 5))
        for delivery in await hand.take(chance.randint(1, 4)):
            match chance.randrange(5):
                case 0:
                    await store.release([delivery])
                case 1:
                    await hand.settle(delivery, Snooze(0.1))
                case 2:
                    await store.settle([settlement(delivery, Retry(after=0.01))])
                case 3:
                    pass  # forgotten, as by a worker that dies
                case _:
                    await hand.settle(delivery)


async def sender(settings: Mapping[str, Any], url: str, last: int) -> int:
    """Ask for jobs and cancels in one transaction after the other, and relay between; die at step `last` of the loop. 0: do
    not die, and say in the exit code of how many hundred steps it was.
    """
    async with Pipeline.open(**settings) as pipeline:
        database = Database.open(url)
        die_at(last, alone=True)
        outbox = Outbox(database, pipeline.enqueue_many, pipeline.broker)
        for number in range(SENT):
            await send(outbox, number)
            await outbox.relay(older_than_ms=0)
        await database.close()
    return min(steps() // 100, 255)


async def send(outbox: Outbox, number: int) -> None:
    """Ask for two jobs of one document, and stop the document before: its jobs, but for one asked for again."""
    cut = await outbox.choose_cut()
    async with outbox.transaction() as session:
        if number:
            await Outbox.cancel(session, Scope("knowledge", f"k{number - 1}"), coverage("knowledge"), cut)
            await Outbox.add(session, f"{number - 1}-again", _asked(number - 1))
        await Outbox.add_many(session, [(f"{number}-{part}", _asked(number)) for part in "ab"])


def _asked(number: int) -> KnowledgePostProcess:
    return KnowledgePostProcess(tenant_id=1, knowledge_base_id="b", knowledge_id=f"k{number}", attempt=1)


SENT: Final = 4
ROLES: Mapping[str, Callable[..., Coroutine[Any, Any, int]]] = {
    "worker": worker,
    "drudge": drudge,
    "churn": churn,
    "sender": sender,
}


def be(role: str, told: Mapping[str, Any]) -> None:
    """What a process of ours does, until the end."""
    sys.exit(asyncio.run(ROLES[role](**told)))
