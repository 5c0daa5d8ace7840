"""Promise 10: poison is archived with the reason and acknowledged; what a newer worker may know waits for it."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from contracts.jobs import Job
from contracts.outcomes import Cancel, Outcome, Retry, Skip
from contracts.states import ArchiveReason, JobState
from contracts.wire import MAX_ERROR_BYTES, decode
from pipeline.broker import Broker
from pipeline.config import Settings
from pipeline.errors import JobArchived, WaitTimeout
from pipeline.handlers import Context, on
from pipeline.settle import unknown

from tests.conformance.conftest import Insist, Start
from tests.support.hand import Hand, new, settlement, state
from tests.support.waiting import wait_until
from tests.support.work import Attachment, Work

POISON: dict[str, dict[str, Any]] = {
    "not JSON": {"data": "hello"},
    "JSON, but no object": {"data": "[1, 2]"},
    "nothing": {"data": ""},
    "cut off": {"data": '{"n": 1'},
    "a field of the wrong type": {"data": '{"n": "many"}'},
    "a field nobody knows": {"data": '{"n": 1, "colour": "red"}'},
    "a number that is none": {"data": '{"n": NaN}'},
    "nested beyond reason": {"data": "[" * 5000},
    "no type": {"type": ""},
    "an option of the wrong type": {"trace": 7},
    "a limit that is none": {"timeout_ms": "soon"},
}


@pytest.mark.parametrize("kind", POISON)
async def test_poison_is_archived_with_its_reason_and_later_jobs_flow(start: Start, kind: str) -> None:
    ran = list[int]()

    async def work(job: Work, ctx: Context) -> None:
        ran.append(job.n)

    pipeline = await start(on(Work, work))
    bad, good = new(**{"data": '{"n":1}', **POISON[kind]}), new(data='{"n":2}')
    await pipeline.broker.enqueue([bad, good])

    async def archived() -> bool:
        return await state(pipeline.broker, bad.job.id) is JobState.ARCHIVED

    await wait_until(archived, describe="it is archived")
    await wait_until(lambda: ran == [2], describe="the later job ran")
    record = await pipeline.inspector.job(bad.job.id)
    assert record.reason is ArchiveReason.POISON
    assert record.job.data == bad.job.data
    with pytest.raises(JobArchived, match=r"(?s)\(poison: .+\)$") as told:
        await pipeline.wait(bad.job.id, timeout=5)
    assert str(told.value).count("poison") == 1


@pytest.mark.parametrize("kind", ["no type", "an option of the wrong type"])
async def test_the_dead_letter_of_poison_is_the_record_as_it_was(
    store: Broker, hand: Hand, insist: Insist, kind: str
) -> None:
    """But for the number of the death."""
    await store.enqueue([new(**POISON[kind])])
    delivery = await hand.take_one()
    await insist(store.settle, [settlement(delivery)])
    (letter,) = await store.dead_letters(["default"], 5)
    assert (letter.reason, bool(letter.error)) == (ArchiveReason.POISON, True)
    was, became = json.loads(delivery.record["opts"]), json.loads(letter.record["opts"])
    assert {**became, "died": 1} == {**was, "died": 1}
    assert {**letter.record, "opts": ""} == {**delivery.record, "opts": ""}


async def test_a_type_that_this_worker_does_not_know_waits_and_is_poison_only_after_its_time(
    start: Start,
) -> None:
    async def work(job: Work, ctx: Context) -> None: ...

    pipeline = await start(on(Work, work), unknown_type_snooze_s=0.1, unknown_type_limit_s=0.6)
    job = new(type="test:of_tomorrow")
    await pipeline.broker.enqueue([job])
    seen = set[JobState | None]()

    async def archived() -> bool:
        seen.add(await state(pipeline.broker, job.job.id))
        return JobState.ARCHIVED in seen

    await wait_until(archived, describe="nobody knew it in time", longest_pause=0.01)
    assert JobState.SCHEDULED in seen
    record = await pipeline.inspector.job(job.job.id)
    assert record.reason is ArchiveReason.POISON
    assert (record.job.retried, record.job.crashes) == (0, 0)


async def test_a_worker_that_knows_the_type_takes_it_from_one_that_does_not(start: Start) -> None:
    ran = asyncio.Event()

    async def nothing(job: Attachment, ctx: Context) -> None: ...

    async def work(job: Work, ctx: Context) -> None:
        ran.set()

    old = await start(on(Attachment, nothing), unknown_type_snooze_s=0.1)
    receipt = await old.enqueue(Work())

    async def waits() -> bool:
        return await state(old.broker, receipt.id) is JobState.SCHEDULED

    await wait_until(waits, describe="it waits for somebody who knows it", longest_pause=0.01)
    await start(on(Work, work))
    await old.wait(receipt.id, timeout=10)
    assert ran.is_set()


async def test_who_waits_for_a_job_of_an_unknown_type_is_told_why_it_does_not_start(start: Start) -> None:
    async def nothing(job: Attachment, ctx: Context) -> None: ...

    pipeline = await start(on(Attachment, nothing))
    receipt = await pipeline.enqueue(Work())

    async def waits() -> bool:
        return await state(pipeline.broker, receipt.id) is JobState.SCHEDULED

    await wait_until(waits, describe="it waits for somebody who knows it", longest_pause=0.01)
    with pytest.raises(WaitTimeout, match=f"knows no job type '{Work.spec.type}'"):
        await pipeline.wait(receipt.id, timeout=0.01)


@pytest.mark.parametrize("newer", [{"payload_version": 2}, {"codec": "zstd"}], ids=repr)
async def test_a_newer_version_waits_as_an_unknown_type_does(start: Start, newer: dict[str, Any]) -> None:
    async def never(job: Work, ctx: Context) -> None:
        raise AssertionError("it was read as if it were old")

    pipeline = await start(on(Work, never), unknown_type_snooze_s=0.1, unknown_type_limit_s=0.5)
    job = new(**newer)
    await pipeline.broker.enqueue([job])
    seen = set[JobState | None]()

    async def archived() -> bool:
        seen.add(await state(pipeline.broker, job.job.id))
        return JobState.ARCHIVED in seen

    await wait_until(archived, describe="nobody knew it in time", longest_pause=0.01)
    assert JobState.SCHEDULED in seen
    with pytest.raises(JobArchived, match="poison"):
        await pipeline.wait(job.job.id, timeout=5)


async def test_by_default_an_unknown_type_waits_half_a_minute_and_an_hour_in_all(
    hand: Hand, store: Broker
) -> None:
    settings = Settings()
    assert (settings.unknown_type_snooze_s, settings.unknown_type_limit_s) == (30, 3600)
    await store.enqueue([new(type="test:of_tomorrow")])
    delivery = await hand.take_one()
    job = decode(delivery.record, delivery.queue)
    hour, now = 3_600_000, delivery.claimed_at
    later = unknown(delivery, job, snooze_ms=30_000, limit_ms=hour, now=now)
    assert (later.state, later.delay_ms) == (JobState.SCHEDULED, 30_000)
    assert later.job is not None
    assert later.job.unknown_since == now
    still = unknown(delivery, later.job, snooze_ms=30_000, limit_ms=hour, now=now + hour - 1)
    over = unknown(delivery, later.job, snooze_ms=30_000, limit_ms=hour, now=now + hour)
    assert (still.state, over.state) == (JobState.SCHEDULED, JobState.ARCHIVED)


class NeedsArgumentsError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__()


class CannotBeShownError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text for you")


def cyclic() -> Exception:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def nested() -> BaseException:
    group: BaseException = ValueError("core")
    for _ in range(150):
        group = BaseExceptionGroup("wrapped", [group])
    return group


RAISED = {
    "required arguments": NeedsArgumentsError(1, 2),
    "its text raises": CannotBeShownError(),
    "a lone surrogate": ValueError("\ud800"),
    "a NUL byte": ValueError("a\x00b"),
    "ten megabytes": ValueError("x" * 10_000_000),
    "a cycle of causes": cyclic(),
    "a deep group": nested(),
    "BaseException": BaseException("bare"),
    "StopIteration": StopIteration(1),
    "StopAsyncIteration": StopAsyncIteration(1),
    "GeneratorExit": GeneratorExit(),
    "SystemExit": SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "RecursionError": RecursionError("deep"),
    "MemoryError": MemoryError(),
    "CancelledError": asyncio.CancelledError(),
}


@pytest.mark.parametrize("run_as", ["async def", "def"])
@pytest.mark.parametrize("what", RAISED)
async def test_whatever_a_handler_raises_its_worker_lives_and_the_error_is_recorded(
    start: Start, what: str, run_as: str
) -> None:
    async def raising(job: Work, ctx: Context) -> None:
        if job.n == 1:
            raise RAISED[what]

    def raising_too(job: Work, ctx: Context) -> None:
        if job.n == 1:
            raise RAISED[what]

    pipeline = await start(on(Work, raising if run_as == "async def" else raising_too))
    bad = await pipeline.enqueue(Work(n=1), max_retry=0)
    with pytest.raises(JobArchived):
        await pipeline.wait(bad.id, timeout=10)
    record = await pipeline.inspector.job(bad.id)
    assert record.reason is ArchiveReason.EXHAUSTED
    assert 0 < len(record.job.last_error.encode()) <= MAX_ERROR_BYTES
    assert "\x00" not in record.job.last_error
    good = await pipeline.enqueue(Work(n=2))
    await pipeline.wait(good.id, timeout=10)


@pytest.mark.parametrize(
    "say", [Skip, Cancel, lambda text: Retry(reason=text)], ids=["Skip", "Cancel", "Retry"]
)
@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "x" * 1_000_000], ids=["surrogate", "NUL", "long"])
async def test_whatever_reason_a_handler_gives_its_job_ends(
    start: Start, say: Callable[[str], Outcome], text: str
) -> None:
    async def saying(job: Work, ctx: Context) -> None:
        raise say(text)

    pipeline = await start(on(Work, saying))
    receipt = await pipeline.enqueue(Work(), max_retry=0)

    async def ended() -> bool:
        return await state(pipeline.broker, receipt.id) in {JobState.ARCHIVED, JobState.CANCELLED}

    await wait_until(ended, describe="it has ended")
    record = await pipeline.inspector.job(receipt.id)
    assert len(record.job.last_error.encode()) <= MAX_ERROR_BYTES


async def test_an_envelope_of_poison_can_be_seen_by_people(store: Broker, hand: Hand) -> None:
    bad: Job = replace(new().job, trace=7)  # type: ignore[arg-type]
    await store.enqueue([replace(new(), job=bad)])
    page = await store.tasks("default", JobState.PENDING, cursor=None, limit=5)
    assert [record.job.id for record in page.records] == [bad.id]
