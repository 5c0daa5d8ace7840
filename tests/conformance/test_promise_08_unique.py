"""Promise 8: unique locks end with the job in every exit, and never before."""

from collections.abc import Awaitable, Callable
from typing import get_args

import pytest
from contracts.fences import EVERYTHING
from contracts.jobs import OnConflict, Scope, Unique, Until
from contracts.outcomes import Cancel, Retry, Skip, Snooze
from contracts.states import JobState
from pipeline.broker import Broker, Retention
from pipeline.clock import now_ms
from pipeline.errors import NotAllowed
from pipeline.receipt import Receipt

from tests.conformance.conftest import Insist
from tests.support.backends import Backend
from tests.support.hand import Hand, envelope, new, reclaimed, run_all, state
from tests.support.waiting import wait_until

Exit = Callable[[Broker, Hand, str], Awaitable[object]]
EXITS: dict[str, Exit] = {}


def an_exit(way: Exit) -> Exit:
    EXITS[way.__name__] = way
    return way


@an_exit
async def done(store: Broker, hand: Hand, job_id: str) -> None:
    assert await hand.run() is JobState.COMPLETED


@an_exit
async def exhausted(store: Broker, hand: Hand, job_id: str) -> None:
    assert await hand.run(RuntimeError("first")) is JobState.RETRY
    assert await hand.settle(await hand.take_when_due(), RuntimeError("last")) is JobState.ARCHIVED


@an_exit
async def skipped(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.run(Skip("no"))


@an_exit
async def cancelled_by_its_handler(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.run(Cancel("no"))


@an_exit
async def cancelled_while_it_waits(store: Broker, hand: Hand, job_id: str) -> None:
    await store.cancel([job_id])


@an_exit
async def cancelled_while_it_is_snoozed(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.run(Snooze(60))
    await store.cancel([job_id])


@an_exit
async def cancelled_between_two_tries(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.run(Retry(after=60))
    await store.cancel([job_id])


@an_exit
async def cancelled_while_it_runs(store: Broker, hand: Hand, job_id: str) -> None:
    running = await hand.take_one()
    await store.cancel([job_id])
    assert await hand.settle(running, RuntimeError("stopped")) is JobState.CANCELLED


@an_exit
async def cancelled_then_handed_back(store: Broker, hand: Hand, job_id: str) -> None:
    running = await hand.take_one()
    await store.cancel([job_id])
    await store.release([running])
    assert await hand.take() == []


@an_exit
async def cancelled_then_its_worker_was_lost(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.take_one()
    await store.cancel([job_id])
    (taken,) = await reclaimed(store)
    assert taken.state is JobState.CANCELLED


@an_exit
async def cancelled_with_its_scope(store: Broker, hand: Hand, job_id: str) -> None:
    await store.cancel_scope(Scope("knowledge", "k"), EVERYTHING)


@an_exit
async def deleted(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.run(Skip("no"))
    await store.delete(job_id)


@an_exit
async def purged(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.run(Skip("no"))
    assert await store.purge("default") == 1


@an_exit
async def forgotten(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.run(Skip("no"))
    await store.prune(Retention(archived_ms=0))
    assert await store.job(job_id) is None


@an_exit
async def expired_while_it_waits(store: Broker, hand: Hand, job_id: str) -> None:
    record = await store.job(job_id)
    assert record is not None
    deadline = record.job.deadline
    assert deadline is not None
    await wait_until(lambda: now_ms() > deadline, describe="its deadline passed")
    assert await hand.take() == []


@an_exit
async def expired_at_its_end(store: Broker, hand: Hand, job_id: str) -> None:
    assert await hand.run(Snooze(3600)) is JobState.ARCHIVED


@an_exit
async def lost_with_its_worker(store: Broker, hand: Hand, job_id: str) -> None:
    await hand.take_one()
    (taken,) = await reclaimed(store, max_crashes=0)
    assert taken.state is JobState.ARCHIVED


DEADLINES = {"expired_while_it_waits": 30, "expired_at_its_end": 600_000}


@pytest.mark.parametrize("on_conflict", get_args(OnConflict))
@pytest.mark.parametrize("until", get_args(Until))
@pytest.mark.parametrize("way", EXITS)
async def test_after_every_exit_the_key_is_free_in_every_mode(
    store: Broker, hand: Hand, way: str, until: Until, on_conflict: OnConflict
) -> None:
    """But for `ttl`, whose lock is a matter of time and not of the job."""
    unique = Unique("k", ttl=60 if until == "ttl" else 0, until=until, on_conflict=on_conflict)
    deadline = now_ms() + DEADLINES[way] if way in DEADLINES else None
    first = new(unique=unique, scopes=(Scope("knowledge", "k"),), deadline=deadline)
    assert await store.enqueue([first]) == [Receipt(first.job.id, JobState.PENDING)]
    await EXITS[way](store, hand, first.job.id)

    second = new(unique=unique)
    (receipt,) = await store.enqueue([second])

    if until == "ttl":
        assert (receipt.id, receipt.duplicate) == (first.job.id, True)
        assert await run_all(store) == []
    else:
        assert receipt == Receipt(second.job.id, JobState.PENDING)
        assert await run_all(store) == [second.job.id]
        assert (await store.enqueue([new(unique=unique)]))[0].duplicate is False


HELD = ["pending", "scheduled", "active", "retry", "snoozed", "released", "reclaimed", "restarted"]


@pytest.mark.parametrize("how", HELD)
async def test_the_key_is_taken_as_long_as_the_job_has_not_ended(
    backend: Backend, store: Broker, hand: Hand, how: str
) -> None:
    first = new(unique=Unique("k"), delay_ms=60_000 if how == "scheduled" else 0)
    await store.enqueue([first])
    match how:
        case "active":
            await hand.take_one()
        case "retry":
            await hand.run(Retry(after=60))
        case "snoozed":
            await hand.run(Snooze(60))
        case "released":
            await store.release([await hand.take_one()])
        case "reclaimed":
            await hand.take_one()
            await reclaimed(store)
        case "restarted":
            await hand.take_one()
            store = await backend.restart()
    (receipt,) = await store.enqueue([new(unique=Unique("k"))])
    assert (receipt.id, receipt.duplicate) == (first.job.id, True)


async def test_only_jobs_of_one_type_with_one_key_are_in_each_others_way(store: Broker) -> None:
    await store.enqueue([new(unique=Unique("k"))])
    others = [
        new(unique=Unique("other")),
        new(unique=Unique("k"), type="test:other"),
        new(),
    ]
    assert [receipt.duplicate for receipt in await store.enqueue(others)] == [False] * 3


async def test_a_unique_enqueue_that_raised_is_repeated_and_finds_itself(
    store: Broker, insist: Insist
) -> None:
    job = new(unique=Unique("k"))
    (receipt,) = await insist(store.enqueue, [job])
    assert receipt.id == job.job.id
    assert await run_all(store) == [job.job.id]


async def test_the_same_key_twice_in_one_batch_is_one_job(store: Broker) -> None:
    first, second = new(unique=Unique("k")), new(unique=Unique("k"))
    receipts = await store.enqueue([first, second])
    assert receipts == [
        Receipt(first.job.id, JobState.PENDING),
        Receipt(first.job.id, JobState.PENDING, duplicate=True),
    ]


async def test_until_started_ends_with_the_first_start(store: Broker, hand: Hand) -> None:
    unique = Unique("k", until="started")
    await store.enqueue([new(unique=unique)])
    assert (await store.enqueue([new(unique=unique)]))[0].duplicate
    running = await hand.take_one()
    second = new(unique=unique, queue="chat_attachment")
    assert await store.enqueue([second]) == [Receipt(second.job.id, JobState.PENDING)]
    assert await hand.settle(running, Retry(after=0)) is JobState.RETRY
    await (
        hand.take_when_due()
    )  # neither the end of the first nor its second start frees anything of the second
    (third,) = await store.enqueue([new(unique=unique)])
    assert (third.id, third.duplicate) == (second.job.id, True)


async def test_until_ttl_ends_with_its_time_alone(store: Broker) -> None:
    unique = Unique("k", ttl=0.15, until="ttl")
    first = new(unique=unique)
    await store.enqueue([first])
    assert await run_all(store) == [first.job.id]
    assert (await store.enqueue([new(unique=unique)]))[0].duplicate

    async def accepted() -> bool:
        return not (await store.enqueue([new(unique=unique)]))[0].duplicate

    await wait_until(accepted, describe="the time is over", timeout=5)


async def test_drop_leaves_the_older_one_as_it_is(store: Broker) -> None:
    first = new(unique=Unique("k"), data='{"n":1}')
    await store.enqueue([first])
    await store.enqueue([new(unique=Unique("k"), data='{"n":2}', delay_ms=60_000)])
    delivery = await Hand(store).take_one()
    assert (delivery.job_id, delivery.record["data"]) == (first.job.id, '{"n":1}')


@pytest.mark.parametrize("waiting", ["pending", "scheduled", "retry"])
async def test_replace_puts_the_newcomer_in_the_place_of_a_waiting_one(
    store: Broker, hand: Hand, insist: Insist, waiting: str
) -> None:
    unique = Unique("k", on_conflict="replace")
    first = new(unique=unique, delay_ms=60_000 if waiting == "scheduled" else 0)
    await store.enqueue([first])
    if waiting == "retry":
        await hand.run(Retry(after=60))
    second = new(unique=unique, data='{"n":2}')
    (receipt,) = await insist(store.enqueue, [second])
    assert (receipt.id, receipt.state) == (second.job.id, JobState.PENDING)
    assert await state(store, first.job.id) is JobState.CANCELLED
    assert await run_all(store) == [second.job.id]


async def test_debounce_moves_the_waiting_one_and_keeps_it(store: Broker, insist: Insist) -> None:
    unique = Unique("k", on_conflict="debounce")
    first = new(unique=unique, delay_ms=30_000)
    await store.enqueue([first])
    (receipt,) = await insist(store.enqueue, [new(unique=unique, delay_ms=90_000)])
    assert receipt == Receipt(first.job.id, JobState.SCHEDULED, duplicate=True)
    record = await store.job(first.job.id)
    assert record is not None
    assert record.due_at > now_ms() + 60_000


@pytest.mark.parametrize("on_conflict", ["replace", "debounce"])
async def test_while_the_older_one_runs_one_more_run_is_noted_and_no_more(
    store: Broker, hand: Hand, on_conflict: OnConflict
) -> None:
    unique = Unique("k", on_conflict=on_conflict)
    first = new(unique=unique)
    await store.enqueue([first])
    running = await hand.take_one()
    for _ in range(3):
        (receipt,) = await store.enqueue([new(unique=unique)])
        assert (receipt.id, receipt.duplicate) == (first.job.id, True)
    await hand.settle(running)
    again = await hand.take_when_due()
    assert envelope(again).retried == 0
    assert await hand.settle(again) is JobState.COMPLETED
    await store.promote()
    assert await run_all(store) == []
    assert (await store.enqueue([new(unique=unique)]))[0].duplicate is False


async def test_replace_takes_the_newcomers_payload_for_the_noted_run(store: Broker, hand: Hand) -> None:
    unique = Unique("k", on_conflict="replace")
    await store.enqueue([new(unique=unique, data='{"n":1}')])
    running = await hand.take_one()
    await store.enqueue([new(unique=unique, data='{"n":2}')])
    await hand.settle(running)
    assert (await hand.take_when_due()).record["data"] == '{"n":2}'


async def test_to_run_an_archived_job_again_takes_its_key_again(store: Broker, hand: Hand) -> None:
    first = new(unique=Unique("k"))
    await store.enqueue([first])
    await hand.run(Skip("no"))
    await store.run_now(first.job.id)
    (receipt,) = await store.enqueue([new(unique=Unique("k"))])
    assert (receipt.id, receipt.duplicate) == (first.job.id, True)


async def test_an_archived_job_whose_key_is_taken_cannot_be_run_again(store: Broker, hand: Hand) -> None:
    first, second = new(unique=Unique("k")), new(unique=Unique("k"))
    await store.enqueue([first])
    await hand.run(Skip("no"))
    await store.enqueue([second])
    with pytest.raises(NotAllowed):
        await store.run_now(first.job.id)
    assert await state(store, first.job.id) is JobState.ARCHIVED
    assert await run_all(store) == [second.job.id]


async def test_a_fenced_newcomer_takes_no_key(store: Broker) -> None:
    scope = Scope("knowledge", "k")
    cut = (await store.cancel_scope(scope, EVERYTHING)).cut
    child = new(unique=Unique("k"), scopes=(scope,), root_id="r", root_at=cut)
    (receipt,) = await store.enqueue([child])
    assert receipt.state is JobState.CANCELLED
    assert (await store.enqueue([new(unique=Unique("k"))]))[0].duplicate is False


@pytest.mark.parametrize("on_conflict", ["replace", "debounce"])
async def test_a_run_that_was_noted_takes_place_when_the_one_before_it_expires_while_it_waits(
    store: Broker, hand: Hand, on_conflict: OnConflict
) -> None:
    """Its due time was moved behind its deadline; the noted run has none."""
    unique = Unique("k", on_conflict=on_conflict)
    first = new(unique=unique, deadline=now_ms() + 300)
    await store.enqueue([first])
    running = await hand.take_one()
    await store.enqueue([new(unique=unique)])
    assert await hand.settle(running, Snooze(0.1)) is JobState.SCHEDULED
    await store.enqueue([new(unique=Unique("k", on_conflict="debounce"), delay_ms=400)])
    again = await hand.take_when_due()
    assert (again.job_id, envelope(again).deadline) == (first.job.id, None)
    assert await hand.settle(again) is JobState.COMPLETED
    assert not (await store.enqueue([new(unique=unique)]))[0].duplicate
