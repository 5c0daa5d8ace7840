"""What a process holds, seen from outside: by the lists of pending entries that only Redis has."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import contracts.jobs
import pytest
from contracts.jobs import JobPayload
from contracts.topology import home, weights
from pipeline.backends.redis.keys import Keys
from pipeline.handlers import Context, on
from pipeline.runtime import Pipeline
from redis.exceptions import ResponseError

from tests.support.jobs import turn, working
from tests.support.redis_server import shared
from tests.support.waiting import wait_until
from tests.support.work import TYPES, Attachment, Summary, Work

KINDS: Final = (Work, Attachment, Summary)
SLOTS: Final[Mapping[str, Any]] = {"pool_core_concurrency": 5, "pool_shared_concurrency": 3}


class Watch:
    """How many deliveries each process held, at most and at once, in all queues of some pools."""

    def __init__(self, pools: Sequence[str]) -> None:
        self.most: Counter[str] = Counter()
        self.looks = 0
        self._queues = sorted({queue for pool in pools for queue in weights(pool)})

    @contextmanager
    def looking(self) -> Iterator[None]:
        over = threading.Event()
        eye = threading.Thread(target=self._look, args=(over,))
        eye.start()
        try:
            yield
        finally:
            over.set()
            eye.join()

    def _look(self, over: threading.Event) -> None:
        with shared().client() as client:
            while not over.is_set():
                with client.pipeline(transaction=True) as at_once:
                    for queue in self._queues:
                        for again in (False, True):
                            at_once.xpending(Keys().stream(queue, again=again), home(queue))
                    self._count(at_once.execute(raise_on_error=False))

    def _count(self, said: Sequence[Any]) -> None:
        held: Counter[str] = Counter()
        for one in said:
            if isinstance(one, ResponseError):
                assert "NOGROUP" in str(one)  # nobody has read it yet
                continue
            for consumer in one["consumers"]:
                process, _, _pool = consumer["name"].rpartition("/")
                held[process] += consumer["pending"]
        self.most |= held
        self.looks += 1


@pytest.mark.parametrize(
    ("pools", "slots"), [(["core"], 5), (["core", "shared"], 5 + 3)], ids=["core", "core and shared"]
)
async def test_a_process_never_holds_more_deliveries_than_it_has_slots(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, pools: list[str], slots: int
) -> None:
    monkeypatch.setattr(contracts.jobs, "_REGISTRY", dict(TYPES))
    done: Counter[str] = Counter()
    kinds = [kind for kind in KINDS if any(kind.spec.queue in weights(pool) for pool in pools)]

    async def work(_job: JobPayload, ctx: Context) -> None:
        await turn()
        done[ctx.id] += 1

    handlers = [on(kind, work) for kind in kinds]
    watch = Watch(pools)
    async with (
        Pipeline.open(redis_url=redis_url, **SLOTS) as one,
        Pipeline.open(redis_url=redis_url, **SLOTS) as other,
    ):
        with watch.looking():
            async with working(one, *handlers, pools=pools), working(other, *handlers, pools=pools):
                await one.enqueue_many([kinds[n % len(kinds)].model_validate({"n": n}) for n in range(1000)])
                await wait_until(lambda: len(done) == 1000, describe="all are done", timeout=30)
    assert set(done.values()) == {1}
    assert watch.looks >= 20
    assert len(watch.most) == 2
    assert max(watch.most.values()) <= slots
    assert max(watch.most.values()) > slots / 2  # it saw them at work
