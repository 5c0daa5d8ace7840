"""What the pages decide to show."""

from dataclasses import replace
from typing import Any

from contracts.jobs import Job
from contracts.states import ArchiveReason, JobState
from contracts.topology import POOLS, QUEUES, weights
from hypothesis import given
from hypothesis import strategies as st
from pipeline.actions import Action
from pipeline.http.dashboard import charts, document_view, job_view, views
from pipeline.http.dashboard.filters import Filters
from pipeline.http.documents import DocumentRow, Part, Story
from pipeline.records import Happened, Happening, HourStat, JobRecord, PoolStat, QueueStat

NOW = 1_800_000_000_000
HOUR = 3_600_000


def stats(**queues: QueueStat) -> list[QueueStat]:
    return [queues.get(q.name, QueueStat(q.name, q.pool, q.weight)) for q in QUEUES.values()]


def queue(name: str, **values: Any) -> QueueStat:
    return replace(QueueStat(name, QUEUES[name].pool, QUEUES[name].weight), **values)


def pools(*living: str, active: int = 0) -> list[PoolStat]:
    return [
        PoolStat(p.name, p.slots, len(weights(p.name)), 1, p.slots, active, active / p.slots)
        if p.name in living
        else PoolStat(p.name, p.slots, len(weights(p.name)))
        for p in POOLS.values()
    ]


def codes(found: tuple[views.Notice, ...]) -> list[str]:
    return [notice.code for notice in found]


def test_nothing_needs_anybody_in_an_empty_system() -> None:
    view = views.overview(stats(), pools(), [], NOW)
    assert view.notices == ()
    assert view.chart.empty
    assert not view.used


def test_what_waits_where_no_worker_reads_comes_first() -> None:
    found = views.notices(
        stats(wiki=queue("wiki", pending=3), agent=queue("agent", archived=2)), pools("agents")
    )
    assert codes(found) == ["no_worker", "dead"]
    assert found[0].about == {"pool": "wiki", "n": 3, "lane": "background"}


def test_a_queue_that_the_shared_pool_reads_is_not_deserted() -> None:
    waiting = stats(default=queue("default", pending=3))
    assert codes(views.notices(waiting, pools())) == ["no_worker"]
    assert codes(views.notices(waiting, pools("shared"))) == []


def test_what_no_worker_of_ours_handles_is_not_promised_to_one() -> None:
    waiting = stats(email=queue("email", pending=3), notify=queue("notify", pending=1))
    found = views.notices(waiting, pools(), {"email": ("boom:go",)})
    assert [(one.code, one.about["n"]) for one in found] == [("no_worker", 1), ("no_handler", 3)]
    assert found[1].about["types"] == "boom:go"


def test_a_pause_is_named_once_and_not_as_age_too() -> None:
    old = queue("agent", pending=1, latency_ms=views.OLD_MS, paused=True)
    assert codes(views.notices(stats(agent=old), pools("agents"))) == ["paused"]
    assert codes(views.notices(stats(agent=replace(old, paused=False)), pools("agents"))) == ["old"]


def test_the_chart_has_every_hour_adds_the_queues_up_and_counts_a_failure_once() -> None:
    hour = NOW // HOUR * HOUR
    said = [
        HourStat("agent", hour, 5, 1),
        HourStat("wiki", hour, 2, 0),
        HourStat("wiki", hour - 30 * HOUR, 9),
    ]
    today = stats(agent=queue("agent", processed=72, failed=72), wiki=queue("wiki", processed=2))
    view = views.overview(today, pools(), said, NOW)
    assert len(view.chart.columns) == views.HOURS
    assert view.chart.columns[-1].hour == charts.Hour(hour, 6, 1)
    assert view.figures["last_hour"] == 7
    assert [view.figures[name] for name in ("processed", "done", "failed")] == [74, 2, 72]


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)), min_size=1, max_size=48))
def test_no_column_leaves_its_chart_and_nothing_that_happened_is_invisible(
    pairs: list[tuple[int, int]],
) -> None:
    chart = charts.columns([charts.Hour(i, *pair) for i, pair in enumerate(pairs)], 960, 120)
    for column in chart.columns:
        assert 0 <= column.failed_y <= column.done_y <= 120
        assert bool(column.failed_height) == bool(column.hour.failed)
        assert column.x + column.width <= 960 + 1


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_bar_stays_on_its_line(start: int, length: int, whole: int) -> None:
    bar = charts.bar(start, start + length, 0, whole)
    assert 0 <= bar.x <= 1000
    assert bar.width > 0
    assert bar.x + bar.width <= 1000.01


def record(state: JobState, **values: Any) -> JobRecord:
    job = Job(id="j", type="agent:run", queue="agent", data="{}", max_retry=2, enqueued_at=NOW - 9000)
    return replace(JobRecord(job, state), **values)


def test_the_latest_event_comes_first_and_what_is_to_come_before_it() -> None:
    history = (Happening(NOW - 5000, Happened.FAILED, "boom", "w"),)
    found = job_view.events(record(JobState.RETRY, due_at=NOW + 60_000, history=history), NOW)
    assert [(e.code, e.level) for e in found] == [("due", "coming"), ("failed", "bad"), ("enqueued", "")]


def test_used_attempts_count_the_one_that_runs_and_the_last_one() -> None:
    assert job_view.attempts(record(JobState.PENDING)) == 0
    assert job_view.attempts(record(JobState.ACTIVE)) == 1
    dead = record(JobState.ARCHIVED, reason=ArchiveReason.EXHAUSTED)
    assert job_view.attempts(replace(dead, job=replace(dead.job, retried=2))) == 3
    assert job_view.attempts(record(JobState.ARCHIVED, reason=ArchiveReason.EXPIRED)) == 0


def test_only_jobs_of_documents_are_cancelled_by_themselves() -> None:
    assert views.verbs(JobState.PENDING, ["document:process"]) == (Action.CANCEL,)
    assert views.verbs(JobState.ACTIVE, ["document:process"]) == (Action.CANCEL,)
    assert views.verbs(JobState.PENDING, ["wiki:ingest"]) == ()
    assert views.verbs(JobState.PENDING, ["wiki:ingest", "image:resize"]) == (Action.CANCEL,)
    assert views.verbs(JobState.ARCHIVED, ["wiki:ingest"]) == (Action.RUN_NOW, Action.DELETE)


def test_a_queue_is_narrowed_to_the_types_known_here_those_there_are_and_the_one_chosen() -> None:
    there = JobRecord(Job(id="1", type="image:resize", queue="wiki", data="{}"), JobState.PENDING)
    found = views.types("wiki", [there], "old:type")
    assert found == sorted(found)
    assert {"image:resize", "old:type"} <= set(found)


def test_a_filter_that_cannot_be_says_so_instead_of_matching_all() -> None:
    assert Filters(tenant="x").problem == "bad_tenant"
    assert Filters(scope="knowledge").problem == "bad_scope"
    assert Filters(scope="know ledge:1").problem == "bad_scope"
    assert Filters(tenant="1", scope="knowledge:1").problem == "one_scope"
    assert Filters(scope="knowledge:a:b").problem == ""


def test_a_stage_that_a_complete_document_went_without_is_not_waited_for() -> None:
    row = DocumentRow(
        id="d", name="d", source="/d", base="b", base_id="b", tenant_id=1, status="completed", attempt=1, size=1, created_at=0,
        moved_at=0,
    )  # fmt: skip
    parts = (Part("docreader", "done", 0, NOW, NOW + 10), Part("multimodal", "pending"))
    found = document_view.lines(Story(row, 1, 1, parts), NOW + 20)
    assert [(line.status, line.ms) for line in found] == [("done", 10), ("unneeded", None)]
    still = document_view.lines(Story(replace(row, status="processing"), 1, 1, parts), NOW + 20)
    assert still[1].status == "pending"
