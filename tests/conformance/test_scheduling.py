"""What promise 13 means when there is much to do: weights under a deep backlog, full neighbours, borrowed slots."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from contracts.jobs import JobPayload
from pipeline.handlers import Context, Handler, on
from pipeline.runtime import Pipeline

from tests.conformance.conftest import Open, Start
from tests.support.hand import pending
from tests.support.serving import Served
from tests.support.waiting import stays_true, wait_until
from tests.support.work import Attachment, Finish, Page, Summary, Work

BACKLOG = 10_000
AT_ONCE = 1000
SOON_S = 3
"""For what should happen at once, on a machine that does other things besides."""


async def wait_in_line(producer: Pipeline, kind: type[JobPayload], count: int) -> None:
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        await producer.enqueue_many([kind.model_validate({"n": n}) for n in numbers])


@pytest.mark.parametrize("slots", [1, 8])
async def test_ten_thousand_waiting_jobs_leave_chat_attachments_three_of_four_starts(
    start: Start, open_pipeline: Open, slots: int
) -> None:
    served, producer, attachments = Served(), await open_pipeline(), 240
    await wait_in_line(producer, Work, BACKLOG)
    await wait_in_line(producer, Attachment, attachments)
    await start(*served.handlers(Work, Attachment), pool_core_concurrency=slots)
    await wait_until(
        lambda: served.order.count("chat_attachment") == attachments, describe="all are served", timeout=30
    )
    assert await pending(producer.broker) > BACKLOG / 2  # both had work all the time
    all_started = len(served.order) - served.order[::-1].index("chat_attachment")
    while_both_wait = served.order[:all_started]
    assert abs(while_both_wait.count("default") - attachments / 3) <= slots
    eighth = all_started // 8
    shares = [Counter(while_both_wait[n : n + eighth]) for n in range(0, eighth * 8, eighth)]
    assert all(abs(share["default"] - eighth / 4) <= slots for share in shares)  # and so all the way


async def test_a_chat_attachment_does_not_wait_behind_ten_thousand_jobs(
    start: Start, open_pipeline: Open
) -> None:
    served, producer, slots = Served(), await open_pipeline(), 8
    await wait_in_line(producer, Work, BACKLOG)
    await start(*served.handlers(Work, Attachment), pool_core_concurrency=slots)
    await wait_until(lambda: "default" in served.order, describe="the backlog is served")
    for number in range(1, 6):
        before = len(served.order)
        await producer.enqueue(Attachment(n=number))
        enqueued = len(served.order)
        await wait_until(lambda: "chat_attachment" in served.order[before:], describe="it starts")  # noqa: B023
        # Those that were claimed before it came, and those that were claimed with it.
        assert served.order.index("chat_attachment", before) <= enqueued + 2 * slots
    assert await pending(producer.broker) > 0


class Blocking:
    """Handlers that keep their thread, and how many are inside."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self._end = threading.Event()

    def handlers(self, *kinds: type[JobPayload]) -> list[Handler]:
        return [on(kind, self._serve) for kind in kinds]

    def _serve(self, _job: JobPayload, ctx: Context) -> None:
        self.inside[ctx.queue] += 1
        self._end.wait(60)

    def let_go(self) -> None:
        self._end.set()


ELSEWHERE: Mapping[str, type[JobPayload]] = {"default": Work, "summary": Summary, "postprocess": Finish}


@pytest.mark.parametrize("kind", [partial(Served, "wiki", *ELSEWHERE), Blocking], ids=["loop", "threads"])
async def test_a_wiki_pool_that_is_full_delays_no_start_of_another_pool(
    start: Start, open_pipeline: Open, kind: type[Served] | type[Blocking]
) -> None:
    """All in one process, whose slots are all that the pools have of their own."""
    served, producer = kind(), await open_pipeline()
    await wait_in_line(producer, Page, 500)
    pipeline = await start(
        *served.handlers(Page, *ELSEWHERE.values()),
        pools=["wiki", "core", "enrichment", "postprocess"],
        pool_wiki_concurrency=12,
        pool_core_concurrency=2,
        pool_enrichment_concurrency=2,
        pool_postprocess_concurrency=2,
    )
    try:
        await wait_until(lambda: served.inside["wiki"] == 12, describe="wiki is full")
        for payload in ELSEWHERE.values():
            await wait_in_line(pipeline, payload, 2)
        await wait_until(
            lambda: all(served.inside[queue] == 2 for queue in ELSEWHERE),
            describe="the others start at once",
            timeout=SOON_S,
        )
        assert served.inside["wiki"] == 12
    finally:
        served.let_go()


TOGETHER, APART = (("core", "enrichment", "shared"),), (("core",), ("enrichment",), ("shared",))


async def work_in(layout: Sequence[Sequence[str]], start: Start, served: Served, **slots: int) -> Pipeline:
    settings = {f"pool_{name}_concurrency": count for name, count in slots.items()}
    *_, last = [
        await start(*served.handlers(Work, Attachment, Summary), pools=pools, **settings) for pools in layout
    ]
    return last


@pytest.mark.parametrize("layout", [TOGETHER, APART], ids=["one process", "a process each"])
async def test_a_full_enrichment_borrows_the_shared_slots_and_not_the_idle_ones_of_core(
    start: Start, open_pipeline: Open, layout: Sequence[Sequence[str]]
) -> None:
    served, producer = Served("summary", "default"), await open_pipeline()
    await wait_in_line(producer, Summary, 30)
    await work_in(layout, start, served, core=2, enrichment=2, shared=3)
    await wait_until(lambda: served.inside["summary"] == 2 + 3, describe="its slots and the shared ones")
    await stays_true(lambda: served.inside["summary"] == 5, describe="no more than those", during=0.3)
    await wait_in_line(producer, Work, 3)
    await wait_until(lambda: served.inside["default"] == 2, describe="core's own were kept", timeout=SOON_S)
    await stays_true(
        lambda: served.inside == {"summary": 5, "default": 2}, describe="all are full", during=0.3
    )
    served.let_go()


@pytest.mark.parametrize("served_before", range(6))
async def test_lent_slots_serve_core_again_within_the_time_of_one_job(
    start: Start, open_pipeline: Open, served_before: int
) -> None:
    """Whichever queue the weights owe the next turn to."""
    served, producer = Served("summary", "default"), await open_pipeline()
    await wait_in_line(producer, Summary, 60)
    await work_in(TOGETHER, start, served, core=1, enrichment=1, shared=3)
    await wait_until(lambda: served.inside["summary"] == 4, describe="all is lent")
    for number in range(served_before):
        served.let("summary")
        await wait_until(lambda: served.order.count("summary") == 5 + number, describe="the next starts")  # noqa: B023
    await wait_in_line(producer, Work, 2)
    await wait_until(lambda: served.inside["default"] == 1, describe="core's own slot", timeout=SOON_S)
    served.let("summary", 4)
    await wait_until(
        lambda: served.inside == {"default": 2, "summary": 3}, describe="a lent slot", timeout=SOON_S
    )
    assert served.order.count("summary") == 4 + served_before + 3
    served.let_go()


async def test_enrichment_starts_its_own_at_once_when_core_has_borrowed_all(
    start: Start, open_pipeline: Open
) -> None:
    served, producer = Served("summary", "default"), await open_pipeline()
    await wait_in_line(producer, Work, 30)
    await work_in(TOGETHER, start, served, core=1, enrichment=2, shared=3)
    await wait_until(lambda: served.inside["default"] == 1 + 3, describe="core's slots and the shared ones")
    await wait_in_line(producer, Summary, 5)
    await wait_until(lambda: served.inside["summary"] == 2, describe="its own slots", timeout=SOON_S)
    await stays_true(
        lambda: served.inside == {"default": 4, "summary": 2}, describe="all are full", during=0.3
    )
    served.let_go()
