"""Promise 9, scopes: a cancel writes a fence (scope, types it covers, cut); what is rooted at or before the cut does not
run, wherever it is and whenever it is enqueued.
"""

from typing import Any

import pytest
from contracts.fences import EVERYTHING, Coverage, coverage
from contracts.jobs import Job, Scope
from contracts.outcomes import Retry, Skip
from contracts.states import JobState
from pipeline.broker import Broker, NewJob, Retention
from pipeline.errors import NotAllowed

from tests.conformance.conftest import Insist
from tests.support.backends import Backend
from tests.support.hand import Hand, envelope, ids, new, news, pending, run_all, state

K, OTHER = Scope("knowledge", "k1"), Scope("knowledge", "k2")
BASE = Scope("knowledge_base", "b1")


def child(parent: Job, **fields: Any) -> NewJob:
    """A job that descends from `parent`, in its scopes."""
    inherited: dict[str, Any] = {
        "scopes": parent.scopes,
        "root_id": parent.root_id,
        "root_at": parent.root_at,
    }
    return new(**{**inherited, "parent_id": parent.id, **fields})


async def running(store: Broker, hand: Hand, **fields: Any) -> Job:
    """Enqueue a job and start it: its envelope as the worker sees it."""
    await store.enqueue([new(**{"scopes": (K,), **fields})])
    return envelope(await hand.take_one())


async def test_a_cancel_sweeps_what_waits_and_tells_what_runs(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    started, waiting, later, retrying = jobs = [
        new(scopes=(K,)),
        new(scopes=(K,)),
        new(scopes=(K,), delay_ms=60_000),
        new(scopes=(K,)),
    ]
    elsewhere = new(scopes=(OTHER,), queue="summary")
    await store.enqueue([retrying])
    await hand.run(Retry(after=60))
    await store.enqueue([started, waiting, later, elsewhere])
    active = await hand.take_one()
    await insist(store.cancel_scope, K, EVERYTHING)
    assert await store.states(ids([waiting, later, retrying])) == [JobState.CANCELLED] * 3
    assert await hand.renewing([active]) == ["cancel"]
    assert await state(store, elsewhere.job.id) is JobState.PENDING
    assert await hand.settle(active, RuntimeError("stopped")) is JobState.CANCELLED
    assert set(await store.states(ids(jobs))) == {JobState.CANCELLED}


async def test_it_says_what_it_did(store: Broker, hand: Hand) -> None:
    jobs = news(3, scopes=(K,))
    await store.enqueue(jobs)
    active = await hand.take_one()
    did = await store.cancel_scope(K, EVERYTHING)
    assert (set(did.cancelled), did.signalled) == (set(ids(jobs[1:])), (active.job_id,))
    again = await store.cancel_scope(K, EVERYTHING)
    assert again.cancelled == ()
    assert again.cut >= did.cut


async def test_children_of_what_was_cancelled_are_refused_as_cancelled(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    parent = await running(store, hand)
    await store.cancel_scope(K, EVERYTHING)
    children = [child(parent), child(parent, delay_ms=1000, named=True), child(parent, queue="summary")]
    receipts = await insist(store.enqueue, children)
    assert [receipt.state for receipt in receipts] == [JobState.CANCELLED] * 3
    assert [receipt.id for receipt in receipts] == ids(children)
    assert await run_all(store) == await run_all(store, "summary") == []


async def test_grandchildren_too_for_they_inherit_the_root(store: Broker, hand: Hand) -> None:
    parent = await running(store, hand)
    await store.enqueue([child(parent)])
    grown = envelope(await hand.take_one())
    assert (grown.root_id, grown.root_at) == (parent.root_id, parent.root_at)
    await store.cancel_scope(K, EVERYTHING)
    (receipt,) = await store.enqueue([child(grown)])
    assert receipt.state is JobState.CANCELLED


async def test_what_a_child_adds_to_its_scopes_does_not_shield_it(store: Broker, hand: Hand) -> None:
    parent = await running(store, hand)
    await store.cancel_scope(K, EVERYTHING)
    (receipt,) = await store.enqueue([child(parent, scopes=(*parent.scopes, OTHER))])
    assert receipt.state is JobState.CANCELLED


async def test_a_new_root_after_the_cancel_runs_even_in_the_same_millisecond(store: Broker) -> None:
    for _ in range(100):
        await store.cancel_scope(K, EVERYTHING)
        (after,) = await store.enqueue([new(scopes=(K,))])
        assert after.state is JobState.PENDING
        assert await run_all(store) == [after.id]


async def test_a_root_before_the_cancel_is_cancelled_even_in_the_same_millisecond(
    store: Broker, hand: Hand
) -> None:
    for _ in range(100):
        parent = await running(store, hand)
        await store.cancel_scope(K, EVERYTHING)
        (receipt,) = await store.enqueue([child(parent)])
        assert receipt.state is JobState.CANCELLED
    assert await run_all(store) == []


async def test_the_children_of_a_new_root_run(store: Broker, hand: Hand) -> None:
    await store.cancel_scope(K, EVERYTHING)
    parent = await running(store, hand)
    (receipt,) = await store.enqueue([child(parent)])
    assert receipt.state is JobState.PENDING


async def test_250_of_one_scope_among_others_are_cancelled_and_no_other(store: Broker, hand: Hand) -> None:
    mine, others = news(250, scopes=(K, BASE)), news(250, scopes=(OTHER, BASE))
    await store.enqueue([job for pair in zip(mine, others, strict=True) for job in pair])
    taken = await hand.take(20)  # ten of each
    did = await store.cancel_scope(K, EVERYTHING)
    assert len(did.cancelled) == 240
    assert set(did.signalled) == {d.job_id for d in taken} & set(ids(mine))
    assert len(did.signalled) == 10
    await store.release(taken)
    assert sorted(await run_all(store)) == sorted(ids(others))
    assert set(await store.states(ids(mine))) == {JobState.CANCELLED}


async def test_a_knowledge_cancel_spares_the_types_that_it_does_not_cover(store: Broker, hand: Hand) -> None:
    covered = news(2, type="summary:generation", scopes=(K,))
    spared = [new(type="knowledge:auto_tag", scopes=(K,)), new(type="knowledge:list_delete", scopes=(K,))]
    await store.enqueue([*covered, *spared])
    await store.cancel_scope(K, coverage("knowledge"))
    assert sorted(await run_all(store)) == sorted(ids(spared))


async def test_a_cancel_of_a_base_spares_what_deletes_it_also_when_it_comes_later(
    store: Broker, hand: Hand
) -> None:
    parent = await running(store, hand, scopes=(BASE,), type="document:process")
    deleting = new(type="kb:delete", scopes=(BASE,), queue="low")
    await store.enqueue([deleting])
    await store.cancel_scope(BASE, coverage("knowledge_base"))
    late = [child(parent, type="index:delete", queue="low"), child(parent, type="wiki:ingest", queue="low")]
    receipts = await store.enqueue(late)
    assert [receipt.state for receipt in receipts] == [JobState.PENDING, JobState.CANCELLED]
    assert await run_all(store, "low") == [deleting.job.id, late[0].job.id]


async def test_two_cancels_of_one_scope_add_up(store: Broker, hand: Hand) -> None:
    """Each type keeps the latest cut that covers it."""
    parent = await running(store, hand)
    first = await store.cancel_scope(K, Coverage(only=frozenset({"test:a"})))
    await store.cancel_scope(K, Coverage(only=frozenset({"test:b"})), cut=first.cut)
    receipts = await store.enqueue([child(parent, type=t) for t in ("test:a", "test:b", "test:c")])
    assert [r.state for r in receipts] == [JobState.CANCELLED, JobState.CANCELLED, JobState.PENDING]


async def test_a_cut_that_was_chosen_earlier_covers_only_what_is_older(store: Broker, hand: Hand) -> None:
    """A cancel that could not be delivered at once keeps its own time."""
    old = await running(store, hand)
    cut = (await store.cancel_scope(Scope("knowledge", "clock"), EVERYTHING)).cut
    young = await running(store, hand, root_id="young", root_at=cut + 1)
    did = await store.cancel_scope(K, EVERYTHING, cut=cut)
    assert did.cut == cut
    assert did.signalled == (old.id,)
    receipts = await store.enqueue([child(old), child(young)])
    assert [r.state for r in receipts] == [JobState.CANCELLED, JobState.PENDING]


@pytest.mark.parametrize(("before_ms", "covered"), [(0, True), (1, False)])
async def test_a_fence_covers_what_is_rooted_at_its_very_cut(
    store: Broker, hand: Hand, before_ms: int, covered: bool
) -> None:
    parent = await running(store, hand)
    did = await store.cancel_scope(K, EVERYTHING, parent.root_at - before_ms)
    assert did.signalled == ((parent.id,) if covered else ())
    (receipt,) = await store.enqueue([child(parent)])
    assert (receipt.state is JobState.CANCELLED) is covered


async def test_a_late_and_older_cut_does_not_weaken_the_fence(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    parent = await running(store, hand)
    cut = (await store.cancel_scope(K, EVERYTHING)).cut
    await insist(store.cancel_scope, K, EVERYTHING, 1)
    (receipt,) = await store.enqueue([child(parent)])
    assert parent.root_at <= cut
    assert receipt.state is JobState.CANCELLED


async def test_a_fence_outlives_a_restart_and_ends_after_its_time(
    backend: Backend, store: Broker, hand: Hand
) -> None:
    parent = await running(store, hand)
    await store.cancel_scope(K, EVERYTHING)
    store = await backend.restart()
    await store.prune(Retention())
    assert (await store.enqueue([child(parent)]))[0].state is JobState.CANCELLED
    await store.prune(Retention(fence_ms=0))
    assert (await store.enqueue([child(parent)]))[0].state is JobState.PENDING


async def test_a_refused_child_with_a_given_id_is_remembered_as_cancelled(store: Broker, hand: Hand) -> None:
    parent = await running(store, hand)
    await store.cancel_scope(K, EVERYTHING)
    one = child(parent, named=True)
    await store.enqueue([one])
    (again,) = await store.enqueue([one])
    assert (again.state, again.duplicate) == (JobState.CANCELLED, True)


async def test_a_cancelled_and_failed_try_is_not_retried(store: Broker, hand: Hand) -> None:
    job = new(scopes=(K,), max_retry=9)
    await store.enqueue([job])
    active = await hand.take_one()
    await store.cancel_scope(K, EVERYTHING)
    assert await hand.settle(active, Retry(after=0)) is JobState.CANCELLED
    await store.promote()
    assert await pending(store) == 0


async def test_an_archived_job_that_was_cancelled_with_its_scope_does_not_run_again(
    store: Broker, hand: Hand
) -> None:
    """Archived jobs are left alone by a cancel, yet nothing brings them back behind the fence."""
    job = new(scopes=(K,))
    await store.enqueue([job])
    await hand.run(Skip("no"))
    did = await store.cancel_scope(K, EVERYTHING)
    assert did.cancelled == ()
    assert await state(store, job.job.id) is JobState.ARCHIVED
    with pytest.raises(NotAllowed):
        await store.run_now(job.job.id)


async def test_who_has_work_of_a_scope_can_be_asked(store: Broker, hand: Hand) -> None:
    await store.enqueue([new(scopes=(K, BASE)), new(scopes=(OTHER,), delay_ms=60_000)])
    assert await store.has_queued(K)
    assert await store.has_queued(BASE, frozenset({"test:work"}))
    assert not await store.has_queued(BASE, frozenset({"kb:delete"}))
    assert await store.queued_ids("knowledge") == {"k1", "k2"}
    await hand.run()
    assert not await store.has_queued(K)
    assert await store.queued_ids("knowledge") == {"k2"}
    await store.cancel_scope(OTHER, EVERYTHING)
    assert await store.queued_ids("knowledge") == set()
