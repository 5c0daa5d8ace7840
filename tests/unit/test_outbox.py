"""The outbox: a job exists exactly if the transaction that asked for it does, whatever fails in between."""

import asyncio

import pytest
from contracts.jobs import Job, Unique
from contracts.payloads.documents import KnowledgePostProcess
from contracts.states import JobState
from pipeline.client import Producer
from pipeline.config import Settings
from pipeline.errors import ConfigurationError, StoreUnavailable
from pipeline.store import Database, Outbox
from pipeline.store.tables import outbox
from sqlalchemy import select, update

from tests.support.lite_backend import Lite


class World:
    """An outbox and the real queue behind it, whose requests and replies can be lost."""

    def __init__(self, url, backend, broker):
        self.url = url
        self.faults, self.broker = backend.faults, broker
        self.producer = Producer(broker, Settings(max_payload_kb=1))
        self.database = Database.open(self.url)
        self.outbox = Outbox(self.database, self.producer.enqueue_many, broker)

    async def ask(self, *job_ids, parent=None, delay=None, unique=None):
        async with self.outbox.transaction(parent) as session:
            for job_id in job_ids:
                await Outbox.add(session, job_id, payload(job_id), delay=delay, unique=unique)

    def nowhere(self):
        return Database.open("sqlite:////nowhere/at/all.db")

    async def waiting(self):
        return (await self.outbox.waiting())[0]

    async def states(self, *job_ids):
        return await self.broker.states(job_ids)


def payload(text="k", **fields):
    return KnowledgePostProcess(tenant_id=7, knowledge_base_id="kb", knowledge_id=text, attempt=1, **fields)


@pytest.fixture
async def world(tmp_path, database_url):
    backend = Lite(tmp_path)
    made = World(database_url, backend, await backend.open())
    yield made
    await made.database.close()
    await backend.close()


async def test_a_job_is_sent_once_its_transaction_is_committed(world):
    async with world.outbox.transaction() as session:
        await Outbox.add(session, "a", payload())
        assert await world.states("a") == [None]
    assert await world.states("a") == [JobState.PENDING]
    assert await world.waiting() == 0


async def test_a_transaction_that_is_rolled_back_asked_for_nothing(world):
    async def change_its_mind():
        async with world.outbox.transaction() as session:
            await Outbox.add(session, "a", payload())
            raise RuntimeError("changed its mind")

    with pytest.raises(RuntimeError, match="changed its mind"):
        await change_its_mind()
    assert await world.outbox.relay(older_than_ms=0) == 0
    assert await world.states("a") == [None]


async def test_asking_twice_is_one_job(world):
    await world.ask("a", "a")
    await world.ask("a")
    assert await world.states("a") == [JobState.PENDING]
    [stats] = [queue for queue in await world.broker.queue_stats() if queue.name == "postprocess"]
    assert stats.pending == 1
    assert await world.waiting() == 0


@pytest.mark.parametrize("loss", ["lose_request", "lose_reply"])
async def test_a_queue_that_is_away_is_no_error_and_the_relay_sends_once(world, loss):
    getattr(world.faults, loss)("enqueue")
    await world.ask("a", "b")
    assert await world.waiting() == 2
    assert await world.outbox.relay() == 0, "younger rows are left to whoever wrote them"
    assert await world.outbox.relay(older_than_ms=0) == 2
    assert await world.states("a", "b") == [JobState.PENDING] * 2
    assert await world.waiting() == 0
    assert await world.outbox.relay(older_than_ms=0) == 0


async def test_a_relay_says_that_the_queue_is_away_and_keeps_everything(world):
    with world.faults.away():
        await world.ask("a")
        with pytest.raises(StoreUnavailable):
            await world.outbox.relay(older_than_ms=0)
    assert await world.waiting() == 1


async def test_a_process_killed_between_commit_and_send_loses_nothing(world):
    async with world.database.transaction() as session:
        await Outbox.add(session, "a", payload())
    other = Outbox(world.database, world.producer.enqueue_many, world.broker)
    assert await other.relay(older_than_ms=0) == 1
    assert await world.states("a") == [JobState.PENDING]


async def test_a_row_that_was_sent_but_not_deleted_is_sent_again_without_a_second_job(world):
    await world.producer.enqueue(payload(), id="a")
    async with world.database.transaction() as session:
        await Outbox.add(session, "a", payload())
    assert await world.outbox.relay(older_than_ms=0) == 1
    [stats] = [queue for queue in await world.broker.queue_stats() if queue.name == "postprocess"]
    assert stats.pending == 1


async def test_relays_of_several_processes_send_each_job_once(world):
    async with world.database.transaction() as session:
        for number in range(30):
            await Outbox.add(session, f"job-{number}", payload())
    databases = [Database.open(world.url) for _ in range(2)]
    relays = [Outbox(database, world.producer.enqueue_many, world.broker) for database in databases]

    async def empty(relay):
        while await relay.relay(10, older_than_ms=0):
            pass

    await asyncio.gather(*map(empty, relays))
    for database in databases:
        await database.close()
    assert await world.waiting() == 0
    [stats] = [queue for queue in await world.broker.queue_stats() if queue.name == "postprocess"]
    assert stats.pending == 30


async def test_a_job_the_queue_refuses_does_not_hold_up_the_others(world):
    async with world.database.transaction() as session:
        await Outbox.add(session, "big", payload(language="x" * 2000))
        await Outbox.add(session, "small", payload())
    assert await world.outbox.relay(older_than_ms=0) == 1
    assert await world.states("big", "small") == [None, JobState.PENDING]
    async with world.database.read() as session:
        [row] = await session.execute(select(outbox.c.id, outbox.c.attempts))
    assert tuple(row) == ("big", 1)


async def test_a_job_of_another_version_waits_behind_all_others(world):
    async with world.database.transaction() as session:
        await Outbox.add(session, "a", payload())
        await Outbox.add(session, "b", payload())
        await Outbox.add(session, "c", payload())
        await session.execute(update(outbox).where(outbox.c.id == "a").values(type="from:the-future"))
        await session.execute(update(outbox).where(outbox.c.id == "c").values(data='{"unheard": "of"}'))
    assert await world.outbox.relay(older_than_ms=0) == 1
    assert await world.states("b") == [JobState.PENDING]
    async with world.database.read() as session:
        rows = await session.execute(select(outbox.c.id, outbox.c.attempts).order_by(outbox.c.id))
    assert [tuple(row) for row in rows] == [("a", 1), ("c", 1)]


async def test_children_descend_from_the_root_of_their_parent(world):
    parent = Job(id="p", type="t", queue="default", data="{}", root_id="r", root_at=12, trace="t1")
    world.faults.lose_request("enqueue")
    await world.ask("late", parent=parent)
    await world.outbox.relay(older_than_ms=0)
    await world.ask("prompt", parent=parent)
    for name in ("late", "prompt"):
        record = await world.broker.job(name)
        assert record is not None
        job = record.job
        assert (job.parent_id, job.root_id, job.root_at, job.trace) == ("p", "r", 12, "t1")


async def test_a_delayed_job_is_scheduled(world):
    await world.ask("a", delay=60)
    assert await world.states("a") == [JobState.SCHEDULED]


async def test_what_waits_has_a_depth_and_an_age(world):
    async with world.database.transaction() as session:
        await Outbox.add(session, "a", payload())
        await session.execute(update(outbox).values(created_at=outbox.c.created_at - 5000))
    depth, age = await world.outbox.waiting()
    assert depth == 1
    assert age >= 5000


@pytest.mark.parametrize("asked", [("has space", None), ("a", float("nan"))])
async def test_what_can_never_be_sent_is_refused_before_it_is_written(world, asked):
    job_id, delay = asked
    async with world.outbox.transaction() as session:
        with pytest.raises(ConfigurationError, match="must be"):
            await Outbox.add(session, job_id, payload(), delay=delay)
    assert await world.waiting() == 0


async def test_a_job_that_belongs_to_what_cannot_be_named_is_refused_before_it_is_written(world):
    async with world.outbox.transaction() as session:
        with pytest.raises(ValueError, match="scope id must be"):
            await Outbox.add(session, "a", payload("has space"))


async def test_a_row_that_can_never_be_sent_holds_up_no_other(world):
    async with world.database.transaction() as session:
        await Outbox.add_many(session, [("bad", payload("bad")), ("good", payload("good"))], delay=3)
        await session.execute(
            update(outbox)
            .where(outbox.c.id == "bad")
            .values(options='{"delay": -1, "timeout": null, "origin": null}')
        )
    assert await world.outbox.relay(older_than_ms=0) == 1
    assert await world.states("bad", "good") == [None, JobState.SCHEDULED]
    assert await world.waiting() == 1


@pytest.mark.parametrize("options", ["", "[]", "{", '{"origin": {"unheard": "of"}, "delay": null}', '"x"'])
async def test_a_row_of_which_nothing_can_be_read_holds_up_no_other(world, options):
    async with world.database.transaction() as session:
        await Outbox.add_many(session, [("bad", payload()), ("good", payload())])
        await session.execute(update(outbox).where(outbox.c.id == "bad").values(options=options))
    assert await world.outbox.relay(older_than_ms=0) == 1
    assert await world.states("bad", "good") == [None, JobState.PENDING]
    assert await world.outbox.queued_ids("knowledge") == set()


@pytest.mark.parametrize("away", [False, True], ids=["at once", "by the relay"])
async def test_of_jobs_asked_for_with_one_unique_key_the_first_goes_on_for_all(world, away):
    if away:
        world.faults.lose_request("enqueue")
    await world.ask("a", "b", delay=30, unique=Unique("base", until="started"))
    await world.outbox.relay(older_than_ms=0)
    assert await world.waiting() == 0
    assert await world.states("a", "b") == [JobState.SCHEDULED, None]


async def test_what_was_written_by_a_clock_that_was_ahead_does_not_wait_until_then(world):
    with world.faults.away():
        await world.ask("a")
    ahead = update(outbox).values(created_at=outbox.c.created_at + 3_600_000)
    async with world.database.transaction() as session:
        await session.execute(ahead)
    assert await world.outbox.relay() == 1
    assert await world.states("a") == [JobState.PENDING]
