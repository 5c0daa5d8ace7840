"""Runs of a source: what changed is taken in, once; what went is removed, renamed ones stay what they are, and one bad thing
never holds up the others.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from consumers.handlers import sync
from consumers.knowledge.documents import lifecycle
from consumers.knowledge.progress.fates import named_of
from consumers.sources import registry, runs, taking
from consumers.sources.connector import Config, Content, Deed, Item, Kind, Page, SourceError, listing
from consumers.sources.kinds import add, kind_of
from contracts.knowledge import DocumentEffect, ParseStatus
from contracts.sources import ItemState, SourceStatus, SyncMode, SyncState
from pipeline import on
from pipeline.config import load
from pipeline.errors import ConfigurationError
from pipeline.store import now_ms
from sqlalchemy import text

from tests.support.harvest import Harvest, counts, open_harvest, write


@pytest.fixture
async def harvest(tmp_path, database_url):
    async with open_harvest(tmp_path, database_url) as opened:
        yield opened


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    folder = tmp_path / "papers"
    folder.mkdir()
    return folder


THREE = {"a.md": "first", "b/c.md": "second", "b.txt": "third"}


async def test_a_first_run_takes_everything_in(harvest: Harvest, papers: Path):
    write(papers, THREE)
    source = await harvest.source()
    run = await harvest.sync(source)
    assert (run.state, counts(run), run.message) == (SyncState.SUCCESS, {"created": 3}, "")
    found = await harvest.documents()
    assert sorted(found) == sorted(THREE)
    assert {row.data_source_id for row in found.values()} == {source.id}
    assert {row.file_name for row in found.values()} == {"a.md", "b.txt", "c.md"}
    assert await harvest.services.files.read(found["b/c.md"].file_key) == b"second"
    async with harvest.services.database.read() as sql:
        cited = await named_of(sql, [row.id for row in found.values()])
    assert sorted(one.path for one in cited.values()) == sorted(THREE)


async def test_the_next_run_touches_exactly_what_changed(harvest: Harvest, papers: Path):
    write(papers, THREE | {f"more/{n}.txt": f"text {n}" for n in range(20)})
    source = await harvest.source()
    await harvest.sync(source)
    before = await harvest.documents()
    write(papers, {"a.md": "other", "new.md": "new"})
    (papers / "b.txt").unlink()
    (papers / "b" / "c.md").rename(papers / "moved.md")
    run = await harvest.sync(source)
    assert counts(run) == {"created": 1, "changed": 1, "renamed": 1, "deleted": 1, "unchanged": 20}
    after = await harvest.documents()
    assert set(after) == (set(before) - {"b.txt", "b/c.md"}) | {"new.md", "moved.md"}
    assert (after["a.md"].id, after["a.md"].attempt) == (before["a.md"].id, 2)
    moved = after["moved.md"]
    assert (moved.id, moved.attempt, moved.file_name) == (before["b/c.md"].id, 1, "moved.md")
    assert all(
        after[name].updated_at == before[name].updated_at for name in before if name.startswith("more/")
    )
    assert counts(await harvest.sync(source)) == {"unchanged": 23}


async def test_what_is_touched_and_not_changed_is_read_and_left_alone(harvest: Harvest, papers: Path):
    write(papers, THREE)
    source = await harvest.source()
    await harvest.sync(source)
    os.utime(papers / "a.md", (1, 1))
    assert counts(await harvest.sync(source)) == {"unchanged": 3}
    assert (await harvest.documents())["a.md"].attempt == 1


async def test_a_copy_is_no_rename_and_neither_is_another_type(harvest: Harvest, papers: Path):
    write(papers, THREE)
    source = await harvest.source()
    await harvest.sync(source)
    write(papers, {"copy.md": "first"})
    (papers / "b.txt").rename(papers / "b.md")
    run = await harvest.sync(source)
    assert counts(run) == {"created": 2, "deleted": 1, "unchanged": 2}
    assert sorted(await harvest.documents()) == ["a.md", "b.md", "b/c.md", "copy.md"]


async def test_many_renames_at_once_keep_their_documents(harvest: Harvest, papers: Path):
    write(papers, {f"old/{n}.txt": f"text {n}" for n in range(150)})
    source = await harvest.source()
    await harvest.sync(source)
    before = {row.id for row in (await harvest.documents()).values()}
    (papers / "old").rename(papers / "new")
    assert counts(await harvest.sync(source)) == {"renamed": 150}
    after = await harvest.documents()
    assert {row.id for row in after.values()} == before
    assert all(name.startswith("new/") for name in after)


async def test_a_removed_document_of_the_source_goes_and_those_of_others_stay(harvest: Harvest, papers: Path):
    write(papers, {"one/a.txt": "same", "two/a.txt": "same", "two/b.txt": "b"})
    one = await harvest.source(config={"path": str(papers / "one")}, name="one")
    two = await harvest.source(config={"path": str(papers / "two")}, name="two")
    await harvest.sync(one)
    await harvest.sync(two)
    (papers / "two" / "a.txt").unlink()
    assert counts(await harvest.sync(two)) == {"deleted": 1, "unchanged": 1}
    found = await harvest.documents()
    assert {(row.data_source_id, name) for name, row in found.items()} == {
        (one.id, "a.txt"),
        (two.id, "b.txt"),
    }
    assert await harvest.services.files.exists(found["a.txt"].file_key)


async def test_a_source_that_suddenly_lists_nothing_loses_nothing(harvest: Harvest, papers: Path):
    write(papers, THREE)
    source = await harvest.source()
    await harvest.sync(source)
    for name in THREE:
        (papers / name).unlink()
    run = await harvest.sync(source)
    assert (run.state, run.message) == (SyncState.FAILED, sync.EMPTIED)
    assert len(await harvest.documents()) == 3
    assert not (await harvest.row(source)).health["ok"]
    assert counts(await harvest.sync(source, force_full=True)) == {"deleted": 3}
    assert not await harvest.documents()


async def test_a_folder_that_is_not_mounted_fails_the_run_and_loses_nothing(harvest: Harvest, papers: Path):
    write(papers, THREE)
    source = await harvest.source()
    await harvest.sync(source)
    os.rename(papers, papers.with_name("elsewhere"))  # noqa: PTH104
    run_id = await harvest.ask(source)
    assert run_id
    await harvest.work()
    run = await harvest.run(run_id)
    assert (run.state, counts(run)) == (SyncState.RUNNING, {})  # its job waits for the next attempt
    assert len(await harvest.documents()) == 3


@dataclass
class Shelf:
    """A source that a test writes: items by id, each with a version, and what is wrong with some."""

    things: dict[str, str] = field(default_factory=dict)
    bad: dict[str, Exception] = field(default_factory=dict)
    news: list[Page] | None = None
    dies_at: str = ""
    fetched: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)
    size: int = 5

    async def changes(self, cursor: str):
        self.cursors.append(cursor)
        pages = self.news if self.news is not None else None
        if pages is None:
            items = (Item(name, f"{name}.txt", version) for name, version in sorted(self.things.items()))
            pages = list(listing(items, cursor, size=self.size))
        for page in pages:
            if self.dies_at in {one.id for one in page.items}:
                self.dies_at = ""
                raise SourceError("the shelf broke down")
            yield page

    async def fetch(self, item: Item, into: Path, stamp: str) -> Content:
        self.fetched.append(item.id)
        if item.id in self.bad:
            raise self.bad[item.id]
        write(into.parent, {into.name: f"{item.id} {self.things.get(item.id, '')}"})
        return Content(stamp=f"stamp of {item.id}")

    async def health(self) -> str:
        if self.bad.get("health"):
            raise self.bad["health"]
        return "it stands"


SHELF = Shelf()


class ShelfConfig(Config):
    """Nothing to say."""


class shelf_of:  # noqa: N801 - read as a word
    """What opens the shelf of the test."""

    def __init__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Shelf:
        return SHELF

    async def __aexit__(self, *_: object) -> None:
        pass


add(Kind("shelf", "a shelf of a test", ShelfConfig, shelf_of))


@pytest.fixture
def shelf() -> Shelf:
    SHELF.__init__()  # type: ignore[misc] # as new
    return SHELF


async def test_one_bad_item_among_many_is_listed_and_the_others_are_there(harvest: Harvest, shelf: Shelf):
    shelf.things = {f"{n:03}": "1" for n in range(500)}
    shelf.size, shelf.bad = 100, {"250": ValueError("poison")}
    source = await harvest.source("shelf", {})
    run = await harvest.sync(source)
    assert (run.state, counts(run)) == (SyncState.PARTIAL, {"created": 499, "failed": 1})
    assert run.errors == [{"item": "250", "error": "poison"}]
    items = await harvest.items(source)
    assert (items["250"].state, items["250"].error) == (ItemState.FAILED, "poison")
    assert len(await harvest.documents()) == 499


async def test_what_no_database_takes_is_listed_and_the_others_are_there(harvest: Harvest, shelf: Shelf):
    long = "".join(f"{hash(number):x}/" for number in range(10**12, 10**12 + 800))
    shelf.things = dict.fromkeys(["a", "b", "cut \0", "torn \udc80", long], "1")
    shelf.bad = {"b": ValueError("not \0 this \ud800")}
    source = await harvest.source("shelf", {})
    runs = [await harvest.sync(source) for _ in range(2)]
    assert [counts(run) for run in runs] == [{"created": 1, "failed": 4}, {"unchanged": 1, "failed": 4}]
    assert {run.state for run in runs} == {SyncState.PARTIAL}
    assert sorted(await harvest.documents()) == ["a"]
    said = [one["error"] for one in runs[-1].errors if one["item"] != "b"]
    assert ["rename it" in one or "shorten it" in one for one in said] == [True] * 3
    assert shelf.fetched == ["a", "b", "b"]


async def test_what_failed_alone_is_tried_again_when_a_person_asks(harvest: Harvest, shelf: Shelf):
    shelf.things, shelf.bad = {"a": "1", "b": "1", "c": "1"}, {"b": OSError(5, "cannot read")}
    source = await harvest.source("shelf", {})
    await harvest.sync(source)
    shelf.fetched.clear()
    run = await harvest.sync(source, mode=SyncMode.DLQ_RETRY)
    assert (run.state, counts(run), shelf.fetched) == (SyncState.FAILED, {"failed": 1}, ["b"])
    shelf.bad.clear()
    run = await harvest.sync(source, mode=SyncMode.DLQ_RETRY)
    assert (run.state, counts(run), shelf.fetched) == (SyncState.SUCCESS, {"created": 1}, ["b", "b"])
    assert counts(await harvest.sync(source)) == {"unchanged": 3}


async def test_a_document_that_could_not_be_read_is_tried_again_too(harvest: Harvest, shelf: Shelf):
    shelf.things = {"a": "1", "b": "1"}
    source = await harvest.source("shelf", {})
    await harvest.sync(source)
    failed = (await harvest.documents())["a"].id
    async with harvest.services.database.transaction() as session:
        await session.execute(
            text("UPDATE knowledges SET parse_status = 'failed' WHERE id = :id"), {"id": failed}
        )
    run = await harvest.sync(source, mode=SyncMode.DLQ_RETRY)
    assert counts(run) == {"changed": 1}
    assert (await harvest.documents())["a"].parse_status is ParseStatus.PENDING


async def test_errors_are_all_counted_and_a_hundred_of_them_kept(harvest: Harvest, shelf: Shelf):
    shelf.things = {f"{n:03}": "1" for n in range(150)}
    shelf.bad = {name: ValueError("x" * 5000) for name in shelf.things if name != "007"}
    run = await harvest.sync(await harvest.source("shelf", {}))
    assert (run.failed, len(run.errors), len(run.errors[0]["error"])) == (149, 100, 1000)


async def test_a_run_that_breaks_goes_on_behind_the_last_page(harvest: Harvest, shelf: Shelf):
    shelf.things, shelf.dies_at = {f"{n:02}": "1" for n in range(20)}, "12"
    source = await harvest.source("shelf", {})
    run_id = await harvest.ask(source, mode=SyncMode.FULL)
    run = await harvest.through(run_id or "")
    assert (run.state, counts(run)) == (SyncState.SUCCESS, {"created": 20})
    assert shelf.cursors == ["", "09"]
    assert sorted(shelf.fetched) == sorted(shelf.things)
    assert (await harvest.row(source)).cursor == ""


async def test_a_full_run_fetches_everything_and_reads_nothing_again(harvest: Harvest, shelf: Shelf):
    shelf.things = {"a": "1", "b": "1"}
    source = await harvest.source("shelf", {})
    await harvest.sync(source)
    shelf.fetched.clear()
    assert counts(await harvest.sync(source, mode=SyncMode.FULL)) == {"unchanged": 2}
    assert sorted(shelf.fetched) == ["a", "b"]
    assert all(row.attempt == 1 for row in (await harvest.documents()).values())


async def test_a_run_in_which_everything_fails_is_tried_again_and_then_given_up(
    harvest: Harvest, shelf: Shelf
):
    shelf.things = {f"{n}": "1" for n in range(8)}
    shelf.bad = {name: SourceError("out of order") for name in shelf.things}
    source = await harvest.source("shelf", {})
    run_id = await harvest.ask(source)
    run = await harvest.through(run_id or "")
    assert (run.state, counts(run)) == (SyncState.FAILED, {"failed": 8})
    assert "none of its 8 items" in run.message
    assert len(run.errors) == 8
    assert shelf.fetched.count("0") == 6  # the first attempt and five more
    shelf.bad.clear()
    assert counts(await harvest.sync(source)) == {"created": 8}


async def test_a_partial_run_looks_at_what_it_was_told_and_nothing_else(harvest: Harvest, shelf: Shelf):
    shelf.things = dict.fromkeys(("a/1", "a/2", "b/1", "b/2", "c"), "1")
    source = await harvest.source("shelf", {})
    await harvest.sync(source)
    shelf.fetched.clear()
    del shelf.things["a/1"], shelf.things["b/1"]
    shelf.things |= {"a/2": "2", "b/2": "2", "a/3": "1"}
    run = await harvest.sync(source, mode=SyncMode.PARTIAL_RESYNC, selection=("a/", "c"))
    assert counts(run) == {"created": 1, "changed": 1, "unchanged": 1, "deleted": 1}
    assert sorted(shelf.fetched) == ["a/2", "a/3", "c"]
    assert sorted(await harvest.documents()) == ["a/2", "a/3", "b/1", "b/2", "c"]
    assert counts(await harvest.sync(source)) == {"changed": 1, "deleted": 1, "unchanged": 3}


async def test_reconcile_reports_and_repairs_each_kind_of_drift(harvest: Harvest, shelf: Shelf):
    shelf.things = dict.fromkeys("abcdefg", "1")
    source = await harvest.source("shelf", {})
    await harvest.sync(source)
    run = await harvest.sync(source, mode=SyncMode.RECONCILE)
    assert (run.state, counts(run), run.detail["in_step"]) == (SyncState.SUCCESS, {"unchanged": 7}, True)
    found = await harvest.documents()
    await harvest.services.files.delete(found["a"].file_key)
    await delete(harvest, found["b"].id)
    async with harvest.services.database.transaction() as session:
        await session.execute(text("DELETE FROM source_items WHERE external_id = 'c'"))
    del shelf.things["c"], shelf.things["d"]
    shelf.things |= {"e": "2", "h": "1"}
    run = await harvest.sync(source, mode=SyncMode.RECONCILE)
    drift = {name: count for name, count in run.detail["drift"].items() if count}
    assert drift == {"created": 2, "changed": 1, "deleted": 1, "lost": 2, "stray": 1}
    assert not run.detail["in_step"]
    assert sorted(await harvest.documents()) == ["a", "b", "e", "f", "g", "h"]
    assert await harvest.services.files.exists(found["a"].file_key)
    assert (await harvest.sync(source, mode=SyncMode.RECONCILE)).detail["in_step"]


async def delete(harvest: Harvest, document: str) -> None:
    """Delete a document as a person does."""
    cut = await harvest.services.outbox.choose_cut()
    async with harvest.services.outbox.transaction() as session:
        (step,) = await lifecycle.delete(session, 7, [document], cut)
    assert step.effect is DocumentEffect.DONE
    await harvest.work()


async def test_what_a_person_deleted_stays_away_until_it_changes(harvest: Harvest, shelf: Shelf):
    shelf.things = {"a": "1", "b": "1"}
    source = await harvest.source("shelf", {})
    await harvest.sync(source)
    await delete(harvest, (await harvest.documents())["a"].id)
    assert counts(await harvest.sync(source)) == {"unchanged": 2}
    assert list(await harvest.documents()) == ["b"]
    shelf.things["a"] = "2"
    assert counts(await harvest.sync(source)) == {"created": 1, "unchanged": 1}


async def test_news_of_single_changes_remove_only_what_they_name(harvest: Harvest, shelf: Shelf):
    shelf.things = {"a": "1", "b": "1", "c": "1"}
    source = await harvest.source("shelf", {})
    await harvest.sync(source)
    before = await harvest.documents()
    shelf.news = [
        Page([Item("a", deed=Deed.DELETE), Item("d", "d.txt", "1"), Item("gone", deed=Deed.DELETE)], "one"),
        Page(
            [Item("e", "e.txt", "1", Deed.RENAME, was="b"), Item("f", "f.txt", "2", Deed.RENAME, was="x")],
            "two",
        ),
    ]
    run = await harvest.sync(source)
    assert counts(run) == {"created": 2, "deleted": 1, "renamed": 1}
    after = await harvest.documents()
    assert sorted(after) == ["c", "d", "e", "f"]
    assert (after["e"].id, after["e"].attempt) == (before["b"].id, 1)
    assert (await harvest.row(source)).cursor == "two"


async def test_a_run_of_at_most_so_many_items_is_continued_by_the_next(harvest: Harvest, shelf: Shelf):
    shelf.things = {f"{n:02}": "1" for n in range(12)}
    source = await harvest.source("shelf", {})
    run = await harvest.sync(source, max_items=7)
    assert (run.state, counts(run)) == (SyncState.SUCCESS, {"created": 7})
    assert "next run goes on" in run.message
    assert counts(await harvest.sync(source, max_items=7)) == {"created": 5, "unchanged": 2}
    assert len(await harvest.documents()) == 12


async def test_health_says_whether_it_can_be_reached_and_how_far_behind_it_is(harvest: Harvest, shelf: Shelf):
    shelf.things, shelf.bad = {"a": "1", "b": "1"}, {"b": ValueError("poison")}
    source = await harvest.source("shelf", {})
    run = await harvest.sync(source, mode=SyncMode.HEALTH)
    assert (run.state, run.detail["lag_ms"]) == (SyncState.SUCCESS, None)
    await harvest.sync(source)
    await harvest.sync(source, mode=SyncMode.HEALTH)
    health = (await harvest.row(source)).health
    assert (health["ok"], health["message"]) == (True, "it stands")
    assert health["lag_ms"] >= 0
    assert (health["items"]["synced"], health["items"]["failed"]) == (1, 1)
    shelf.bad["health"] = SourceError("the key is refused")
    run = await harvest.sync(source, mode=SyncMode.HEALTH)
    assert (run.state, run.message) == (SyncState.FAILED, "the key is refused")
    assert not (await harvest.row(source)).health["ok"]


async def test_one_run_of_a_source_at_a_time(harvest: Harvest, shelf: Shelf):
    source = await harvest.source("shelf", {})
    first = await harvest.ask(source)
    assert first
    assert await harvest.ask(source) is None
    await harvest.work()
    assert await harvest.ask(source)


async def test_where_source_or_base_is_gone_the_run_is_canceled_and_nothing_raised(
    harvest: Harvest, shelf: Shelf
):
    shelf.things = {"a": "1"}
    source, other = await harvest.source("shelf", {}), await harvest.source("shelf", {}, name="other")
    run_id, gone = await harvest.ask(source), await harvest.ask(other)
    async with harvest.services.database.transaction() as session:
        await session.execute(text("DELETE FROM data_sources WHERE id = :id"), {"id": other.id})
        await session.execute(text("UPDATE knowledge_bases SET deleted_at = 1"))
    await harvest.work()
    run = await harvest.run(run_id or "")
    assert (run.state, run.message) == (SyncState.CANCELED, "its knowledge base is gone")
    assert gone
    assert shelf.fetched == []


async def test_a_paused_source_runs_nothing(harvest: Harvest, shelf: Shelf):
    shelf.things = {"a": "1"}
    source = await harvest.source("shelf", {})
    async with harvest.services.database.transaction() as session:
        await registry.pause(session, await registry.find(session, 7, source.id, keep=True) or source)
    run = await harvest.sync(source)
    assert (run.state, shelf.fetched) == (SyncState.CANCELED, [])
    async with harvest.services.database.transaction() as session:
        await registry.resume(session, await registry.find(session, 7, source.id, keep=True) or source)
    assert counts(await harvest.sync(source)) == {"created": 1}


async def test_a_run_that_a_person_stopped_writes_nothing_more(harvest: Harvest, shelf: Shelf, monkeypatch):
    shelf.things = {f"{n:02}": "1" for n in range(20)}
    source = await harvest.source("shelf", {})
    run_id = await harvest.ask(source)
    assert run_id
    take = taking.Taker.take

    async def stopped_at(self: Any, some: Any, *rest: Any) -> Any:
        if some and some[0].id == "10":
            async with harvest.services.outbox.transaction() as session:
                run = await runs.find_run(session, run_id)
                assert run is not None
                assert await runs.cancel(session, run, now_ms()) is DocumentEffect.DONE
        return await take(self, some, *rest)

    monkeypatch.setattr(taking.Taker, "take", stopped_at)
    await harvest.work()
    run = await harvest.run(run_id)
    assert (run.state, run.created) == (SyncState.CANCELED, 10)
    assert len(await harvest.documents()) == 10
    monkeypatch.undo()
    assert counts(await harvest.sync(source)) == {"created": 10}


async def test_a_source_goes_with_its_documents_or_leaves_them(harvest: Harvest, shelf: Shelf):
    shelf.things = {f"{n:03}": "1" for n in range(120)}
    source = await harvest.source("shelf", {})
    await harvest.sync(source)
    assert await harvest.ask(source)
    async with harvest.services.outbox.transaction() as session:
        assert not await registry.remove(session, source, with_documents=True)  # while a run is under way
    await harvest.work()
    async with harvest.services.outbox.transaction() as session:
        assert await registry.remove(session, source, with_documents=True)
    assert (await harvest.row(source)).status is SourceStatus.DELETING
    await harvest.work()
    assert not await harvest.documents()
    async with harvest.services.database.read() as session:
        assert await registry.find(session, 7, source.id) is None
    kept = await harvest.source("shelf", {})
    await harvest.sync(kept)
    async with harvest.services.outbox.transaction() as session:
        assert await registry.remove(session, kept, with_documents=False)
    assert {row.data_source_id for row in (await harvest.documents()).values()} == {None}


async def test_every_run_may_be_worked_on_twice(harvest: Harvest, shelf: Shelf):
    shelf.things, shelf.bad = {f"{n:02}": "1" for n in range(12)}, {"03": ValueError("poison")}
    source = await harvest.source("shelf", {})

    async def twice(job: Any, ctx: Any) -> Any:
        await sync.sync_source(job, ctx)
        return await sync.sync_source(job, ctx)

    run_id = await harvest.ask(source)
    await harvest.work([on(sync.HANDLERS[0].payload, twice)])
    assert counts(await harvest.run(run_id or "")) == {"created": 11, "failed": 1}
    assert len(await harvest.documents()) == 11


async def test_a_source_of_what_cannot_be_is_refused_without_a_word_of_its_secrets(tmp_path: Path):
    folder, settings = kind_of("folder"), load(source_folders=str(tmp_path))
    for config, secret in (
        ({"path": ""}, {}),
        ({"path": str(tmp_path)}, {"password": "hunter2"}),
        ({"path": "/"}, {}),
    ):
        with pytest.raises(ConfigurationError, match="no folder source can be made of this") as refused:
            folder.checked(config, secret, settings)
        assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="there are folder"):
        kind_of("attic")
    with pytest.raises(ConfigurationError, match="already"):
        add(Kind("shelf", "another", ShelfConfig, shelf_of))


async def test_a_folder_outside_of_those_that_may_be_read_is_refused(
    harvest: Harvest, papers: Path, tmp_path: Path
):
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    write(outside, {"secret.txt": "secret"})
    write(papers, {"a.txt": "a"})
    (papers / "link.txt").symlink_to(outside / "secret.txt")
    (papers / "folder").symlink_to(outside)
    source = await harvest.source()
    await harvest.sync(source)
    assert list(await harvest.documents()) == ["a.txt"]
    for path in (outside, papers / "folder", Path("relative")):
        other = await harvest.source(config={"path": str(path)}, name=str(path))
        run = await harvest.sync(other, mode=SyncMode.HEALTH)
        assert run.state is SyncState.FAILED


async def test_patterns_say_which_files_are_meant(harvest: Harvest, papers: Path):
    write(papers, THREE | {".hidden.md": "x", "drafts/d.md": "x", ".git/config": "x"})
    config = {"path": str(papers), "include": ["*.md"], "exclude": ["drafts/*"]}
    await harvest.sync(await harvest.source(config=config))
    assert sorted(await harvest.documents()) == ["a.md", "b/c.md"]
