"""A deleted knowledge base: hidden and stopped at once, then gone from every table as if it had never been."""

import random

import pytest
from consumers.knowledge.backups import restoring
from consumers.knowledge.bases.knowledge_bases import ensure_base, find_base
from consumers.knowledge.bases.pending import KnowledgeBaseGone
from consumers.knowledge.bases.wiki_lane import RETRACT, ingest_lane
from consumers.knowledge.documents.documents import register
from consumers.knowledge.documents.lifecycle import reparse
from consumers.knowledge.long_work import tasks
from consumers.knowledge.progress.overseeing import counted, listed
from consumers.knowledge.search.store import EntryKind, IndexEntry
from consumers.knowledge.tables.knowledge import KnowledgeBase, table_of
from consumers.knowledge.tables.wiki import PageKind, WikiFolder, WikiPage, WikiPageSource, WikiPageVersion
from consumers.knowledge.upkeep import clearance
from contracts.jobs import Scope
from contracts.knowledge import DocumentEffect as Effect
from contracts.payloads.maintenance import KnowledgeBaseClone, KnowledgeBaseDelete
from contracts.payloads.wiki import WikiIngest
from contracts.tasks import TaskStatus
from pipeline.store import insert_new, now_ms, pending_ops
from sqlalchemy import update

from tests.support.library import MODEL, file, open_library, vector
from tests.support.library_work import killed_at, surviving, work

WRITER = random.Random(20)


@pytest.fixture
async def library(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as opened:
        await opened.register("/of another base.txt", "kept")
        await work(opened)
        yield opened


async def furnish(library, name="doomed"):
    """A second base with documents, a page of a wiki, pending operations, files and a task; return it."""
    library.kb = kb = await library.do(ensure_base, 7, name)
    for content in ("ducks", "geese"):
        await library.register(f"/{content}.txt", content)
    await work(library)
    await library.files.put(f"{kb.id}/backup", b"of the whole base")
    await library.do(wiki, library, kb.id)
    job = KnowledgeBaseClone(tenant_id=7, task_id="t1", source_id="x", target_id=kb.id)
    await library.do(tasks.open_task, "t1", job, tenant_id=7, kb_id=kb.id)
    await library.outbox.relay(older_than_ms=0)
    return kb


async def wiki(session, library, kb_id):
    page = {
        "id": f"page of {kb_id}", "knowledge_base_id": kb_id, "slug": "ducks", "title": "Ducks", "kind": PageKind.TOPIC,
        "folder": "birds", "lead": "", "written": "", "body": "", "related": [], "method": "extractive", "version": 1,
        "created_at": 1, "updated_at": 1,
    }  # fmt: skip
    version = {
        "page_id": page["id"],
        "version": 1,
        "title": "Ducks",
        "written": "",
        "method": "",
        "created_at": 1,
    }
    said = {
        "knowledge_base_id": kb_id, "slug": "ducks", "knowledge_id": "gone before", "attempt": 1, "kind": PageKind.TOPIC,
        "weight": 1.0, "contribution": {},
    }  # fmt: skip
    folder = {"knowledge_base_id": kb_id, "path": "birds", "created_at": 1}
    rows = {WikiPage: page, WikiPageVersion: version, WikiPageSource: said, WikiFolder: folder}
    for table, row in rows.items():
        await insert_new(session, table_of(table), [row])
    entry = IndexEntry(
        id="page entry", kb_id=kb_id, knowledge_id=page["id"], attempt=1, kind=EntryKind.WIKI, text="ducks swim",
        vector=vector(2), model=MODEL,
    )  # fmt: skip
    await library.index.put(session, [entry])
    await pending_ops.add(session, 7, ingest_lane(kb_id), RETRACT, "gone before")


async def begin(library, kb, tenant=7):
    return await library.do(clearance.begin, tenant, kb.id, await library.outbox.choose_cut())


async def remove(library, kb):
    removing = clearance.remove_base(library.database, library.index, library.files, kb.id)
    return [part async for part in removing]


async def held(library):
    """All that the database holds but for the tasks of removals, which tell how they went, and how often it was written to."""
    contents = dict(await library.contents())
    contents.pop("audit_logs")
    contents["tasks"] = [row for row in contents["tasks"] if "kb:delete" not in row]
    contents["search_versions"] = (
        await library.rows("SELECT kb_id FROM search_versions") if sqlite(library) else []
    )
    return contents


def sqlite(library):
    return library.database.url.get_backend_name() == "sqlite"


def files(library):
    root = library.files._root
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_nothing_of_a_removed_base_is_left_in_any_table_or_file_and_its_name_is_free(library):
    before, files_before = await held(library), files(library)
    kb = await furnish(library)
    begun = await begin(library, kb)
    library.queue.waiting.clear()
    parts = await remove(library, kb)
    assert parts.count("document") == 2
    assert parts[-1] == "base"
    assert await held(library) == before
    assert files(library) == files_before
    again = await furnish(library)
    assert again.id != kb.id
    assert begun.effect is Effect.DONE


async def test_a_base_that_is_being_restored_is_there_for_nobody_to_delete(library):
    kb = await library.do(ensure_base, 7, "half restored")

    async def hide(session):
        hidden = {"deleted_at": now_ms() + restoring.HIDDEN_MS}
        await session.execute(update(KnowledgeBase).where(KnowledgeBase.id == kb.id).values(hidden))

    await library.do(hide)
    assert (await begin(library, kb)).effect is Effect.NOT_FOUND
    assert not library.queue.waiting


async def test_a_removal_killed_at_any_statement_comes_to_the_same(library):
    before = await held(library)
    kb = await furnish(library)
    await begin(library, kb)
    library.queue.waiting.clear()
    with killed_at(0) as statements:
        await remove(library, kb)
    assert await held(library) == before
    for number in sorted(WRITER.sample(range(1, len(statements) + 1), 5 if sqlite(library) else 2)):
        kb = await furnish(library)
        await begin(library, kb)
        library.queue.waiting.clear()
        with killed_at(number) as ran:
            await surviving(library, remove, library, kb, times=2)
        assert len(ran) > number, "it was killed, and went on"
        assert await held(library) == before, f"killed before statement {number}"


async def test_a_deleted_base_is_hidden_and_its_jobs_are_stopped_at_once(library):
    kb = await furnish(library)
    await library.register("/waiting.txt", "not parsed yet")
    job = WikiIngest(tenant_id=7, knowledge_base_id=kb.id)
    library.queue.waiting["wiki"], library.queue.rooted["wiki"] = job, 0
    begun = await begin(library, kb)
    (left,) = [
        one for one in library.queue.waiting.values() if Scope("knowledge_base", kb.id) in one.scopes()
    ]
    assert isinstance(left, KnowledgeBaseDelete)
    assert left.effective_engines == ("sqlite" if sqlite(library) else "postgresql",)
    assert begun.task_id in library.queue.waiting
    assert await library.look(find_base, 7, "doomed") is None
    shown = await library.look(lambda session: session.execute(listed(None, "", 7, None)))
    assert [base for _, base in shown] == ["demo"]
    assert await library.look(counted) == {"completed": 1}
    task = await library.look(tasks.find, 7, "t1")
    assert (task.status, task.message) == (TaskStatus.CANCELLED, clearance.STOPPED)


async def test_nothing_comes_into_a_deleted_base_any_more(library):
    kb = await furnish(library)
    [(ident,)] = await library.rows("SELECT id FROM knowledges WHERE source = '/ducks.txt'")
    await begin(library, kb)
    with pytest.raises(KnowledgeBaseGone):
        await library.do(register, kb, file("/late.txt", "late"))
    assert (await library.stop(reparse, ident)).effect is Effect.REFUSED


async def test_asked_again_it_says_which_task_removes_it_and_starts_another_when_that_one_failed(library):
    kb = await furnish(library)
    first = await begin(library, kb)
    again = await begin(library, kb)
    assert (again.effect, again.task_id) == (Effect.ALREADY, first.task_id)
    await library.do(tasks.finish, first.task_id, TaskStatus.FAILED, error="no")
    assert (await begin(library, kb)).task_id not in {"", first.task_id}
    assert (await begin(library, kb, tenant=8)).effect is Effect.NOT_FOUND


async def test_a_base_that_lives_is_not_removed(library):
    kb = await furnish(library)
    before = await library.contents()
    assert "base" not in await remove(library, kb)
    assert await library.contents() == before
    async with library.database.read() as session:
        assert await session.get(KnowledgeBase, kb.id)


async def test_a_removal_is_not_stopped_half_way(library):
    kb = await furnish(library)
    begun = await begin(library, kb)
    stopped = await library.do(tasks.cancel, 7, begun.task_id, await library.outbox.choose_cut())
    assert stopped is Effect.REFUSED
