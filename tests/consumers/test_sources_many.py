"""A folder of some hundred files: a full run, then changes, deletions and renames; the next run touches exactly those."""

import pytest
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.tables.knowledge import Knowledge
from contracts.sources import SyncMode, SyncState
from sqlalchemy import select, update

from tests.support.harvest import counts, open_harvest, write

FILES, CHANGED, DELETED, RENAMED = 300, 10, 6, 4


@pytest.fixture
async def harvest(tmp_path, database_url):
    async with open_harvest(tmp_path, database_url) as opened:
        yield opened


async def test_what_changed_in_a_large_folder_is_touched_and_nothing_else(harvest, tmp_path):
    folder = tmp_path / "papers"
    names = [f"{n % 7}/{n:04}.txt" for n in range(FILES)]
    write(folder, {name: f"This is paper {name}." for name in names})
    source = await harvest.source()
    assert counts(await harvest.sync(source, mode=SyncMode.FULL)) == {"created": FILES}
    before = await harvest.documents()
    changed, deleted = names[:CHANGED], names[CHANGED : CHANGED + DELETED]
    renamed = names[CHANGED + DELETED : CHANGED + DELETED + RENAMED]
    write(folder, {name: f"This is paper {name}, revised." for name in changed})
    for name in deleted:
        (folder / name).unlink()
    for name in renamed:
        (folder / name).rename(folder / f"new-{name.replace('/', '-')}")
    run = await harvest.sync(source)
    assert (run.state, counts(run)) == (
        SyncState.SUCCESS,
        {
            "changed": CHANGED,
            "deleted": DELETED,
            "renamed": RENAMED,
            "unchanged": FILES - CHANGED - DELETED - RENAMED,
        },
    )
    after = await harvest.documents()
    same = set(names) - {*changed, *deleted, *renamed}
    assert all(after[name].updated_at == before[name].updated_at for name in same)
    assert all((after[name].id, after[name].attempt) == (before[name].id, 2) for name in changed)
    moved = {after[f"new-{name.replace('/', '-')}"].id: name for name in renamed}
    assert moved == {before[name].id: name for name in renamed}
    assert len(after) == FILES - DELETED
    run = await harvest.sync(source, mode=SyncMode.RECONCILE)
    assert (run.detail["in_step"], counts(run)) == (True, {"unchanged": FILES - DELETED})


async def test_a_document_that_was_moved_to_another_base_is_nobodys_any_more(harvest, tmp_path):
    folder = tmp_path / "papers"
    write(folder, {"a.txt": "a", "b.txt": "b", "c.txt": "c"})
    source = await harvest.source()
    await harvest.sync(source)
    before = await harvest.documents()
    async with harvest.services.database.transaction() as session:
        other = await ensure_base(session, 7, "other")
        gone = update(Knowledge).where(Knowledge.id.in_([before["a.txt"].id, before["b.txt"].id]))
        await session.execute(gone.values(knowledge_base_id=other.id, data_source_id=None))
    (folder / "a.txt").rename(folder / "moved.txt")
    (folder / "b.txt").unlink()
    assert counts(await harvest.sync(source)) == {"created": 1, "deleted": 2, "unchanged": 1}
    assert sorted(await harvest.documents()) == ["c.txt", "moved.txt"]
    async with harvest.services.database.read() as session:
        kept = await session.scalars(select(Knowledge.source).where(Knowledge.knowledge_base_id == other.id))
        assert sorted(kept) == sorted(row.source for name, row in before.items() if name != "c.txt")
