"""Which files are found, which are left out, and how they are taken in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.documents import Entry, Registered
from consumers.knowledge.documents.ingesting import TOGETHER, CannotTakeIn, find_files, take_in
from consumers.services import open_services
from contracts.jobs import Job
from pipeline import Outbox, Pipeline
from sqlalchemy.ext.asyncio import AsyncSession


def names(folder: Path, *paths: Path) -> list[str]:
    return [str(found.path.relative_to(folder)) for found in find_files(paths, leave_out=folder / "data")]


def test_files_are_found_in_the_order_of_their_names_and_each_once(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/2.md", "b/1.md", "a.md"):
        (tmp_path / name).touch()
    assert names(tmp_path, tmp_path, tmp_path / "a.md", tmp_path / "b" / ".." / "a.md") == [
        "a.md", "b/1.md", "b/2.md",
    ]  # fmt: skip


def test_hidden_files_and_our_own_folder_are_passed_over_unless_named(tmp_path: Path) -> None:
    for name in (".git", "data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.md").touch()
    (tmp_path / ".env").touch()
    assert names(tmp_path, tmp_path) == []
    assert names(tmp_path, tmp_path / ".env") == [".env"]


def test_links_between_folders_lead_in_no_circle(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "sub" / "x.md").touch()
    (tmp_path / "sub" / "self").symlink_to(tmp_path / "sub" / "self")
    assert names(tmp_path, tmp_path) == ["sub/self", "sub/x.md"]  # a link that leads nowhere fails as a file


def test_a_folder_that_cannot_be_read_is_said_and_its_neighbours_are_found(tmp_path: Path) -> None:
    (tmp_path / "x.md").touch()
    gone = tmp_path / "gone"
    found = list(find_files([tmp_path, gone], leave_out=tmp_path / "data"))
    assert [one.path.name for one in found] == ["x.md", "gone"]


class CountingOutbox(Outbox):
    """Counts transactions."""

    count = 0

    @asynccontextmanager
    async def transaction(self, parent: Job | None = None) -> AsyncIterator[AsyncSession]:
        self.count += 1
        async with super().transaction(parent) as session:
            yield session


@pytest.mark.usefixtures("either_database")
async def test_many_files_are_taken_in_with_few_transactions_and_each_is_told_of(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2 * TOGETHER + 1):
        (folder / f"{number:03}.md").write_text(f"Number {number}.")
    (folder / "050-gone.md").symlink_to(folder / "nowhere")
    async with Pipeline.open() as pipeline, open_services(pipeline) as opened:
        outbox = CountingOutbox(opened.database, pipeline.enqueue_many)
        services = replace(opened, outbox=outbox)
        async with services.database.transaction() as session:
            kb = await ensure_base(session, 1, "test")

        async def taken() -> list[Registered | CannotTakeIn]:
            found = list(find_files([folder], leave_out=tmp_path / "data"))
            return [one async for some in take_in(services, kb, found) for one in some]

        (folder / "000.md").write_text("Other words.")
        first = await taken()
        assert outbox.count == 3
        (folder / "000.md").write_text("Number 0.")
        again = await taken()
        (waiting,) = [stat.pending for stat in await pipeline.inspector.queues() if stat.name == "default"]
    entries = [one.entry if isinstance(one, Registered) else "" for one in first]
    assert entries == [Entry.CREATED] * 50 + [""] + [Entry.CREATED] * 15
    entries = [one.entry if isinstance(one, Registered) else "" for one in again]
    assert entries == [Entry.CHANGED] + [Entry.RESUMED] * 49 + [""] + [Entry.RESUMED] * 15
    assert waiting == 2 * TOGETHER + 1 + 1
