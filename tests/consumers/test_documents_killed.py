"""A process killed at any statement, a job that runs twice, a job of an older attempt: the end is the same."""

import shutil
from contextlib import asynccontextmanager

import pytest
from contracts.knowledge import ParseStatus

from tests.support.databases import BOTH, migrated
from tests.support.library import open_library
from tests.support.library_work import handle, killed_at, surviving, work

pytestmark = pytest.mark.timeout(300)

STRIDES = {"sqlite": 9, "postgres": 45}
"""Every so many statements a process is killed; the conditions between are alike."""


async def two_attempts(library, *, times=1):
    """A document that comes in, is done, changes and is done again."""
    for content in ("ducks", "geese"):
        found = await surviving(library, library.register, "/a.txt", content)
        await work(library, times=times)
        assert await library.status(found.knowledge_id) is ParseStatus.COMPLETED
    return await library.contents()


@pytest.fixture(params=BOTH)
def kind(request):
    return request.param


@asynccontextmanager
async def opened(kind, folder):
    """A base in a new database of this kind."""
    with migrated(kind, folder) as url:
        async with open_library(folder, url) as library:
            yield library


async def test_a_process_killed_at_any_statement_leaves_nothing_undone_and_nothing_twice(kind, tmp_path):
    async with opened(kind, tmp_path / "0") as library:
        with killed_at(0) as statements:
            undisturbed = await two_attempts(library)
    assert len(undisturbed["chunks"]) == 3
    assert len(undisturbed["entities"]) == 3
    assert undisturbed["slots"] == undisturbed["outbox"] == []
    for number in range(1, len(statements), STRIDES[kind]):
        folder = tmp_path / str(number)
        async with opened(kind, folder) as library:
            with killed_at(number) as ran:
                ended = await two_attempts(library)
        assert len(ran) > number, "it was killed, and went on"
        assert ended == undisturbed, f"killed before statement {number}"
        shutil.rmtree(folder)


async def test_every_job_that_runs_twice_has_the_effect_of_once(kind, tmp_path):
    async with opened(kind, tmp_path / "once") as library:
        once = await two_attempts(library)
    async with opened(kind, tmp_path / "twice") as library:
        twice = await two_attempts(library, times=2)
    assert _but_counters(twice) == _but_counters(once)


async def test_jobs_of_an_older_attempt_that_come_late_change_nothing(kind, tmp_path):
    async with opened(kind, tmp_path / "twice") as library:
        await library.register("/a.txt", "ducks")
        late = {}
        while library.queue.waiting:
            job_id, job = library.queue.waiting.popitem()
            late[job_id] = job
            await handle(library, job_id, job)
        await library.register("/a.txt", "geese")
        before = await library.contents()
        for job_id, job in late.items():
            await handle(library, job_id, job)
        assert await library.contents() == before
        await work(library)
        after = await library.contents()
        for job_id, job in late.items():
            await handle(library, job_id, job)
        assert _but_counters(await library.contents()) == _but_counters(after)
        assert len(late) == 7, "process, picture, post-processing, summary, two graph parts, tags"


def _but_counters(contents):
    """How often the index was written to says nothing of what is in it."""
    return {name: rows for name, rows in contents.items() if name != "search_versions"}
