"""The graph put into order, on both databases: merged once, kept so for what is read later, and never the wrong thing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from consumers.handlers import curate as handlers
from consumers.handlers.curate import curate, curate_lost
from consumers.knowledge.documents.contents import chunks_of
from consumers.knowledge.graph import curating
from consumers.knowledge.graph.storing import forget_mentions, store_graph
from consumers.knowledge.language.extraction import Named, Related
from consumers.knowledge.long_work import tasks
from consumers.knowledge.long_work.store_work import UnderWay
from consumers.ks import HANDLERS
from contracts.outcomes import Skip
from contracts.payloads.knowledge import StoreCurate
from contracts.states import ArchiveReason
from contracts.tasks import TaskStatus
from pipeline.testing import assert_enqueued, drain

from tests.support.library import Killed
from tests.support.shelves import TENANT, Shelf, open_shelf

TEXTS = (
    "The Core Pool uses Redis.",
    "The core-pool use Redis. Core Pools have slots.",
    "The World Health Organization (WHO) is in Geneva.",
    "WHO and Kubernetes (Кубернетес).",
)


@pytest.fixture
async def shelf(database_url, tmp_path) -> AsyncIterator[Shelf]:
    async with open_shelf(database_url, tmp_path / "data") as opened:
        await opened.write("one", *TEXTS)
        for at, (names, links) in enumerate(
            [
                (["Core Pool", "Redis"], [("Core Pool", "Redis", "uses")]),
                (
                    ["core-pool", "Redis", "Core Pools"],
                    [("core-pool", "Redis", "use"), ("core-pool", "Core Pools", "has")],
                ),
                (["World Health Organization", "WHO", "Geneva"], [("WHO", "Geneva", "in")]),
                (["WHO", "Kubernetes", "Кубернетес"], []),
            ]
        ):
            await say(opened, at, names, links)
        yield opened


async def say(shelf: Shelf, at: int, names: list[str], links: Sequence[tuple[str, str, str]] = ()) -> None:
    """Let a chunk name things."""
    ((knowledge_id,),) = await shelf.rows("SELECT id FROM knowledges")
    async with shelf.services.database.read() as sql:
        chunk = (await chunks_of(sql, knowledge_id, 1))[at]
    named = [Named(name, "name") for name in names]
    related = [Related(*link, TEXTS[at]) for link in links]
    await shelf.do(store_graph, shelf.kb.id, chunk, named, related)


async def asked(shelf: Shelf, action: Any = "all", *, dry_run: bool = False) -> StoreCurate:
    task_id = await shelf.do(curating.ask_for, shelf.kb.id, action, dry_run=dry_run)
    return await assert_enqueued(shelf.pipeline, StoreCurate, task_id=task_id)


async def graph(shelf: Shelf) -> Any:
    names = await shelf.rows(
        "SELECT e.name, coalesce(sum(m.count), 0) FROM entities e LEFT JOIN entity_mentions m ON m.entity_id = e.id"
        " GROUP BY e.id, e.name ORDER BY e.name"
    )
    links = await shelf.rows(
        "SELECT s.name, r.kind, t.name, count(v.chunk_id) FROM relations r JOIN entities s ON s.id = r.source_id"
        " JOIN entities t ON t.id = r.target_id LEFT JOIN relation_evidence v ON v.relation_id = r.id"
        " GROUP BY s.name, r.kind, t.name ORDER BY s.name, r.kind"
    )
    return {name: int(count) for name, count in names}, links


MERGED = (
    {"Core Pool": 3, "Redis": 2, "World Health Organization": 3, "Geneva": 1, "Kubernetes": 2},
    [("Core Pool", "uses", "Redis", 2), ("World Health Organization", "in", "Geneva", 1)],
)


def same(found: Any) -> Any:
    """Which form of a name or a verb stays is a matter of how often each was met, and of its id."""
    forms = {"core-pool": "Core Pool", "Core Pools": "Core Pool", "Кубернетес": "Kubernetes", "use": "uses"}
    names, links = found
    links = [tuple(forms.get(word, word) for word in link) for link in links]
    return {forms.get(name, name): count for name, count in names.items()}, sorted(links)


async def test_names_of_one_thing_become_one_with_all_that_was_said_of_them(shelf):
    job = await asked(shelf)
    await drain(shelf.pipeline, HANDLERS, services=shelf.services)
    assert same(await graph(shelf)) == MERGED
    task = await shelf.task(job.task_id)
    assert task.status is TaskStatus.COMPLETED
    assert {group["into"] for group in task.detail["merged"]} >= {"World Health Organization"}
    assert (task.detail["entities_merged"], task.detail["relations_merged"]) == (4, 1)


async def test_what_is_read_later_under_a_merged_name_is_the_merged_thing(shelf):
    await curate(await asked(shelf), shelf.context())
    await say(shelf, 0, ["WHO", "core-pool", "Redis"], [("WHO", "Redis", "likes")])
    names, links = same(await graph(shelf))
    assert names == {**MERGED[0], "World Health Organization": 4}, (
        "and the chunk said Core Pool and Redis before"
    )
    assert ("World Health Organization", "likes", "Redis", 1) in links


async def test_a_second_run_finds_nothing_to_do(shelf):
    first = await asked(shelf)
    await curate(first, shelf.context())
    once = await graph(shelf)
    await curate(first, shelf.context())
    second = await asked(shelf)
    await curate(second, shelf.context())
    assert await graph(shelf) == once
    report = (await shelf.task(second.task_id)).detail
    assert {report[name] for name in report if name.endswith(("_merged", "_dropped"))} == {0}


async def test_a_dry_run_says_what_would_be_and_changes_nothing(shelf):
    before = await graph(shelf)
    job = await asked(shelf, dry_run=True)
    await curate(job, shelf.context())
    assert await graph(shelf) == before
    task = await shelf.task(job.task_id)
    assert task.message.startswith("would be: 4 names merged")
    assert len(task.detail["merged"]) == 3


@pytest.mark.parametrize("step", range(4))
async def test_killed_after_any_step_it_goes_on(shelf, monkeypatch, step):
    job = await asked(shelf)
    one, left = handlers._Work._one, iter(range(step))

    async def dying(self: Any, group: Any) -> None:
        if next(left, None) is None:
            raise Killed
        await one(self, group)

    with monkeypatch.context() as patched:
        patched.setattr(handlers._Work, "_one", dying)
        with suppress(Killed):
            await curate(job, shelf.context())
    await curate(job, shelf.context())
    assert same(await graph(shelf)) == MERGED
    assert (await shelf.task(job.task_id)).detail["entities_merged"] == 4


async def test_cancelled_in_the_middle_what_was_merged_stays_and_the_rest_is_left(shelf, monkeypatch):
    job = await asked(shelf)
    one = handlers._Work._one

    async def cancelling(self: Any, group: Any) -> None:
        await one(self, group)
        cut = await shelf.services.outbox.choose_cut()
        await shelf.do(tasks.cancel, TENANT, job.task_id, cut)

    monkeypatch.setattr(handlers._Work, "_one", cancelling)
    await curate(job, shelf.context())
    task = await shelf.task(job.task_id)
    assert (task.status, len(task.detail["merged"])) == (TaskStatus.CANCELLED, 1)
    assert len((await graph(shelf))[0]) > len(MERGED[0])


async def test_what_nothing_speaks_of_is_dropped(shelf):
    now = {"kb": shelf.kb.id}
    async with shelf.services.database.transaction() as sql:
        connection = await sql.connection()
        quoted = f"'{now['kb']}'"
        for name in ("x1", "x2"):
            await connection.exec_driver_sql(
                f"INSERT INTO entities (id, knowledge_base_id, name, kind) VALUES ('{name}', {quoted}, '{name}', 'name')"
            )
        await connection.exec_driver_sql(
            "INSERT INTO relations (id, knowledge_base_id, source_id, target_id, kind)"
            f" VALUES ('r', {quoted}, 'x1', 'x2', 'is')"
        )
    job = await asked(shelf, "prune")
    await curate(job, shelf.context())
    report = (await shelf.task(job.task_id)).detail
    assert (report["relations_dropped"], report["entities_dropped"], report["entities_merged"]) == (1, 2, 0)
    assert "x1" not in (await graph(shelf))[0]


async def test_other_names_go_with_the_thing_they_mean(shelf):
    await curate(await asked(shelf), shelf.context())
    assert len(await shelf.rows("SELECT id FROM entity_aliases")) == 4
    ((knowledge_id,),) = await shelf.rows("SELECT id FROM knowledges")
    await shelf.do(forget_mentions, knowledge_id)
    for table in ("entities", "relations", "entity_aliases", "entity_mentions", "relation_evidence"):
        assert await shelf.rows(f"SELECT 1 FROM {table}") == []


async def test_of_two_at_once_the_second_is_told_of_the_first(shelf):
    job = await asked(shelf)
    with pytest.raises(UnderWay, match=job.task_id):
        await asked(shelf)


async def test_a_job_that_died_fails_its_task_and_one_without_a_task_says_so(shelf):
    job = await asked(shelf)
    letter: Any = type("Letter", (), {"reason": ArchiveReason.POISON, "error": "boom"})()
    await curate_lost(job, letter, shelf.services)
    assert (await shelf.task(job.task_id)).status is TaskStatus.FAILED
    with pytest.raises(Skip, match="no task none"):
        await curate(job.model_copy(update={"task_id": "none"}), shelf.context())
