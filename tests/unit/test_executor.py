"""One attempt, with real handlers, on a real queue."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import structlog
from contracts.identity import new_id
from contracts.jobs import Job
from contracts.outcomes import Cancel, Done, Retry, Skip, Snooze
from contracts.states import ArchiveReason, JobState
from pipeline.broker import Delivery, NewJob
from pipeline.clock import now_ms
from pipeline.handlers import Context
from pipeline.runtime import Pipeline
from pipeline.testing import Flaky, Scripted
from pipeline.worker.attempt import Attempt
from pipeline.worker.invoke import calmed

from tests.support.jobs import Work, for_ever, handles, record, turn, working
from tests.support.waiting import stays_true, wait_until


async def run_once(pipeline: Pipeline, run: Any, *, wanted: JobState, **options: Any) -> Any:
    """Enqueue one job, run it until it is in `wanted`, and return its record."""
    receipt = await pipeline.enqueue(Work(n=1), **({"retention": 60} | options))

    async def there() -> Any:
        found = await record(pipeline, receipt.id)
        return found if found.state is wanted else None

    async with working(pipeline, handles(run, retry=lambda _: 60)):
        return await wait_until(there, describe=f"the job is {wanted}")


ENDS: list[tuple[Any, JobState, str]] = [
    (Done(), JobState.COMPLETED, ""),
    (Retry(after=30, reason="busy"), JobState.RETRY, "busy"),
    (Snooze(30), JobState.SCHEDULED, ""),
    (Skip("pointless"), JobState.ARCHIVED, "pointless"),
]


@pytest.mark.parametrize(
    ("said", "state", "error", "raised"),
    [
        *((*end, True) for end in [*ENDS, (ValueError("no"), JobState.RETRY, "ValueError: no")]),
        *((*end, False) for end in [*ENDS, (None, JobState.COMPLETED, "")]),
    ],
)
async def test_an_outcome_may_be_raised_or_returned(
    pipeline: Pipeline, said: Any, state: JobState, error: str, raised: bool
) -> None:
    async def handler(_job: Work, _ctx: Context) -> Any:
        if raised:
            raise said
        return said

    found = await run_once(pipeline, handler, wanted=state)
    assert found.job.last_error == error


async def test_a_handler_that_cancels_its_job_ends_it(pipeline: Pipeline) -> None:
    found = await run_once(pipeline, Scripted(Cancel("not wanted")), wanted=JobState.CANCELLED)
    assert found.job.retried == 0


class AwkwardError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(one)

    def __str__(self) -> str:
        raise RuntimeError("no text")


def nested(depth: int) -> ExceptionGroup[Exception]:
    group: ExceptionGroup[Exception] = ExceptionGroup("deep", [ValueError()])
    for _ in range(depth):
        group = ExceptionGroup("deep", [group])
    return group


def cyclic() -> Exception:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


MONSTERS: list[BaseException] = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(),
    StopAsyncIteration(),
    asyncio.CancelledError(),
    RecursionError(),
    MemoryError(),
    AwkwardError(1, 2),
    ValueError("x" * 10_000_000),
    ValueError("\ud800\x00"),
    nested(200),
    cyclic(),
]


@pytest.mark.parametrize("place", ["loop", "thread"])
@pytest.mark.parametrize("monster", MONSTERS, ids=lambda m: type(m).__name__)
async def test_whatever_a_handler_raises_is_a_failure_and_the_worker_lives(
    pipeline: Pipeline, monster: BaseException, place: str
) -> None:
    async def in_loop(_job: Work, _ctx: Context) -> None:
        raise monster

    def in_thread(_job: Work, _ctx: Context) -> None:
        raise monster

    run = in_loop if place == "loop" else in_thread
    found = await run_once(pipeline, run, wanted=JobState.RETRY)
    assert found.job.retried == 1
    assert 0 < len(found.job.last_error.encode()) <= 8192


def own_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def cancels_itself(_job: Work, _ctx: Context) -> None:
    own_task().cancel()
    await for_ever()


async def cancels_itself_and_returns(_job: Work, _ctx: Context) -> None:
    own_task().cancel()


async def is_cancelled_by_its_timer(_job: Work, _ctx: Context) -> None:
    asyncio.get_running_loop().call_soon(own_task().cancel)
    await for_ever()


async def is_cancelled_with_what_it_waits_for(_job: Work, _ctx: Context) -> None:
    other = asyncio.ensure_future(for_ever())
    other.cancel()
    await other


@pytest.mark.parametrize(
    "handler",
    [
        cancels_itself,
        cancels_itself_and_returns,
        is_cancelled_by_its_timer,
        is_cancelled_with_what_it_waits_for,
    ],
)
async def test_a_handler_that_was_cancelled_though_nobody_told_it_to_stop_has_failed(
    pipeline: Pipeline, handler: Any
) -> None:
    found = await run_once(pipeline, handler, wanted=JobState.RETRY)
    assert found.job.last_error == "the handler was cancelled, by itself or with what it waited for"
    assert (found.job.retried, found.job.crashes) == (1, 0)


async def test_the_error_of_a_handler_that_cancelled_itself_as_well_is_the_failure(
    pipeline: Pipeline,
) -> None:
    async def handler(_job: Work, _ctx: Context) -> None:
        own_task().cancel()
        raise ValueError("no")

    found = await run_once(pipeline, handler, wanted=JobState.RETRY)
    assert found.job.last_error == "ValueError: no"


async def test_a_cancellation_that_a_handler_dealt_with_is_its_own_affair(pipeline: Pipeline) -> None:
    async def handler(_job: Work, _ctx: Context) -> None:
        own_task().cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await for_ever()

    await run_once(pipeline, handler, wanted=JobState.COMPLETED)


def test_a_loop_that_is_closed_around_a_handler_is_no_failure_of_it() -> None:
    async def attempt() -> object:
        held = Attempt(Delivery("default", "j", "1", "me", {}, 0), lambda _: None, 1)
        try:
            await for_ever()
        except asyncio.CancelledError as error:
            return await calmed(held, error)
        return None

    async def main() -> asyncio.Task[object]:
        task = asyncio.create_task(attempt())
        await turn()
        return task

    with asyncio.Runner() as runner:
        task = runner.run(main())
    assert task.cancelled()


def spoilt(outcome: Any, **fields: Any) -> Any:
    """An outcome that was changed after it was made."""
    vars(outcome).update(fields)
    return outcome


@pytest.mark.parametrize("raised", [True, False])
@pytest.mark.parametrize(
    ("said", "error"),
    [
        (spoilt(Snooze(1), delay=float("inf")), "Snooze that cannot be used: ValueError: the wait must be"),
        (spoilt(Snooze(1), delay=float("nan")), "Snooze that cannot be used: ValueError: the wait must be"),
        (spoilt(Retry(1), after="soon"), "Retry that cannot be used: TypeError: the wait must be"),
        (spoilt(Retry(), reason=7), "Retry that cannot be used: "),
        (Cancel(None), "Cancel that cannot be used: "),  # type: ignore[arg-type]
        (Skip(ValueError("no")), "Skip that cannot be used: "),  # type: ignore[arg-type]
    ],
    ids=range(6),
)
async def test_an_outcome_that_cannot_be_used_is_a_failure_that_says_so(
    pipeline: Pipeline, said: Any, error: str, raised: bool
) -> None:
    async def handler(_job: Work, _ctx: Context) -> Any:
        if raised:
            raise said
        return said

    found = await run_once(pipeline, handler, wanted=JobState.RETRY)
    assert found.job.last_error.startswith(f"the handler gave a {error}")
    assert found.job.retried == 1


@pytest.mark.parametrize("wait", [float("inf"), float("nan"), -1, 1e300, None, "soon", ValueError("broken")])
async def test_a_retry_policy_that_gives_no_wait_is_replaced_by_the_usual_one(
    pipeline: Pipeline, wait: Any
) -> None:
    def policy(_failures: int) -> Any:
        if isinstance(wait, Exception):
            raise wait
        return wait

    receipt = await pipeline.enqueue(Work())

    async def failed() -> Any:
        found = await record(pipeline, receipt.id)
        return found if found.state is JobState.RETRY else None

    async with working(pipeline, handles(Flaky(9, ValueError("no")), retry=policy)):
        found = await wait_until(failed, describe="the attempt has failed")
    assert found.job.last_error == "ValueError: no"
    assert found.due_at - found.job.last_failed_at == pytest.approx(5000, abs=500)


@pytest.mark.parametrize(
    ("way", "error"),
    [
        ("raise", "ValueError: no"),
        ("hang", "timed out after 0.05 s"),
        ("overrun", "timed out after 0.05 s"),
        ("return", "TypeError: the handler returned int; return nothing or an outcome"),
    ],
)
async def test_each_failed_attempt_is_told_to_the_log(pipeline: Pipeline, way: str, error: str) -> None:
    async def handler(_job: Work, ctx: Context) -> Any:
        match way:
            case "raise":
                raise ValueError("no")
            case "hang":
                await for_ever()
            case "overrun":
                with contextlib.suppress(asyncio.CancelledError):
                    await for_ever()
        return 42 if way == "return" else None

    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        found = await run_once(pipeline, handler, wanted=JobState.RETRY, timeout=0.05)
    (line,) = [line for line in lines if line["event"] == "attempt failed"]
    assert (line["log_level"], line["error"], line["retried"]) == ("warning", error, 0)
    assert (line["job"], line["type"]) == (found.job.id, "support:work")
    assert found.job.last_error == error


@pytest.mark.parametrize("said", [None, Snooze(30), Skip("pointless"), Retry(after=30), Cancel("no")])
async def test_what_a_handler_means_is_no_failure_to_the_log(
    pipeline: Pipeline, said: BaseException | None
) -> None:
    states = [JobState.COMPLETED, JobState.SCHEDULED, JobState.ARCHIVED, JobState.RETRY, JobState.CANCELLED]
    wanted = dict(zip([type(None), Snooze, Skip, Retry, Cancel], states, strict=True))[type(said)]
    with structlog.testing.capture_logs() as lines:
        await run_once(pipeline, Scripted(said), wanted=wanted)
    assert [line for line in lines if line["event"] == "attempt failed"] == []


async def test_the_last_failure_archives_with_its_error(pipeline: Pipeline) -> None:
    found = await run_once(pipeline, Flaky(9, ValueError("no")), wanted=JobState.ARCHIVED, max_retry=0)
    assert (found.reason, found.job.last_error) == (ArchiveReason.EXHAUSTED, "ValueError: no")


async def test_attempts_are_counted_for_the_handler(pipeline: Pipeline) -> None:
    seen: list[tuple[int, bool]] = []

    async def handler(_job: Work, ctx: Context) -> None:
        seen.append((ctx.retried, ctx.final))
        raise ValueError

    receipt = await pipeline.enqueue(Work(), max_retry=2)
    async with working(pipeline, handles(handler)):
        await wait_until(lambda: len(seen) == 3, describe="three attempts")
    assert seen == [(0, False), (1, False), (2, True)]
    assert (await record(pipeline, receipt.id)).job.retried == 2


async def test_an_attempt_over_its_limit_is_cancelled_and_has_failed(pipeline: Pipeline) -> None:
    cancelled = asyncio.Event()

    async def handler(_job: Work, _ctx: Context) -> None:
        try:
            await for_ever()
        finally:
            cancelled.set()

    found = await run_once(pipeline, handler, wanted=JobState.RETRY, timeout=0.05)
    assert found.job.last_error == "timed out after 0.05 s"
    assert cancelled.is_set()


async def test_a_deadline_limits_the_attempt_and_then_there_is_no_next_one(pipeline: Pipeline) -> None:
    deadline = now_ms() + 300
    found = await run_once(pipeline, Scripted(), wanted=JobState.COMPLETED, deadline=deadline)

    async def handler(_job: Work, _ctx: Context) -> None:
        await for_ever()

    found = await run_once(pipeline, handler, wanted=JobState.ARCHIVED, deadline=deadline, timeout=60)
    assert found.reason is ArchiveReason.EXPIRED


async def test_a_thread_is_told_to_stop_and_its_slot_is_taken_until_it_does(pipeline: Pipeline) -> None:
    go_on, told = threading.Event(), threading.Event()

    def handler(_job: Work, ctx: Context) -> None:
        while not ctx.cancelled:
            go_on.wait(0.005)
        told.set()
        go_on.wait(5)

    receipt = await pipeline.enqueue(Work(), timeout=0.05)
    async with working(pipeline, handles(handler, retry=lambda _: 60)) as crew:
        await wait_until(told.is_set, describe="the thread was told")
        assert (await record(pipeline, receipt.id)).state is JobState.ACTIVE
        assert crew.beat().pools[0].active == 1
        go_on.set()
        await wait_until(lambda: crew.beat().pools[0].active == 0, describe="the slot is free")
    assert (await record(pipeline, receipt.id)).job.last_error == "timed out after 0.05 s"


async def test_threads_see_the_job_in_their_context_and_do_not_wait_for_each_other(
    pipeline: Pipeline,
) -> None:
    slots, met = pipeline.settings.slots("core"), []
    together = threading.Barrier(slots, timeout=5)

    def handler(_job: Work, ctx: Context) -> None:
        together.wait()
        met.append(structlog.contextvars.get_contextvars()["job"] == ctx.id)

    for _ in range(slots):
        await pipeline.enqueue(Work())
    async with working(pipeline, handles(handler)):
        await wait_until(lambda: len(met) == slots, describe="all met")
    assert all(met)


def too_long(job: Work) -> None:
    threading.Event().wait(60 if job.n else 0)


def child_fails(job: Work) -> None:
    raise ValueError(f"no {job.n}")


async def test_a_child_process_is_killed_at_its_limit(pipeline: Pipeline) -> None:
    receipt = await pipeline.enqueue(Work(n=1), timeout=1.5)
    async with working(pipeline, handles(too_long, offload="process", retry=lambda _: 60)):

        async def failed() -> bool:
            return (await record(pipeline, receipt.id)).state is JobState.RETRY

        await wait_until(failed, describe="the attempt has failed", timeout=20)
    assert (await record(pipeline, receipt.id)).job.last_error == "timed out after 1.5 s"


async def test_what_a_child_process_raises_is_the_failure(pipeline: Pipeline) -> None:
    receipt = await pipeline.enqueue(Work(n=7))
    async with working(pipeline, handles(child_fails, offload="process", retry=lambda _: 60)):

        async def failed() -> bool:
            return (await record(pipeline, receipt.id)).state is JobState.RETRY

        await wait_until(failed, describe="the attempt has failed", timeout=20)
    assert (await record(pipeline, receipt.id)).job.last_error.startswith("ValueError: no 7")


def child_snoozes(job: Work) -> Snooze:
    if job.n:
        raise Snooze(30)
    return Snooze(30)


@pytest.mark.parametrize("n", [0, 1])
async def test_an_outcome_comes_back_from_a_child_process(pipeline: Pipeline, n: int) -> None:
    receipt = await pipeline.enqueue(Work(n=n))

    async def put_off() -> bool:
        return (await record(pipeline, receipt.id)).state is JobState.SCHEDULED

    async with working(pipeline, handles(child_snoozes, offload="process")):
        await wait_until(put_off, describe="the job is put off", timeout=20)


def raw(**fields: Any) -> NewJob:
    """An envelope as another program may write it."""
    return NewJob(
        Job(**({"id": new_id(), "type": "support:work", "queue": "default", "data": "{}"} | fields))
    )


@pytest.mark.parametrize(
    "data", ["", "not JSON", "[]", '{"n": "x"}', '{"unknown": 1}', '{"n": ' + "[" * 5000 + "]" * 5000 + "}"]
)
async def test_a_payload_that_cannot_be_read_is_poison(pipeline: Pipeline, data: str) -> None:
    (receipt,) = await pipeline.broker.enqueue([raw(data=data)])
    handler = Scripted()

    async def archived() -> bool:
        return (await record(pipeline, receipt.id)).state is JobState.ARCHIVED

    async with working(pipeline, handles(handler)):
        await wait_until(archived, describe="the job is archived")
    assert (await record(pipeline, receipt.id)).reason is ArchiveReason.POISON
    assert handler.calls == []


@pytest.mark.parametrize("fields", [{"type": "from:tomorrow"}, {"payload_version": 2}])
async def test_what_a_newer_worker_may_know_waits(pipeline: Pipeline, fields: dict[str, Any]) -> None:
    (receipt,) = await pipeline.broker.enqueue([raw(**fields)])

    async def put_off() -> bool:
        return (await record(pipeline, receipt.id)).state is JobState.SCHEDULED

    async with working(pipeline, handles(Scripted())):
        await wait_until(put_off, describe="the job waits")
    found = await record(pipeline, receipt.id)
    assert found.job.unknown_since > 0
    assert found.due_at - found.job.unknown_since == pytest.approx(30_000, abs=500)


async def test_children_inherit_where_they_come_from(pipeline: Pipeline) -> None:
    children: list[str] = []

    async def handler(job: Work, ctx: Context) -> None:
        if job.n > 0:
            children.append((await ctx.pipeline.enqueue(Work(n=job.n - 1), retention=60)).id)

    root = await pipeline.enqueue(Work(n=2), retention=60)
    async with working(pipeline, handles(handler)):
        await wait_until(lambda: len(children) == 2, describe="a child and its child")
        await pipeline.wait(children[1], timeout=5)
    top, child, grandchild = [(await record(pipeline, i)).job for i in (root.id, *children)]
    assert (child.parent_id, grandchild.parent_id) == (top.id, child.id)
    assert {child.root_id, grandchild.root_id} == {top.id}
    assert {child.root_at, grandchild.root_at} == {top.root_at}


async def test_a_cancelled_job_stops_its_handler_and_ends_cancelled(pipeline: Pipeline) -> None:
    started = asyncio.Event()

    async def handler(_job: Work, _ctx: Context) -> None:
        started.set()
        await for_ever()

    receipt = await pipeline.enqueue(Work())
    async with working(pipeline, handles(handler)) as crew:
        await started.wait()
        assert str(await pipeline.inspector.cancel(receipt.id)) == "signalled"
        await wait_until(lambda: crew.left == 0, describe="the handler has stopped", timeout=5)
    assert (await record(pipeline, receipt.id)).state is JobState.CANCELLED


@pytest.mark.parametrize("crashes", [2, 3])
async def test_jobs_that_saw_two_workers_die_run_one_at_a_time(pipeline: Pipeline, crashes: int) -> None:
    inside = most = 0

    async def handler(_job: Work, _ctx: Context) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await for_ever()
        inside -= 1

    suspects = [raw(crashes=crashes) for _ in range(3)]
    await pipeline.broker.enqueue(suspects)

    async def ended() -> bool:
        states = await pipeline.broker.states([one.job.id for one in suspects])
        return all(state in {None, JobState.COMPLETED} for state in states)

    async with working(pipeline, handles(handler)):
        await wait_until(ended, describe="all have run", timeout=15)
    assert most == 1


async def test_progress_can_be_seen_while_the_job_runs(pipeline: Pipeline) -> None:
    reported, go_on = asyncio.Event(), asyncio.Event()

    async def handler(_job: Work, ctx: Context) -> None:
        await ctx.progress(1, 3, "reading")
        await ctx.progress(2, 3, "reading")
        await ctx.progress(2, 3, "writing")
        reported.set()
        await go_on.wait()

    receipt = await pipeline.enqueue(Work())
    async with working(pipeline, handles(handler)):
        await reported.wait()
        progress = (await record(pipeline, receipt.id)).progress
        go_on.set()
    assert progress is not None
    assert (progress.done, progress.total, progress.stage) == (2, 3, "writing")


async def test_a_lock_is_held_by_one_job_at_a_time_and_kept_longer_than_its_ttl(pipeline: Pipeline) -> None:
    numbers: list[int] = []
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def handler(_job: Work, ctx: Context) -> None:
        async with ctx.lock("page", ttl=0.3) as number:
            numbers.append(number)
            inside.set()
            await go_on.wait()

    first = await pipeline.enqueue(Work(), retention=60)
    async with working(pipeline, handles(handler)):
        await inside.wait()
        second = await pipeline.enqueue(Work())

        async def refused() -> bool:
            return (await record(pipeline, second.id)).state is JobState.RETRY

        await wait_until(refused, describe="the second finds it taken")
        await stays_true(lambda: len(numbers) == 1, describe="one holds it", during=0.6)
        assert (await record(pipeline, second.id)).job.last_error == "lock 'page' is taken"
        go_on.set()
        await pipeline.wait(first.id, timeout=5)
        await pipeline.inspector.run_now(second.id)
        await wait_until(lambda: len(numbers) == 2, describe="the second holds it")
    assert numbers[0] < numbers[1]


@pytest.mark.parametrize("answers", [[None], itertools.repeat(ValueError("a mistake of ours"))])
async def test_a_lock_that_is_lost_stops_its_handler(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, answers: Iterable[Exception | None]
) -> None:
    said = iter(answers)

    async def handler(_job: Work, ctx: Context) -> None:
        async with ctx.lock("page", ttl=0.3):
            real: Callable[..., Any] = pipeline.broker.lock

            async def taken(*_: Any) -> None:
                if (answer := next(said)) is not None:
                    raise answer

            monkeypatch.setattr(pipeline.broker, "lock", taken)
            try:
                await for_ever()
            finally:
                monkeypatch.setattr(pipeline.broker, "lock", real)

    found = await run_once(pipeline, handler, wanted=JobState.RETRY)
    assert found.job.last_error == "lost lock 'page': it was not renewed within 0.3 s"
