"""Producing: what may be asked for, what is refused, and how waiting ends."""

from collections.abc import Sequence
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
    PayloadTooLarge,
    StoreUnavailable,
    WaitTimeout,
)
from pipeline.receipt import Receipt
from pipeline.runtime import Pipeline
from pipeline.testing import Scripted

from tests.support.jobs import Work, handles, record, working
from tests.support.work import apart

with apart():

    class Sized(JobPayload, type="client:sized", queue="default", max_retry=7, timeout=30, retention=60):
        """Says everything of itself."""

        text: str = ""

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


@pytest.mark.parametrize(
    ("payload", "options", "message"),
    [
        (Work(), {"delay": 1, "run_at": 5}, "give either delay"),
        (Work(), {"delay": -1}, "0 or more seconds"),
        (Work(), {"queue": "wiki"}, "lives in pool 'core'; queue 'wiki' is elsewhere"),
        (Work(), {"queue": "defalt"}, "did you mean 'default'?"),
        (Work(), {"id": "has space"}, "job id must be 1 to 128 of"),
        (Work(), {"id": "x" * 129}, "job id must be 1 to 128 of"),
    ],
)
async def test_what_cannot_be_is_refused_and_the_message_says_why(
    pipeline: Pipeline, payload: JobPayload, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigurationError, ValueError), match=message):
        await pipeline.enqueue(payload, **options)


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
