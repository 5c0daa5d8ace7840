"""A backlog of wiki operations is worked on at full width from its first batch to its last."""

import asyncio
import os

import pytest
from consumers.knowledge.bases.wiki_lane import INGEST, ingest_lane
from consumers.knowledge.wiki.batch import Batch
from contracts.payloads.wiki import WikiIngest
from pipeline.store.tables_pending import task_pending_ops

from tests.support.backends import BACKENDS
from tests.support.databases import migrated
from tests.support.waiting import wait_until
from tests.support.wiki import TENANT, open_wiki

WIDTH = 4
MANY = int(os.environ.get("STREAMLANE_TEST_BACKLOG", "600"))
"""Operations; 24624 is what somebody waited for."""


class Use:
    """How many batches worked at once, on average over the time in which there was work for all."""

    def __init__(self, batches: int) -> None:
        self._left = batches
        self._at_once = self.most = 0
        self._since = self._area = 0.0
        self._begun = self._ended = 0.0

    def change(self, by: int) -> None:
        now = asyncio.get_running_loop().time()
        self._area += self._at_once * (now - self._since) if self._since and self._left >= WIDTH else 0
        self._since = now
        self._begun = self._begun or now
        self._ended = now if self._left >= WIDTH else self._ended
        self._at_once += by
        self._left -= by < 0
        self.most = max(self.most, self._at_once)

    @property
    def share(self) -> float:
        return self._area / (self._ended - self._begun) / WIDTH


@pytest.mark.parametrize(
    ("queue", "database"), [("lite", "sqlite"), pytest.param("redis", "postgres", marks=pytest.mark.postgres)]
)
@pytest.mark.timeout(3600)
async def test_24_624_operations_drain_at_full_width(queue, database, tmp_path, monkeypatch):
    if queue not in BACKENDS:
        pytest.skip("this run tests Sentinel or Cluster alone; the usual run has this one")
    backend, use, work = BACKENDS[queue](tmp_path), Use(-(-MANY // 5)), Batch.work

    async def watched(batch):
        use.change(1)
        try:
            clock = asyncio.get_running_loop().time
            until = clock() + 0.4
            await wait_until(lambda: clock() >= until, describe="a batch takes its time")
            await work(batch)
        finally:
            use.change(-1)

    monkeypatch.setattr(Batch, "work", watched)
    try:
        with migrated(database, tmp_path / "sql") as url:
            async with open_wiki(backend, url, tmp_path / "data") as world:
                await _fill(world)
                async with world.working():
                    job = WikiIngest(tenant_id=TENANT, knowledge_base_id=world.kb.id)
                    await world.pipeline.enqueue(job)
                    await world.settled(timeout=3000)
    finally:
        await backend.close()
    print(f"\n{MANY} operations on {queue} and {database}: {use.share:.1%} of the width")
    assert use.most == WIDTH
    assert use.share > 0.9


async def _fill(world):
    """Operations on documents that are gone: each has to be claimed, looked up and settled all the same."""
    row = {
        **ingest_lane(world.kb.id)._asdict(),
        "tenant_id": TENANT,
        "op": "ingest",
        "payload": '{"attempt": 1}',
        "fail_count": 0,
        "enqueued_at": 1,
        "claimed_by": "",
    }
    assert row["task_type"] == INGEST
    async with world.services.database.transaction() as session:
        rows = [{**row, "dedup_key": f"document-{number}"} for number in range(MANY)]
        await session.execute(task_pending_ops.insert(), rows)
