"""Producing: what may be asked for, what is refused, and how waiting ends."""

from collections.abc import Sequence
from functools import partial
from math import inf, nan
from typing import Any

import pytest
from contracts.jobs import JobPayload, Unique
from contracts.outcomes import Cancel, Skip
from contracts.states import JobState
from pipeline.broker import NewJob
from pipeline.client import Enqueue, Origin, Producer
from pipeline.clock import now_ms
from pipeline.errors import (
    ConfigurationError,
    EnqueueFailed,
    JobArchived,
    JobCancelled,
    PartialEnqueue,
    PayloadInvalid,
    PayloadTooLarge,
    StoreUnavailable,
    WaitTimeout,
)
from pipeline.receipt import Receipt
from pipeline.runtime import Pipeline
from pipeline.testing import Scripted

from tests.support.jobs import Work, handles, record, working
from tests.support.waiting import wait_until
from tests.support.work import apart

with apart():

    class Sized(JobPayload, type="client:sized", queue="default", max_retry=7, timeout=30, retention=60):
        """Says everything of itself."""

        text: str = ""

    class Free(JobPayload, type="client:free", queue="default"):
        """Takes anything."""

        data: dict[str, Any] | None = None
        number: float = 0
        knowledge_id: str = ""

    class Page(JobPayload, type="client:page", queue="wiki"):
        """Lives in another pool."""


async def test_the_class_says_what_the_call_does_not(pipeline: Pipeline) -> None:
    plain = (await record(pipeline, (await pipeline.enqueue(Sized())).id)).job
    assert (plain.max_retry, plain.timeout_ms, plain.retention_ms) == (7, 30_000, 60_000)
    told = (
        await record(pipeline, (await pipeline.enqueue(Sized(), max_retry=0, timeout=1, retention=2)).id)
    ).job
    assert (told.max_retry, told.timeout_ms, told.retention_ms) == (0, 1000, 2000)


async def test_a_type_without_a_limit_gets_the_one_of_the_settings() -> None:
    async with Pipeline.open(default_timeout_s=90) as pipeline:
        receipt = await pipeline.enqueue(Work())
        assert (await record(pipeline, receipt.id)).job.timeout_ms == 90_000


@pytest.mark.parametrize("option", ["delay", "run_at"])
async def test_a_job_may_be_due_later(pipeline: Pipeline, option: str) -> None:
    in_a_minute: dict[str, Any] = {"delay": 60, "run_at": now_ms() + 60_000}
    receipt = await pipeline.enqueue(Work(), **{option: in_a_minute[option]})
    assert receipt.state is JobState.SCHEDULED
    assert (await record(pipeline, receipt.id)).due_at == pytest.approx(now_ms() + 60_000, abs=30_000)


async def test_a_given_id_names_one_job(pipeline: Pipeline) -> None:
    first = await pipeline.enqueue(Work(), id="order-7")
    again = await pipeline.enqueue(Work(n=1), id="order-7")
    assert (first.id, first.duplicate) == ("order-7", False)
    assert (again.id, again.duplicate, again.state) == ("order-7", True, JobState.PENDING)


async def test_a_unique_key_gives_the_receipt_of_the_older_job(pipeline: Pipeline) -> None:
    first = await pipeline.enqueue(Work(), unique=Unique("k"))
    again = await pipeline.enqueue(Work(), unique=Unique("k"))
    assert (again.id, again.duplicate) == (first.id, True)


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"delay": 1, "run_at": 5}, "give either delay or run_at, not both"),
    ({"delay": -1}, "delay must be at least 0 seconds"),
    ({"delay": inf}, "delay must be at least 0 seconds and at most 100 years, got inf"),
    ({"delay": nan}, "delay must be at least 0 seconds and at most 100 years, got nan"),
    ({"delay": "5"}, "delay must be a number of seconds, got '5'"),
    ({"run_at": "tomorrow"}, "run_at must be whole milliseconds since the epoch, got 'tomorrow'"),
    ({"run_at": -5}, "run_at must be milliseconds since the epoch"),
    ({"run_at": 10**18}, "run_at must be milliseconds since the epoch"),
    ({"deadline": "noon"}, "deadline must be whole milliseconds since the epoch, got 'noon'"),
    ({"deadline": 1.5}, "deadline must be whole milliseconds since the epoch, got 1.5"),
    ({"timeout": 0}, "timeout must be at least 0.001 seconds"),
    ({"timeout": -1}, "timeout must be at least 0.001 seconds"),
    ({"timeout": inf}, "timeout must be at least 0.001 seconds"),
    ({"retention": -1}, "retention must be at least 0 seconds"),
    ({"retention": nan}, "retention must be at least 0 seconds"),
    ({"max_retry": -1}, "max_retry must be 0 or more, got -1"),
    ({"max_retry": 1.5}, "max_retry must be a whole number, got 1.5"),
    ({"max_retry": "3"}, "max_retry must be a whole number, got '3'"),
    ({"queue": "wiki"}, "lives in pool 'core'; queue 'wiki' is elsewhere"),
    ({"queue": "defalt"}, "queue must be one of default, .* got 'defalt'; did you mean 'default'?"),
    ({"queue": ""}, "queue must be one of default"),
    ({"queue": ["default"]}, "queue must be one of default"),
    ({"id": ""}, "id must be 1 to 128 of .*, got ''"),
    ({"id": "has space"}, "id must be 1 to 128 of"),
    ({"id": "x" * 129}, "id must be 1 to 128 of"),
    ({"id": 7}, "id must be 1 to 128 of .*, got 7"),
    ({"unique": "k"}, "unique must be of type Unique, got 'k'"),
    ({"origin": "parent"}, "origin must be of type Origin, got 'parent'"),
]


@pytest.mark.parametrize(("options", "message"), SENSELESS, ids=lambda value: f"{value}"[:40])
async def test_an_option_that_makes_no_sense_is_refused_before_anything_is_sent(
    pipeline: Pipeline, options: dict[str, Any], message: str
) -> None:
    if "origin" not in options:
        with pytest.raises(ConfigurationError, match=f"support:work: .*{message}"):
            await pipeline.enqueue(Work(), **options)
    with pytest.raises(ConfigurationError, match=f"support:work: .*{message}"):
        await pipeline.enqueue_many([Work(), Enqueue(Work(), **options)])
    assert sum(stat.size for stat in await pipeline.inspector.queues()) == 0


class Untyped(JobPayload):
    """A common part, and no job type."""


@pytest.mark.parametrize("payload", ["text", None, Untyped(), Work])
async def test_what_is_no_payload_is_refused(pipeline: Pipeline, payload: Any) -> None:
    with pytest.raises(ConfigurationError, match="is no job payload: give an instance of a JobPayload class"):
        await pipeline.enqueue(payload)
    with pytest.raises(ConfigurationError, match="is no job payload: give an instance of a JobPayload class"):
        await pipeline.enqueue_many([Work(), payload])
    assert sum(stat.size for stat in await pipeline.inspector.queues()) == 0


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (Free(data={"text": "\ud800"}), "client:free: .*surrogates not allowed"),
        (Free(data={"deep": [{"x": inf}]}), "client:free: .*it has no infinite number"),
        (Free(data={"x": nan}), "client:free: .*it has no infinite number"),
        (Free(number=-inf), "client:free: .*it has no infinite number"),
        (Free(data={"x": object()}), "client:free: .*unknown type"),
        (Free(knowledge_id="has space"), "client:free: knowledge scope id must be"),
    ],
    ids=range(6),
)
async def test_a_payload_that_cannot_be_written_is_refused_before_anything_is_sent(
    pipeline: Pipeline, payload: JobPayload, message: str
) -> None:
    with pytest.raises(PayloadInvalid, match=message):
        await pipeline.enqueue(payload)
    with pytest.raises(PayloadInvalid, match=message):
        await pipeline.enqueue_many([Work(), payload])
    assert sum(stat.size for stat in await pipeline.inspector.queues()) == 0


async def test_words_that_look_like_numbers_without_end_are_words(pipeline: Pipeline) -> None:
    words = Free(data={"NaN": "Infinity", "text": "\U0001f388 -Infinity NaN"}, number=1e308)
    receipt = await pipeline.enqueue(words)
    assert Free.decode((await record(pipeline, receipt.id)).job.data) == words


async def test_a_job_may_go_to_a_sister_queue(pipeline: Pipeline) -> None:
    receipt = await pipeline.enqueue(Work(), queue="chat_attachment")
    assert (await record(pipeline, receipt.id)).job.queue == "chat_attachment"


async def test_a_payload_over_the_limit_is_refused_by_its_bytes() -> None:
    async with Pipeline.open(max_payload_kb=1) as pipeline:
        await pipeline.enqueue(Sized(text="x" * 900))
        for text in ("x" * 1024, "ё" * 600):
            with pytest.raises(PayloadTooLarge, match="put the data in the file store"):
                await pipeline.enqueue(Sized(text=text))


async def test_children_inherit_root_parent_and_trace(pipeline: Pipeline) -> None:
    origin = Origin(parent_id="p", root_id="r", root_at=5, trace="t")
    child = Producer(pipeline.broker, pipeline.settings, origin)
    job = (await record(pipeline, (await child.enqueue(Work())).id)).job
    assert (job.parent_id, job.root_id, job.root_at, job.trace) == ("p", "r", 5, "t")


class Away:
    """A broker that loses every enqueue into one pool."""

    def __init__(self, pipeline: Pipeline, queue: str) -> None:
        self._broker, self._queue = pipeline.broker, queue

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        if any(one.job.queue == self._queue for one in jobs):
            raise StoreUnavailable("away")
        return await self._broker.enqueue(jobs)


async def test_an_enqueue_that_failed_names_the_id_to_repeat(pipeline: Pipeline) -> None:
    lost = Producer(Away(pipeline, "default"), pipeline.settings)  # type: ignore[arg-type]
    with pytest.raises(EnqueueFailed, match="repeat with id='order-7'") as caught:
        await lost.enqueue(Work(), id="order-7")
    assert caught.value.job_id == "order-7"


async def test_of_many_jobs_each_has_its_receipt_or_its_id_to_repeat(pipeline: Pipeline) -> None:
    lossy = Producer(Away(pipeline, "wiki"), pipeline.settings)  # type: ignore[arg-type]
    items: list[JobPayload | Enqueue] = [
        Work(n=1),
        Enqueue(Page(), id="page-1"),
        Enqueue(Work(n=2), delay=60),
    ]
    with pytest.raises(PartialEnqueue, match="1 of 3 jobs were not enqueued") as caught:
        await lossy.enqueue_many(items)
    first, lost, third = caught.value.receipts
    assert first is not None
    assert third is not None
    assert (first.state, lost, third.state) == (JobState.PENDING, None, JobState.SCHEDULED)
    assert caught.value.job_ids[1] == "page-1"


async def test_many_jobs_get_their_receipts_in_order(pipeline: Pipeline) -> None:
    receipts = await pipeline.enqueue_many([Enqueue(Work(n=n), id=f"job-{n}") for n in range(20)])
    assert [receipt.id for receipt in receipts] == [f"job-{n}" for n in range(20)]
    assert await pipeline.enqueue_many([]) == []


@pytest.mark.parametrize(
    ("said", "error"), [(Skip("pointless"), JobArchived), (Cancel("not wanted"), JobCancelled)]
)
async def test_waiting_for_a_job_that_ends_badly_says_so(
    pipeline: Pipeline, said: BaseException, error: type[Exception]
) -> None:
    receipt = await pipeline.enqueue(Work())
    async with working(pipeline, handles(Scripted(said))):
        with pytest.raises(error, match=receipt.id):
            await pipeline.wait(receipt.id, timeout=5)


async def test_waiting_ends_with_the_job_whether_or_not_it_is_kept(pipeline: Pipeline) -> None:
    receipts = [await pipeline.enqueue(Work(), retention=retention) for retention in (0, 60)]
    async with working(pipeline, handles(Scripted())):
        for receipt in receipts:
            await pipeline.wait(receipt.id, timeout=5)


async def test_waiting_has_a_limit_and_the_job_goes_on(pipeline: Pipeline) -> None:
    receipt = await pipeline.enqueue(Work())
    with pytest.raises(WaitTimeout, match="it goes on"):
        await pipeline.wait(receipt.id, timeout=0.05)
    assert (await record(pipeline, receipt.id)).state is JobState.PENDING


async def test_who_waits_in_vain_is_told_how_far_the_job_is_and_whether_anybody_works_on_it(
    pipeline: Pipeline,
) -> None:
    receipt = await pipeline.enqueue(Work())
    with pytest.raises(WaitTimeout, match=r"pending, attempt 1 of 4; no worker of pool core lives$"):
        await pipeline.wait(receipt.id, timeout=0.05)
    async with working(pipeline, handles(Scripted(ValueError("no")), retry=lambda _: 60)):
        await wait_until(pipeline.inspector.workers, describe="the worker is known")
        await wait_until(partial(failed, pipeline, receipt.id), describe="it has failed once")
        with pytest.raises(WaitTimeout, match=r"retry, attempt 2 of 4, last error: ValueError: no$"):
            await pipeline.wait(receipt.id, timeout=0.05)


async def failed(pipeline: Pipeline, job_id: str) -> bool:
    return (await record(pipeline, job_id)).state is JobState.RETRY
