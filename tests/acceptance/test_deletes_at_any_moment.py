"""Documents and whole bases are deleted at whatever moments of a real pipeline: nothing of them is left anywhere, and the same
files come in again as if they had never been there.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from consumers.commands.session import POOLS, TENANT
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents.ingesting import Found, find_files, take_in
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.upkeep import clearance
from consumers.knowledge.upkeep.several import delete_several
from consumers.knowledge.upkeep.unowned import remove_unowned
from consumers.lanes import HANDLERS
from consumers.migrations.schema import TARGETS
from consumers.services import Services, open_services
from contracts.knowledge import OPEN, ParseStatus
from contracts.payloads.maintenance import Initiator
from contracts.tasks import TASK_OPEN
from pipeline import Pipeline
from pipeline.store import Outbox
from sqlalchemy import select, text

from tests.support.backends import BACKENDS
from tests.support.databases import migrated
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MOMENTS = 20
PLACES = [
    pytest.param((name, "sqlite" if name == "lite" else "postgres"), id=name,
                 marks=[] if name == "lite" else [pytest.mark.postgres])
    for name in BACKENDS
]  # fmt: skip
STAY = {"tasks", "audit_logs", "task_dead_letters", "database_identity", "tenants", "system_settings"}
"""Tables of what tells of documents and bases that are gone."""


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every transaction of the outbox: moments of the pipeline that do not depend on the clock."""
    begun: list[int] = []
    transaction = Outbox.transaction

    def counted(self: Outbox, parent: Any = None) -> Any:
        begun.append(1)
        return transaction(self, parent)

    monkeypatch.setattr(Outbox, "transaction", counted)
    return begun


@asynccontextmanager
async def at_work(place: tuple[str, str], folder: Path) -> AsyncIterator[tuple[Pipeline, Services]]:
    queue, kind = place
    backend = BACKENDS[queue](folder)
    ours = {handler.payload.spec.type for handler in HANDLERS}
    try:
        with migrated(kind, folder) as url:
            where = url.render_as_string(hide_password=False)
            async with (
                Pipeline.open(**backend.settings(), database_url=where) as pipeline,
                open_services(pipeline) as services,
                pipeline.workers(
                    pools=POOLS, handlers=HANDLERS, services=services, only=ours, duties=services.duties
                ),
            ):
                yield pipeline, services
    finally:
        await backend.close()


async def come_in(services: Services, name: str, files: list[Found]) -> tuple[KnowledgeBase, list[str]]:
    async with services.database.transaction() as sql:
        kb = await ensure_base(sql, TENANT, name, {"wiki": True})
    taken = [one async for some in take_in(services, kb, files) for one in some]
    return kb, [one.knowledge_id for one in taken]  # type: ignore[union-attr]


async def go_on(moments: list[int], by: int) -> None:
    there = len(moments) + by
    await wait_until(lambda: len(moments) >= there, describe="it has gone on", timeout=60)


async def over(services: Services, task_id: str) -> None:
    async def ended() -> bool:
        async with services.database.read() as sql:
            task = await tasks.find(sql, None, task_id)
        return task is None or task.status not in TASK_OPEN

    await wait_until(ended, describe=f"task {task_id} has ended", timeout=120)


async def statuses(services: Services) -> dict[str, ParseStatus]:
    async with services.database.read() as sql:
        rows = await sql.execute(select(Knowledge.id, Knowledge.parse_status))
        return {row[0]: row[1] for row in rows}


async def at_rest(pipeline: Pipeline, services: Services) -> bool:
    if (await services.outbox.waiting())[0]:
        return False
    if any(status in {ParseStatus.DELETING, *OPEN} for status in (await statuses(services)).values()):
        return False
    stats = await pipeline.inspector.queues()
    return not any(stat.pending + stat.active + stat.retry + stat.scheduled for stat in stats)


async def left(services: Services) -> dict[str, int]:
    """How many rows each table has, and the index, but for those of what tells of what is gone. Files that were stored while
    their document went are nobody's, and go when it is time to look at their notes.
    """
    await remove_unowned(services.database, services.files, kept_ms=0)
    named = [table.name for target in TARGETS for table in target.sorted_tables if table.name not in STAY]
    counts: dict[str, int] = {}
    async with services.database.read() as sql:
        for name in (*named, "search_entries"):
            counts[name] = int(await sql.scalar(text(f"SELECT count(*) FROM {name}")) or 0)
    return {name: count for name, count in counts.items() if count}


def files_left(services: Services) -> list[str]:
    root = services.settings.data_dir / "files"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("place", PLACES)
async def test_documents_deleted_at_any_moment_leave_nothing_and_come_in_again(
    place: tuple[str, str], samples: Path, tmp_path: Path, moments: list[int]
) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    files = list(find_files([samples / "web"], leave_out=tmp_path))[:4]
    async with at_work(place, tmp_path) as (pipeline, services):
        for _ in range(MOMENTS):
            kb, ids = await come_in(services, "test", files)
            await go_on(moments, chance.randrange(1, 12))
            cut = await services.outbox.choose_cut()
            async with services.outbox.transaction() as sql:
                asked = await delete_several(sql, kb, ids, cut, Initiator())
            assert asked.count == len(ids), seed
            await over(services, asked.task_id)
            assert await statuses(services) == {}, seed
        kb, ids = await come_in(services, "test", files)
        await wait_until(lambda: at_rest(pipeline, services), describe="all is at rest", timeout=240)
        assert set((await statuses(services)).values()) == {ParseStatus.COMPLETED}, seed
        cut = await services.outbox.choose_cut()
        async with services.outbox.transaction() as sql:
            asked = await delete_several(sql, kb, ids, cut, Initiator())
        await over(services, asked.task_id)
        await wait_until(lambda: at_rest(pipeline, services), describe="all is at rest", timeout=240)
        there = await left(services)
        wiki_alone = {"knowledge_bases", "wiki_pages", "wiki_page_versions", "wiki_folders", "search_entries"}
        assert there.keys() <= wiki_alone | {"search_versions"}, (seed, there)
        async with services.database.read() as sql:
            said = (await sql.execute(text("SELECT slug FROM wiki_pages"))).scalars().all()
        assert [slug for slug in said if slug != "index"] == [], seed
        assert files_left(services) == [], seed


@pytest.mark.parametrize("place", PLACES)
async def test_a_base_deleted_at_any_moment_leaves_nothing_anywhere(
    place: tuple[str, str], samples: Path, tmp_path: Path, moments: list[int]
) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    files = list(find_files([samples / "web"], leave_out=tmp_path))[:4]
    async with at_work(place, tmp_path) as (pipeline, services):
        for number in range(MOMENTS // 2):
            kb, _ = await come_in(services, "test", files)
            await go_on(moments, chance.randrange(1, 60 if number % 2 else 12))
            cut = await services.outbox.choose_cut()
            async with services.outbox.transaction() as sql:
                begun = await clearance.begin(sql, TENANT, kb.id, cut)
            await over(services, begun.task_id)
        await wait_until(lambda: at_rest(pipeline, services), describe="all is at rest", timeout=240)
        assert await left(services) == {}, seed
        assert files_left(services) == [], seed
