"""Cancels in the outbox: they happen exactly if their transaction does, before later jobs, and never to those."""

import pytest
from contracts.fences import Coverage, coverage
from contracts.jobs import Scope
from contracts.payloads.enrichment import KnowledgeAutoTag
from contracts.states import JobState
from pipeline.errors import StoreUnavailable
from pipeline.store import Outbox
from pipeline.store.tables import outbox
from sqlalchemy import select, update

from tests.unit.test_outbox import payload, world

__all__ = ["world"]
KNOWLEDGE = coverage("knowledge")
CANCELLED, PENDING = JobState.CANCELLED, JobState.PENDING


async def cancel(world, ident="k", covered=KNOWLEDGE, cut=None):
    """Cancel a document; return the session of the transaction, which says what came of it."""
    cut = await world.outbox.choose_cut() if cut is None else cut
    async with world.outbox.transaction() as session:
        await Outbox.cancel(session, Scope("knowledge", ident), covered, cut)
    return session


async def test_a_cancel_is_delivered_once_its_transaction_is_committed(world):
    await world.producer.enqueue(payload("k"), id="mine")
    await world.producer.enqueue(payload("other"), id="other")
    done = await cancel(world)
    assert await world.states("mine", "other") == [CANCELLED, PENDING]
    assert Outbox.delivered(done)
    assert [stopped.cancelled for stopped in Outbox.stopped(done)] == [("mine",)]
    assert await world.waiting() == 0


async def test_a_transaction_that_is_rolled_back_cancels_nothing(world):
    await world.producer.enqueue(payload("k"), id="mine")

    async def change_its_mind():
        async with world.outbox.transaction() as session:
            await Outbox.cancel(session, Scope("knowledge", "k"), KNOWLEDGE, await world.outbox.choose_cut())
            raise RuntimeError("changed its mind")

    with pytest.raises(RuntimeError):
        await change_its_mind()
    assert await world.outbox.relay(older_than_ms=0) == 0
    assert await world.states("mine") == [PENDING]


@pytest.mark.parametrize("loss", ["lose_request", "lose_reply"])
async def test_with_the_queue_away_a_cancel_is_kept_and_said_to_be_pending(world, loss):
    await world.producer.enqueue(payload("k"), id="mine")
    cut = await world.outbox.choose_cut()
    getattr(world.faults, loss)("cancel_scope")
    assert not Outbox.delivered(await cancel(world, cut=cut))
    assert await world.waiting() == 1
    assert await world.outbox.relay(older_than_ms=0) == 1
    assert await world.states("mine") == [CANCELLED]


async def test_a_queue_that_is_away_does_not_keep_a_cut_from_being_chosen(world):
    with world.faults.away():
        assert await world.outbox.choose_cut() > 0


async def test_a_late_cancel_never_meets_what_was_asked_for_after_it(world):
    await world.producer.enqueue(payload("k"), id="before")
    with world.faults.away():
        await cancel(world)
        await world.ask("k")  # the id is that of the document, too
    assert await world.waiting() == 2
    assert await world.outbox.relay(older_than_ms=0) == 2
    assert await world.states("before", "k") == [CANCELLED, PENDING]
    await world.outbox.relay(older_than_ms=0)
    async with world.database.transaction() as session:  # another relay had read the row, too
        await Outbox.cancel(session, Scope("knowledge", "k"), KNOWLEDGE, 1)
    await world.outbox.relay(older_than_ms=0)
    assert await world.states("k") == [PENDING]


async def test_a_job_waits_for_the_cancel_before_it_even_if_the_clock_of_the_cancel_ran_ahead(world):
    ahead = await world.outbox.choose_cut() + 60_000
    with world.faults.away():
        await cancel(world, cut=ahead)
    await world.ask("k")
    assert await world.states("k") == [PENDING]
    assert await world.waiting() == 0
    done = await world.broker.cancel_scope(Scope("knowledge", "k"), KNOWLEDGE, ahead)
    assert done.cancelled == ()


async def test_a_cancel_that_cannot_be_delivered_holds_later_roots_back(world):
    with world.faults.away():
        await cancel(world)
    world.faults.lose_request("cancel_scope")
    await world.ask("k")
    assert await world.states("k") == [None]
    assert await world.outbox.relay(older_than_ms=0) == 2
    assert await world.states("k") == [PENDING]


async def test_a_cancel_takes_back_what_was_not_sent_yet(world):
    with world.faults.away():
        async with world.outbox.transaction() as session:
            await Outbox.add_many(session, [("mine", payload("k")), ("other", payload("kk"))])
            tags = KnowledgeAutoTag(tenant_id=7, knowledge_base_id="kb", knowledge_id="k", attempt=1)
            await Outbox.add(session, "uncovered", tags)
        await cancel(world)
    await world.outbox.relay(older_than_ms=0)
    assert await world.states("mine", "other", "uncovered") == [None, PENDING, PENDING]


async def test_a_cancel_and_the_jobs_after_it_may_be_one_transaction(world):
    await world.producer.enqueue(payload("k"), id="old")
    async with world.outbox.transaction() as session:
        await Outbox.cancel(session, Scope("knowledge", "k"), KNOWLEDGE, await world.outbox.choose_cut())
        await Outbox.add(session, "new", payload("k"))
    assert await world.states("old", "new") == [CANCELLED, PENDING]


async def test_a_cancel_may_cover_all_but_some_types(world):
    await world.producer.enqueue(payload("k"), id="mine")
    spared = Coverage(excluding=frozenset({"knowledge:post_process"}))
    await cancel(world, covered=spared)
    assert await world.states("mine") == [PENDING]


async def test_a_cancel_of_another_version_waits_and_holds_up_nobody(world):
    with world.faults.away():
        await cancel(world)
    async with world.database.transaction() as session:
        await session.execute(update(outbox).values(data='{"unheard": "of"}'))
    await world.ask("a")
    assert await world.states("a") == [PENDING]
    async with world.database.read() as session:
        [attempts] = await session.scalars(select(outbox.c.attempts))
    assert attempts == 1


async def test_an_outbox_that_cannot_cancel_leaves_it_to_one_that_can(world):
    mute = Outbox(world.database, world.producer.enqueue_many)
    await world.producer.enqueue(payload("k"), id="old")
    async with mute.transaction() as session:
        await Outbox.cancel(session, Scope("knowledge", "k"), KNOWLEDGE, await mute.choose_cut())
    assert not Outbox.delivered(session)
    assert await mute.relay(older_than_ms=0) == 0
    assert await world.outbox.relay(older_than_ms=0) == 1
    assert await world.states("old") == [CANCELLED]


async def test_what_was_not_sent_yet_is_queued(world):
    with world.faults.away():
        await world.ask("k_1")
    see = world.outbox
    assert await see.has_queued(Scope("knowledge", "k_1"))
    assert await see.has_queued(Scope("tenant", "7"), frozenset({"knowledge:post_process"}))
    assert not await see.has_queued(Scope("knowledge", "k_1"), frozenset({"document:process"}))
    assert not await see.has_queued(Scope("knowledge", "k-1")), "no wildcard"
    assert not await see.has_queued(Scope("knowledge", "k_"))
    assert await see.queued_ids("knowledge") == {"k_1"}
    assert await see.queued_ids("knowledge", frozenset({"document:process"})) == set()
    await world.outbox.relay(older_than_ms=0)
    assert not await see.has_queued(Scope("knowledge", "k_1"))


async def test_a_cancel_is_no_job(world):
    with world.faults.away():
        await cancel(world)
    assert not await world.outbox.has_queued(Scope("knowledge", "k"))
    assert await world.outbox.queued_ids("knowledge") == set()
    assert (await world.outbox.waiting())[0] == 1


async def test_without_the_database_nobody_says_what_is_queued(world):
    with pytest.raises(StoreUnavailable):
        await Outbox(world.nowhere(), world.producer.enqueue_many).has_queued(Scope("knowledge", "k"))
