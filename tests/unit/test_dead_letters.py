"""Each death is recorded once and its hook runs, whatever is away or fails meanwhile."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from contracts.identity import new_id
from contracts.jobs import Job
from contracts.outcomes import Skip
from contracts.states import ArchiveReason
from pipeline.broker import DeadLetter, NewJob
from pipeline.client import Enqueue
from pipeline.errors import StoreUnavailable
from pipeline.handlers import Handler, on
from pipeline.runtime import Pipeline
from pipeline.services import dead_letters
from pipeline.testing import Scripted

from tests.support.hand import Hand, new
from tests.support.jobs import Chat, Work, for_ever, working
from tests.support.waiting import stays_true, wait_until

QUEUES = ("default", "chat_attachment")


class Hook:
    """Notes each call; raises the given errors first."""

    def __init__(self, *errors: BaseException) -> None:
        self.calls: list[tuple[Any, DeadLetter, Any]] = []
        self._errors = list(errors)

    async def __call__(self, payload: Any, letter: DeadLetter, services: Any) -> None:
        self.calls.append((payload, letter, services))
        if self._errors:
            raise self._errors.pop(0)


class Book:
    """A ledger that may be away."""

    def __init__(self) -> None:
        self.rows: dict[str, DeadLetter] = {}
        self.away = False

    async def record_deaths(self, letters: Sequence[DeadLetter]) -> None:
        if self.away:
            raise StoreUnavailable("the database is away")
        self.rows.update((letter.death_id, letter) for letter in letters)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for seconds waits for less."""
    monkeypatch.setattr(dead_letters, "EVERY_S", 0.05)
    monkeypatch.setattr(dead_letters, "FIRST_WAIT_S", 0.05)


@pytest.fixture
def book(pipeline: Pipeline) -> Book:
    pipeline.ledger = book = Book()
    return book


def dying(hook: Hook, said: BaseException | None = None, payload: Any = Work) -> Handler:
    return on(payload, Scripted(said or ValueError("no")), on_archived=hook)


async def unburied(pipeline: Pipeline) -> int:
    return len(await pipeline.broker.dead_letters(QUEUES, 1000))


async def all_buried(pipeline: Pipeline) -> None:
    async def none() -> bool:
        return await unburied(pipeline) == 0

    await wait_until(none, describe="every death is taken care of", timeout=10)


async def test_the_hook_gets_the_payload_the_death_and_the_services(pipeline: Pipeline, book: Book) -> None:
    hook = Hook()
    receipt = await pipeline.enqueue(Work(n=7), max_retry=0)
    async with working(pipeline, dying(hook), services="ours"):
        await wait_until(lambda: hook.calls, describe="the hook runs")
        await all_buried(pipeline)
    ((payload, letter, services),) = hook.calls
    assert (payload, services) == (Work(n=7), "ours")
    assert (letter.job_id, letter.reason, letter.error) == (
        receipt.id,
        ArchiveReason.EXHAUSTED,
        "ValueError: no",
    )
    assert book.rows == {letter.death_id: letter}


async def test_each_death_of_a_job_is_a_row_of_its_own(pipeline: Pipeline, book: Book) -> None:
    hook = Hook()
    receipt = await pipeline.enqueue(Work(), max_retry=0)
    async with working(pipeline, dying(hook)):
        await wait_until(lambda: len(hook.calls) == 1, describe="it dies")
        await pipeline.inspector.run_now(receipt.id)
        await wait_until(lambda: len(hook.calls) == 2, describe="it dies again")
    assert len(book.rows) == 2


async def test_a_handler_that_skips_has_said_what_it_wanted(pipeline: Pipeline, book: Book) -> None:
    hook = Hook()
    await pipeline.enqueue(Work())
    async with working(pipeline, dying(hook, Skip("pointless"))):
        await wait_until(lambda: book.rows, describe="the death is recorded")
        await all_buried(pipeline)
    assert [letter.reason for letter in book.rows.values()] == [ArchiveReason.SKIP]
    assert hook.calls == []


async def test_poison_is_recorded_and_no_hook_is_called_with_nothing(pipeline: Pipeline, book: Book) -> None:
    hook = Hook()
    poison = Job(id=new_id(), type=Work.spec.type, queue="default", data="not JSON")
    await pipeline.broker.enqueue([NewJob(poison)])
    async with working(pipeline, dying(hook)):
        await wait_until(lambda: book.rows, describe="the death is recorded")
        await all_buried(pipeline)
    assert [(one.reason, one.record["data"]) for one in book.rows.values()] == [("poison", "not JSON")]
    assert hook.calls == []


async def test_a_failing_hook_is_called_again_and_disturbs_no_other(pipeline: Pipeline, book: Book) -> None:
    failures = ValueError("one"), SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError()
    hook, other = Hook(*failures), Hook()
    await pipeline.enqueue(Work(), max_retry=0)
    await pipeline.enqueue(Chat(), max_retry=0)
    async with working(pipeline, dying(hook), dying(other, payload=Chat)):
        await wait_until(lambda: len(hook.calls) == 5, describe="it is called until it works")
        await all_buried(pipeline)
        await stays_true(lambda: len(hook.calls) == 5, describe="and no more", during=0.2)
    assert len(other.calls) == 1


async def test_the_wait_between_calls_of_a_failing_hook_grows(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "FIRST_WAIT_S", 0.2)
    hook = Hook(*[ValueError("no")] * 100)
    await pipeline.enqueue(Work(), max_retry=0)
    async with working(pipeline, dying(hook)):
        await wait_until(lambda: len(hook.calls) == 3, describe="it was called again")
        await stays_true(lambda: len(hook.calls) == 3, describe="it waits longer now", during=0.5)
    assert await unburied(pipeline) == 1


async def test_a_hook_that_hangs_is_cut_off_and_called_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "HOOK_LIMIT_S", 0.05)
    calls = 0

    async def hang_once(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await for_ever()

    await pipeline.enqueue(Work(), max_retry=0)
    async with working(pipeline, on(Work, Scripted(ValueError()), on_archived=hang_once)):
        await wait_until(lambda: calls == 2, describe="it is called again")
        await all_buried(pipeline)


async def test_a_database_that_is_away_delays_a_death_and_loses_nothing(
    pipeline: Pipeline, book: Book
) -> None:
    hook = Hook()
    book.away = True
    receipt = await pipeline.enqueue(Work(), max_retry=0)
    async with working(pipeline, dying(hook)):
        with pytest.raises(Exception, match="archived"):
            await pipeline.wait(receipt.id, timeout=5)
        await stays_true(lambda: not hook.calls, describe="the row comes first", during=0.2)
        assert await unburied(pipeline) == 1
        book.away = False
        await all_buried(pipeline)
    assert len(book.rows) == len(hook.calls) == 1


async def test_several_workers_take_care_of_a_death_once(pipeline: Pipeline, book: Book) -> None:
    hook = Hook()
    await pipeline.enqueue_many([Enqueue(Work(n=n), max_retry=0) for n in range(30)])
    async with working(pipeline, dying(hook)), working(pipeline, dying(hook)):
        await wait_until(lambda: len(hook.calls) >= 30, describe="all have died", timeout=20)
        await all_buried(pipeline)
    assert sorted(payload.n for payload, _, _ in hook.calls) == list(range(30))
    assert len(book.rows) == 30


async def test_a_hook_that_takes_longer_than_its_lock_is_not_called_beside_itself(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LOCK_S", 0.2)
    calls, over = list[str](), asyncio.Event()

    async def take_long(_payload: Any, letter: DeadLetter, _services: Any) -> None:
        calls.append(letter.death_id)
        await over.wait()

    handler = on(Work, Scripted(ValueError()), on_archived=take_long)
    await pipeline.enqueue(Work(), max_retry=0)
    async with working(pipeline, handler), working(pipeline, handler):
        await wait_until(lambda: calls, describe="it is called")
        await stays_true(lambda: len(calls) == 1, describe="nobody else calls it", during=0.8)
        over.set()
        await all_buried(pipeline)


async def test_the_deaths_of_another_pool_are_left_to_its_workers(pipeline: Pipeline, book: Book) -> None:
    await pipeline.broker.enqueue([new(queue="summary")])
    await Hand(pipeline.broker).run(Skip("pointless"), "summary")
    await pipeline.enqueue(Work(), max_retry=0)
    async with working(pipeline, dying(Hook())):
        await wait_until(lambda: book.rows, describe="the death in core is recorded")
    assert [letter.queue for letter in book.rows.values()] == ["default"]
    assert len(await pipeline.broker.dead_letters(["summary"], 10)) == 1


async def test_a_death_behind_many_that_are_left_to_another_worker_is_taken_care_of(
    pipeline: Pipeline, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "BATCH", 3)
    hand = Hand(pipeline.broker)
    for _ in range(10):
        await pipeline.enqueue(Chat())
        await hand.run(Skip("pointless"), "chat_attachment")
    await pipeline.enqueue(Work(), max_retry=0)
    async with working(pipeline, dying(Hook())):
        await wait_until(lambda: book.rows, describe="the death of our type is recorded")
    assert [letter.record["type"] for letter in book.rows.values()] == [Work.spec.type]
    assert await unburied(pipeline) == 10


async def test_without_a_ledger_a_death_waits_for_its_row_after_its_hook_has_run_once(
    pipeline: Pipeline,
) -> None:
    hook = Hook()
    receipt = await pipeline.enqueue(Work(), max_retry=0)
    for _ in range(2):  # nor does the hook run again after a restart
        async with working(pipeline, dying(hook)):
            await wait_until(lambda: hook.calls, describe="the hook runs")
            await all_buried(pipeline)
    assert len(hook.calls) == 1
    pipeline.ledger = book = Book()
    async with pipeline.recording():
        await wait_until(lambda: book.rows, describe="a process with a ledger records it")
    assert [letter.job_id for letter in book.rows.values()] == [receipt.id]


async def test_a_worker_with_a_ledger_records_what_others_left(pipeline: Pipeline) -> None:
    await pipeline.enqueue(Chat(), max_retry=0)
    hook = Hook()
    async with working(pipeline, dying(hook, payload=Chat)):
        await wait_until(lambda: hook.calls, describe="the hook runs")
        await all_buried(pipeline)
    pipeline.ledger = book = Book()
    async with working(pipeline, dying(Hook())):
        await wait_until(lambda: book.rows, describe="it is recorded")
    assert await pipeline.broker.dead_letters(QUEUES, 10, tended=True) == []


async def test_without_a_ledger_only_deaths_of_types_that_are_handled_here_are_taken(
    pipeline: Pipeline,
) -> None:
    stranger = Job(id=new_id(), type="stranger:work", queue="default", data="{}")
    await pipeline.broker.enqueue([NewJob(stranger)])
    await Hand(pipeline.broker).run(Skip("pointless"), "default")
    await pipeline.enqueue(Work(), max_retry=0)
    hook = Hook()
    async with working(pipeline, dying(hook)):
        await wait_until(lambda: hook.calls, describe="the hook of our type runs")
    assert [one.job_id for one in await pipeline.broker.dead_letters(QUEUES, 10)] == [stranger.id]
