"""With Redis away documents are stopped, parsed again and deleted all the same; their jobs are told when it is back."""

import pytest
from consumers.database import open_database
from contracts.knowledge import ParseStatus
from contracts.states import JobState
from pipeline.runtime import Pipeline

from tests.http.conftest import calling
from tests.http.test_knowledge import BASE, bring, outbox, stands
from tests.support.redis_server import RedisServer
from tests.support.tcp_proxy import TcpProxy

__all__ = ["bring", "outbox", "stands"]


@pytest.fixture
def server():
    started = RedisServer().start()
    yield started
    started.close()


@pytest.fixture
def proxy(server):
    between = TcpProxy("127.0.0.1", server.port)
    yield between
    between.close()


@pytest.fixture
async def pipeline(proxy, tmp_path):
    url = f"redis://127.0.0.1:{proxy.port}/0"
    async with Pipeline.open(url=url, data_dir=tmp_path, redis_op_timeout_ms=200) as opened:
        yield opened


@pytest.fixture
async def database(pipeline):
    async with open_database(pipeline.settings) as opened:
        yield opened


@pytest.fixture
async def caller(pipeline, database, key):
    async with calling(pipeline, database) as client:
        client.headers.update(await key("knowledge_write"))
        yield client


async def test_a_cancel_while_redis_is_away_succeeds_and_reaches_the_jobs_when_it_is_back(
    caller, bring, pipeline, proxy, stands, outbox
):
    ident = await bring()
    [job] = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    with proxy.away():
        answer = await caller.post(f"{BASE}/{ident}/cancel-parse")
        assert (answer.status_code, answer.json()["delivery"]) == (200, "pending")
        assert await stands(ident) == (ParseStatus.CANCELLED, 1)
    assert await outbox.relay(older_than_ms=0) == 1
    assert (await pipeline.inspector.job(job.job.id)).state is JobState.CANCELLED
    assert (await caller.post(f"{BASE}/{ident}/cancel-parse")).json()["delivery"] == "done"


async def test_a_reparse_while_redis_is_away_is_queued_before_redis_knows_of_it(
    caller, bring, pipeline, proxy, outbox
):
    ident = await bring()
    [old] = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    with proxy.away():
        answer = await caller.post(f"{BASE}/{ident}/reparse")
        assert (answer.json()["attempt"], answer.json()["delivery"]) == (2, "pending")
    assert await pipeline.inspector.has_queued("knowledge", ident)
    assert ident in await pipeline.inspector.queued_ids("knowledge")
    assert await outbox.relay(older_than_ms=0) == 2
    [new] = (await pipeline.inspector.tasks("default", JobState.PENDING)).records
    assert new.job.id != old.job.id
    assert (await pipeline.inspector.job(old.job.id)).state is JobState.CANCELLED


async def test_documents_deleted_while_redis_is_away_are_removed_when_it_is_back(
    caller, bring, pipeline, proxy, stands, outbox
):
    named = [await bring(f"{n}.txt") for n in range(3)]
    with proxy.away():
        said = (await caller.post(f"{BASE}/batch/delete", json={"ids": named})).json()
        assert (said["counts"], said["delivery"]) == ({"done": 3}, "pending")
        assert {(await stands(ident))[0] for ident in named} == {ParseStatus.DELETING}
    assert await outbox.relay(older_than_ms=0) == 4
    [job] = (await pipeline.inspector.tasks("low", JobState.PENDING)).records
    assert job.job.type == "knowledge:list_delete"
    assert (await pipeline.inspector.tasks("default", JobState.PENDING)).records == ()
