"""Promise 1: an enqueue that returned is durable; one that raised may be repeated with the same id and happens once."""

import asyncio
from dataclasses import replace

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import Scope, Unique
from contracts.outcomes import Cancel, Done, Skip
from contracts.states import JobState
from pipeline.broker import Broker, Retention
from pipeline.client import Enqueue
from pipeline.clock import now_ms
from pipeline.errors import EnqueueFailed, PartialEnqueue, StoreUnavailable
from pipeline.receipt import Receipt

from tests.conformance.conftest import Insist, Open
from tests.support.backends import Backend
from tests.support.faults import Faults, Loss
from tests.support.hand import Hand, envelope, ids, new, news, pending, run_all, state
from tests.support.work import Summary, Work


async def test_what_was_enqueued_is_seen_by_another_process(backend: Backend, store: Broker) -> None:
    (receipt,) = await store.enqueue([new()])
    assert receipt.state is JobState.PENDING
    assert not receipt.duplicate
    other = await backend.open()
    assert await state(other, receipt.id) is JobState.PENDING


async def test_everything_survives_a_restart_of_the_store(
    backend: Backend, store: Broker, hand: Hand
) -> None:
    waiting, later, failed, dead = jobs = [new(), new(delay_ms=60_000), new(), new(max_retry=0)]
    for one, outcome in ((failed, RuntimeError("no")), (dead, RuntimeError("no"))):
        await store.enqueue([one])
        await hand.run(outcome)
    await store.enqueue([waiting, later])
    await store.pause("chat_attachment")
    before = await store.states(ids(jobs))

    store = await backend.restart()

    assert await store.states(ids(jobs)) == before
    assert before == [JobState.PENDING, JobState.SCHEDULED, JobState.RETRY, JobState.ARCHIVED]
    assert [letter.job_id for letter in await store.dead_letters(["default"], 10)] == [dead.job.id]
    assert {stat.name for stat in await store.queue_stats() if stat.paused} == {"chat_attachment"}


async def test_a_running_job_survives_a_restart_and_is_still_its_workers(
    backend: Backend, store: Broker, hand: Hand
) -> None:
    await store.enqueue([new()])
    running = await hand.take_one()
    hand.store = await backend.restart()
    assert await hand.renewing([running]) == ["held"]
    assert await hand.settle(running) is JobState.COMPLETED


async def test_what_is_claimed_is_what_was_enqueued(store: Broker, hand: Hand) -> None:
    sent = new(
        data='{"text":"naïve 文字 \\u0000 🎈"}',
        scopes=(Scope("tenant", "7"), Scope("knowledge", "k1")),
        unique=Unique("k", until="done"),
        max_retry=4,
        timeout_ms=1500,
        deadline=now_ms() + 60_000,
        retention_ms=9000,
        payload_version=3,
        trace="00-abc-def-01",
        parent_id="p",
    ).job
    before = now_ms()
    await store.enqueue([replace(new(), job=sent)])
    got = envelope(await hand.take_one())
    assert before - 1000 <= got.enqueued_at <= now_ms() + 1000
    assert got.root_id in {sent.id, ""}
    assert got == replace(sent, enqueued_at=got.enqueued_at, root_id=got.root_id, root_at=got.root_at)


@pytest.mark.parametrize("named", [True, False])
async def test_an_enqueue_that_raised_is_repeated_and_happens_once(
    store: Broker, insist: Insist, loss: Loss, named: bool
) -> None:
    job = new(named=named)
    (receipt,) = await insist(store.enqueue, [job])
    assert receipt == Receipt(job.job.id, JobState.PENDING, duplicate=loss is Loss.REPLY)
    assert await run_all(store) == [job.job.id]


async def test_a_batch_that_raised_is_repeated_and_each_of_it_happens_once(
    store: Broker, insist: Insist
) -> None:
    jobs = [*news(20), *news(5, delay_ms=60_000), *news(5, queue="summary")]
    receipts = await insist(store.enqueue, jobs)
    assert [receipt.id for receipt in receipts] == ids(jobs)
    assert await pending(store) == 20
    assert sorted(await run_all(store)) == sorted(ids(jobs[:20]))
    assert sorted(await run_all(store, "summary")) == sorted(ids(jobs[25:]))
    assert set(await store.states(ids(jobs[20:25]))) == {JobState.SCHEDULED}


async def test_the_same_id_twice_in_one_batch_is_one_job(store: Broker) -> None:
    job = new(named=True)
    first, second = await store.enqueue([job, job])
    assert (first.duplicate, second.duplicate) == (False, True)
    assert await run_all(store) == [job.job.id]


async def test_a_given_id_that_is_waiting_or_running_is_a_duplicate_with_its_state(
    store: Broker, hand: Hand
) -> None:
    later = new(named=True, delay_ms=60_000)
    await store.enqueue([later])
    assert await store.enqueue([later]) == [Receipt(later.job.id, JobState.SCHEDULED, duplicate=True)]
    running = new(named=True)
    await store.enqueue([running])
    await hand.take_one()
    assert await store.enqueue([running]) == [Receipt(running.job.id, JobState.ACTIVE, duplicate=True)]


@pytest.mark.parametrize(
    ("outcome", "ended"),
    [
        (Done(), JobState.COMPLETED),
        (Skip("no"), JobState.ARCHIVED),
        (Cancel("no"), JobState.CANCELLED),
    ],
    ids=str,
)
async def test_a_given_id_names_one_job_for_ever(
    backend: Backend, store: Broker, hand: Hand, outcome: BaseException, ended: JobState
) -> None:
    job = new(named=True)
    await store.enqueue([job])
    assert await hand.run(outcome) is ended
    store = await backend.restart()
    assert await store.enqueue([job]) == [Receipt(job.job.id, ended, duplicate=True)]
    assert await run_all(store) == []


async def test_a_deleted_job_keeps_its_id_taken(store: Broker, hand: Hand) -> None:
    job = new(named=True)
    await store.enqueue([job])
    await hand.run(Skip("no"))
    await store.delete(job.job.id)
    assert await store.job(job.job.id) is None
    assert await store.enqueue([job]) == [Receipt(job.job.id, JobState.ARCHIVED, duplicate=True)]


@pytest.mark.parametrize("named", [True, False])
async def test_the_memory_of_an_id_ends_after_its_time(store: Broker, hand: Hand, named: bool) -> None:
    """Of an id that was given after a day; of any other once nobody repeats its enqueue any more."""
    job = new(named=named)
    await store.enqueue([job])
    await hand.run()
    await store.prune(Retention(repeat_ms=0) if named else Retention(tombstone_ms=0))
    assert await state(store, job.job.id) is JobState.COMPLETED
    await store.prune(Retention(tombstone_ms=0) if named else Retention(repeat_ms=0))
    assert await state(store, job.job.id) is None


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("outcome", [Done(), Skip("no"), Cancel("no")], ids=str)
async def test_a_job_that_ended_before_its_enqueue_was_repeated_does_not_run_twice(
    store: Broker, faults: Faults, hand: Hand, named: bool, outcome: BaseException
) -> None:
    job = new(named=named)
    faults.lose_reply("enqueue")
    with pytest.raises(StoreUnavailable):
        await store.enqueue([job])
    ended = await hand.run(outcome)
    assert ended is not None
    assert await store.enqueue([job]) == [Receipt(job.job.id, ended, duplicate=True)]
    assert await run_all(store) == []


async def test_a_child_whose_family_was_cancelled_is_remembered_as_well(store: Broker) -> None:
    scope = Scope("knowledge", "k")
    cut = (await store.cancel_scope(scope, EVERYTHING)).cut
    child = new(scopes=(scope,), root_id="r", root_at=cut)
    assert await store.enqueue([child]) == [Receipt(child.job.id, JobState.CANCELLED)]
    assert await store.enqueue([child]) == [Receipt(child.job.id, JobState.CANCELLED, duplicate=True)]


async def test_who_repeats_an_enqueue_with_the_id_of_its_error_runs_the_job_once(
    open_pipeline: Open, faults: Faults
) -> None:
    pipeline = await open_pipeline()
    faults.lose_reply("enqueue")
    with pytest.raises(EnqueueFailed) as raised:
        await pipeline.enqueue(Work())
    job_id = raised.value.job_id
    assert await run_all(pipeline.broker) == [job_id]
    repeated = await pipeline.enqueue(Work(), id=job_id)
    assert repeated == Receipt(job_id, JobState.COMPLETED, duplicate=True)
    assert await run_all(pipeline.broker) == []


async def test_jobs_of_a_queue_are_claimed_in_the_order_in_which_they_came(store: Broker) -> None:
    jobs = news(30)
    for start in range(0, 30, 7):
        await store.enqueue(jobs[start : start + 7])
    assert await run_all(store) == ids(jobs)


async def test_two_processes_enqueue_and_claim_at_once_and_each_job_is_claimed_once(
    backend: Backend, store: Broker
) -> None:
    other = await backend.open()
    jobs = [news(40) for _ in range(6)]
    await asyncio.gather(*(one.enqueue(part) for one, part in zip([store, other] * 3, jobs, strict=True)))
    claimed = await asyncio.gather(*(run_all(one) for one in [store, other] * 3))
    assert sorted(i for part in claimed for i in part) == sorted(i for part in jobs for i in ids(part))


async def test_an_enqueue_that_cannot_be_stored_hurts_none_beside_it(store: Broker) -> None:
    good, bad = news(6), new(data="\ud800")  # what UTF-8 has no place for
    batches = [[good[0]], [good[1]], [bad], good[2:4], good[4:]]
    answers = await asyncio.gather(*(store.enqueue(batch) for batch in batches), return_exceptions=True)
    assert [isinstance(answer, ValueError) for answer in answers] == [False, False, True, False, False]
    assert sorted(await run_all(store)) == sorted(ids(good))


@pytest.mark.parametrize("lost", [Loss.REQUEST, Loss.REPLY])
async def test_who_enqueues_many_is_told_which_were_not_confirmed_and_repeats_those(
    open_pipeline: Open, faults: Faults, lost: Loss
) -> None:
    pipeline = await open_pipeline()
    payloads = [Work(n=1), Summary(n=2), Work(n=3)]  # of two pools, each enqueued in one go
    faults.lose(lost, "enqueue")
    with pytest.raises(PartialEnqueue) as raised:
        await pipeline.enqueue_many(payloads)
    failed = raised.value
    assert [receipt is None for receipt in failed.receipts] == [True, False, True]
    ids_of = dict(zip(payloads, failed.job_ids, strict=True))
    repeated = await pipeline.enqueue_many([Enqueue(one, id=ids_of[one]) for one in payloads[::2]])
    assert [receipt.duplicate for receipt in repeated] == [lost is Loss.REPLY] * 2
    ran = [*await run_all(pipeline.broker), *await run_all(pipeline.broker, "summary")]
    assert sorted(ran) == sorted(failed.job_ids)
