"""After the end: running again, deleting, purging, and what retention removes."""

import asyncio
from contextlib import nullcontext

import pytest
from contracts.outcomes import Cancel, Done, Retry, Skip
from contracts.states import JobState
from pipeline.broker import Broker, Retention
from pipeline.errors import JobNotFound, NotAllowed

from tests.conformance.conftest import Insist
from tests.support.backends import Backend
from tests.support.faults import Loss
from tests.support.hand import Hand, envelope, ids, new, news, run_all, state
from tests.support.waiting import wait_until


async def archived(store: Broker, hand: Hand, count: int = 1, queue: str = "default") -> list[str]:
    jobs = news(count, max_retry=0, queue=queue)
    await store.enqueue(jobs)
    for _ in jobs:
        assert await hand.run(RuntimeError("no"), queue) is JobState.ARCHIVED
    return ids(jobs)


async def test_an_archived_job_gets_one_more_attempt_that_is_again_its_last(
    store: Broker, hand: Hand, insist: Insist, loss: Loss
) -> None:
    job = new(max_retry=2)
    await store.enqueue([job])
    for _ in range(3):
        await hand.settle(await hand.take_when_due(), RuntimeError("no"))
    with pytest.raises(NotAllowed) if loss is Loss.REPLY else nullcontext():  # it has happened
        await insist(store.run_now, job.job.id)
    delivery = await hand.take_one()
    assert (envelope(delivery).retried, envelope(delivery).final) == (2, True)
    assert await hand.settle(delivery, RuntimeError("again")) is JobState.ARCHIVED
    assert await hand.take() == []
    await store.run_now(job.job.id)
    assert await hand.run() is JobState.COMPLETED


async def test_a_job_that_is_run_again_does_not_queue_up_behind_fresh_ones(store: Broker, hand: Hand) -> None:
    (job_id,) = await archived(store, hand)
    await store.enqueue(news(50))
    await store.run_now(job_id)
    assert job_id in [d.job_id for d in await hand.take(2)]


async def test_what_waits_between_two_tries_runs_at_once_when_a_person_asks(
    store: Broker, hand: Hand
) -> None:
    job = new(max_retry=3)
    await store.enqueue([job])
    await hand.run(Retry(after=3600))
    await store.run_now(job.job.id)
    delivery = await hand.take_one()
    assert (envelope(delivery).retried, envelope(delivery).final) == (1, False)


async def test_running_now_is_not_for_what_runs_waits_or_ended_well(store: Broker, hand: Hand) -> None:
    waiting, running, done, cancelled = jobs = news(4, retention_ms=60_000)
    for job, outcome in ((done, Done()), (cancelled, Cancel("no"))):
        await store.enqueue([job])
        await hand.run(outcome)
    await store.enqueue([running])
    await hand.take_one()
    await store.enqueue([waiting])
    before = await store.states(ids(jobs))
    for job in jobs:
        with pytest.raises(NotAllowed, match=r"."):
            await store.run_now(job.job.id)
    assert await store.states(ids(jobs)) == before
    with pytest.raises(JobNotFound):
        await store.run_now("never-heard-of")


@pytest.mark.parametrize("outcome", [Done(), Skip("no"), Cancel("no")], ids=repr)
async def test_what_has_ended_can_be_deleted_and_is_remembered_for_a_day(
    store: Broker, hand: Hand, insist: Insist, loss: Loss, outcome: BaseException
) -> None:
    job = new(retention_ms=60_000)
    await store.enqueue([job])
    ended = await hand.run(outcome)
    with pytest.raises(JobNotFound) if loss is Loss.REPLY else nullcontext():  # it has happened
        await insist(store.delete, job.job.id)
    assert await store.job(job.job.id) is None
    assert await state(store, job.job.id) is ended
    await store.prune(Retention(tombstone_ms=0))
    assert await state(store, job.job.id) is None


async def test_of_two_who_delete_a_job_at_once_one_is_told_so(store: Broker, hand: Hand) -> None:
    (job_id,) = await archived(store, hand)
    said = await asyncio.gather(*(store.delete(job_id) for _ in range(5)), return_exceptions=True)
    assert [type(one) for one in said if one is not None] == [JobNotFound] * 4


async def test_what_has_not_ended_cannot_be_deleted(store: Broker, hand: Hand) -> None:
    jobs = [new(), new(), new(delay_ms=60_000)]
    await store.enqueue(jobs)
    await hand.take_one()
    for job in jobs:
        with pytest.raises(NotAllowed):
            await store.delete(job.job.id)
    assert await store.states(ids(jobs)) == [JobState.ACTIVE, JobState.PENDING, JobState.SCHEDULED]
    with pytest.raises(JobNotFound):
        await store.delete("never-heard-of")


async def test_a_purge_removes_the_archived_of_one_queue_and_nothing_else(
    store: Broker, hand: Hand, insist: Insist, loss: Loss
) -> None:
    gone = await archived(store, hand, 5)
    kept = await archived(store, hand, 1, "summary")
    waiting = news(2)
    await store.enqueue(waiting)
    assert await insist(store.purge, "default") == (0 if loss is Loss.REPLY else 5)
    assert [await store.job(i) for i in gone] == [None] * 5
    assert set(await store.states(gone)) == {JobState.ARCHIVED}
    assert await state(store, kept[0]) is JobState.ARCHIVED
    assert sorted(await run_all(store)) == sorted(ids(waiting))


async def test_a_dead_letter_outlives_the_purge_of_its_job(store: Broker, hand: Hand) -> None:
    (job_id,) = await archived(store, hand)
    await store.purge("default")
    assert [letter.job_id for letter in await store.dead_letters(["default"], 5)] == [job_id]


async def test_a_completed_job_is_kept_for_its_retention_only(store: Broker, hand: Hand) -> None:
    kept, gone = new(retention_ms=60_000), new()
    await store.enqueue([kept, gone])
    await hand.run()
    await hand.run()
    assert await store.job(gone.job.id) is None
    await store.prune(Retention())
    record = await store.job(kept.job.id)
    assert record is not None
    assert record.state is JobState.COMPLETED


async def test_a_retention_that_is_over_removes_the_record(store: Broker, hand: Hand) -> None:
    job = new(retention_ms=30)
    await store.enqueue([job])
    await hand.run()

    async def gone() -> bool:
        await store.prune(Retention())
        return await store.job(job.job.id) is None

    await wait_until(gone, describe="the retention is over")


async def test_archived_jobs_are_kept_up_to_a_number_the_newest_stay(store: Broker, hand: Hand) -> None:
    jobs = await archived(store, hand, 6)
    elsewhere = await archived(store, hand, 2, "wiki")  # another pool
    pruned = await store.prune(Retention(archived_max=4))
    assert pruned.jobs == 2
    assert [bool(await store.job(i)) for i in jobs] == [False] * 2 + [True] * 4
    assert all([await store.job(i) for i in elsewhere])


async def test_a_prune_that_was_lost_is_repeated(store: Broker, hand: Hand, insist: Insist) -> None:
    jobs = await archived(store, hand, 3)
    await insist(store.prune, Retention(archived_ms=0))
    assert [await store.job(i) for i in jobs] == [None] * 3


async def test_pruning_leaves_what_has_not_ended_alone(store: Broker, hand: Hand) -> None:
    running, retrying, waiting, later = jobs = [new(), new(max_retry=3), new(), new(delay_ms=60_000)]
    await store.enqueue([retrying])
    await hand.run(Retry(after=60))
    await store.enqueue([running])
    await hand.take_one()
    await store.enqueue([waiting, later])
    before = await store.states(ids(jobs))
    nothing_kept = Retention(
        cancelled_ms=0, archived_ms=0, archived_max=0, tombstone_ms=0, repeat_ms=0, fence_ms=0
    )
    await store.prune(nothing_kept)
    assert await store.states(ids(jobs)) == before


async def test_deleted_and_purged_survive_a_restart(backend: Backend, store: Broker, hand: Hand) -> None:
    one, two = await archived(store, hand, 2)
    await store.delete(one)
    await store.purge("default")
    store = await backend.restart()
    assert [await store.job(i) for i in (one, two)] == [None, None]
    assert await run_all(store) == []


async def test_a_death_that_was_taken_care_of_waits_for_its_row(
    store: Broker, hand: Hand, insist: Insist
) -> None:
    first, second = await archived(store, hand, 2)
    letters = {one.job_id: one for one in await store.dead_letters(["default"], 5)}
    await insist(store.tend_dead_letters, [letters[first].death_id])
    assert [one.job_id for one in await store.dead_letters(["default"], 5)] == [second]
    assert await store.dead_letters(["default"], 5, tended=True) == [letters[first]]
    assert await store.dead_letters(["wiki"], 5, tended=True) == []
    await insist(store.forget_dead_letters, [letters[first].death_id])
    assert await store.dead_letters(["default"], 5, tended=True) == []
    assert [one.job_id for one in await store.dead_letters(["default"], 5)] == [second]


async def test_deaths_that_nobody_records_are_kept_as_many_as_archived_jobs(
    store: Broker, hand: Hand
) -> None:
    jobs = await archived(store, hand, 4)
    await store.tend_dead_letters([one.death_id for one in (await store.dead_letters(["default"], 5))[:3]])
    await store.prune(Retention(archived_max=2))
    assert [one.job_id for one in await store.dead_letters(["default"], 5, tended=True)] == jobs[1:3]
    assert [one.job_id for one in await store.dead_letters(["default"], 5)] == jobs[3:]
