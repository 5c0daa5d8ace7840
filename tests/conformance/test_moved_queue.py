"""A queue that is moved to another pool changes only who reads it: nothing is left where nobody looks."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from contracts.outcomes import Skip
from pipeline.broker import Broker, Retention
from pipeline.client import Enqueue
from pipeline.runtime import Pipeline

from tests.conformance.conftest import SHORT, Open
from tests.support.backends import Backend
from tests.support.crash import Process
from tests.support.hand import Hand, news, pending
from tests.support.moving import moved
from tests.support.waiting import wait_until
from tests.support.work import Work, marks

MOVE: Final = {"default": "wiki"}
NO_MOVE: Final[Mapping[str, str]] = {}


class Producers:
    """One of each version, and how many jobs come of what they enqueued."""

    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        self.jobs = 0
        self._pipeline, self._folder = pipeline, str(folder)

    async def enqueue(self) -> None:
        """Jobs of both versions: some enqueue others, some are due a little later."""
        for moves in (NO_MOVE, MOVE):
            with moved(moves):
                await self._pipeline.enqueue_many(
                    [
                        *(Work(act="spread", n=2, folder=self._folder) for _ in range(5)),
                        *(Enqueue(Work(folder=self._folder), delay=0.2) for _ in range(5)),
                    ]
                )
            self.jobs += 5 * 3 + 5


@pytest.mark.parametrize("leaving", ["the old", "the new"])
async def test_every_job_is_done_once_while_workers_of_both_versions_come_and_go(
    backend: Backend, open_pipeline: Open, tmp_path: Path, leaving: str
) -> None:
    """The new one leaves when a deployment is rolled back."""
    pipeline = await open_pipeline()
    producers = Producers(pipeline, tmp_path)
    settings = {**backend.settings(), **SHORT, "grace_s": 5.0}
    await producers.enqueue()
    async with (
        Process("worker", settings) as old,
        Process("worker", settings, pools=["core", "wiki"], moves=MOVE) as new,
    ):

        async def both_work() -> bool:
            await producers.enqueue()
            return {one.pid for one in marks(tmp_path, "done")} == {old.pid, new.pid}

        await wait_until(both_work, describe="workers of both versions take jobs", timeout=20)
        one = old if leaving == "the old" else new
        one.ask_to_stop()
        await producers.enqueue()
        assert await one.ended() == 0
        await producers.enqueue()
        await wait_until(
            lambda: len(marks(tmp_path, "done")) >= producers.jobs, describe="all are done", timeout=20
        )
    times = Counter(one.job for one in marks(tmp_path, "done"))
    assert (len(times), set(times.values())) == (producers.jobs, {1})
    assert await pending(pipeline.broker) == 0


async def test_the_archive_of_a_home_keeps_its_limit_when_one_of_its_queues_is_read_elsewhere(
    store: Broker,
) -> None:
    hand = Hand(store)
    for queue in ("default", "chat_attachment"):
        await store.enqueue(news(3, queue=queue))
        for _ in range(3):
            await hand.run(Skip("no"), queue)
    with moved(MOVE):
        await store.prune(Retention(archived_max=4))
    assert sum(stat.archived for stat in await store.queue_stats()) == 4
