"""Backups: all of a base in one archive, which answers the same on another database; what is damaged or forged is refused."""

import hashlib
import json
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from consumers.handlers import backup as handlers
from consumers.handlers.backup import back_up, backup_lost, restore, restore_lost
from consumers.knowledge import ids
from consumers.knowledge.backups import backing_up, recovering, restoring
from consumers.knowledge.backups.archive import ArchiveRefused, Reader
from consumers.knowledge.backups.archive_parts import PARTS
from consumers.knowledge.bases.knowledge_bases import find_base
from consumers.knowledge.bases.tags import Pick, set_tags, store_tags
from consumers.knowledge.documents import leftovers
from consumers.knowledge.documents.contents import chunks_of
from consumers.knowledge.documents.enrichments import Asked, Summary, store_questions, store_summary
from consumers.knowledge.documents.leftovers import StillTask
from consumers.knowledge.faq import storing
from consumers.knowledge.faq.reading import Written
from consumers.knowledge.files.store import file_key
from consumers.knowledge.graph.storing import store_graph
from consumers.knowledge.language.extraction import Named, Related
from consumers.knowledge.long_work import tasks
from consumers.knowledge.long_work.store_work import UnderWay
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.ks import HANDLERS
from consumers.migrations.schema import TARGETS
from contracts.identity import new_id
from contracts.knowledge import ParseStatus
from contracts.outcomes import Skip
from contracts.payloads.knowledge import StoreBackup, StoreRestore
from contracts.states import ArchiveReason
from contracts.tasks import TaskStatus
from pipeline.errors import ConfigurationError
from pipeline.testing import assert_enqueued, drain
from sqlalchemy import update

from tests.support.databases import POSTGRES, migrated
from tests.support.library import Killed
from tests.support.shelves import ANIMALS, TENANT, Shelf, open_shelf

QUERIES = (
    "otters asleep",
    "who dances",
    "a heron and its frogs",
    "reset my password",
    "storks in meadows",
)


async def quiet(_what: str, _count: int) -> None:
    """Say nothing."""


async def fill(shelf: Shelf) -> None:
    """Two documents with all that can be made of one, and a ready answer."""
    services, index = shelf.services, shelf.services.search
    for name in ("one", "two"):
        data = f"the original of {name}".encode()
        key = file_key("originals", data, f"{name}.md")
        await services.files.put(key, data)
        knowledge_id = await shelf.write(name, *(ANIMALS[:3] if name == "one" else ANIMALS[3:]))
        document = update(Knowledge).where(Knowledge.id == knowledge_id)
        async with services.outbox.transaction() as sql:
            await sql.execute(document.values(file_key=key, parse_status=ParseStatus.FINALIZING))
            chunks = await chunks_of(sql, knowledge_id, 1)
            row = await sql.get_one(Knowledge, knowledge_id)
        side = await services.side(shelf.kb.id)
        texts = ["Who dances?", f"All about birds, by {name}."]
        asked, said = await side.embedder.embed(texts)
        async with services.outbox.transaction() as sql:
            one = Asked(chunk=chunks[0], text=texts[0], vector=asked)
            await store_questions(sql, index, [one], method="extractive", model=side.model)
            summary = Summary(text=texts[1], method="extractive", vector=said, model=side.model)
            await store_summary(sql, index, row, 1, summary)
            named = [Named("Storks", "name"), Named("Wet Meadows", "name", 2)]
            related = [Related("Storks", "Wet Meadows", "walk in", ANIMALS[0])]
            await store_graph(sql, shelf.kb.id, chunks[0], named, related)
            await set_tags(sql, shelf.kb.id, {"birds": "what flies"})
            await store_tags(
                sql,
                shelf.kb.id,
                knowledge_id,
                1,
                [Pick(ids.tag(shelf.kb.id, "birds"), 0.9)],
                method="extractive",
            )
            await sql.execute(document.values(parse_status=ParseStatus.COMPLETED))
    side = await services.side(shelf.kb.id)
    written = Written("How do I reset my password?", ("Use the link.",), ("I forgot my password",))
    vectors = await storing.embed_forms(side.embedder, [written])
    place = storing.Place(TENANT, shelf.kb.id)
    await shelf.do(storing.write_entries, index, place, [written], vectors, side)


@pytest.fixture
async def shelf(database_url, tmp_path) -> AsyncIterator[Shelf]:
    async with open_shelf(database_url, tmp_path / "data") as opened:
        await fill(opened)
        yield opened


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    """The archive of a base, made on SQLite."""
    path = tmp_path / "made.zip"
    with migrated("sqlite", tmp_path / "from") as url:
        async with open_shelf(url, tmp_path / "from" / "data") as shelf:
            await fill(shelf)
            await write(shelf, path)
    return path


async def write(shelf: Shelf, path: Path) -> backing_up.Archived:
    services = shelf.services
    return await backing_up.write_archive(
        services.database, services.search, services.files, shelf.kb.id, path, quiet
    )


async def answers(shelf: Shelf, kb_id: str = "") -> list[Any]:
    found = [await shelf.find(query, kb_id) for query in QUERIES]
    assert all(one.passages for one in found)
    # which of two that fit alike comes first is a matter of their ids
    return [(one.passages[0].path, sorted((hit.path, hit.text) for hit in one.passages)) for one in found]


@pytest.mark.parametrize(("here", "there"), [("sqlite", POSTGRES.values[0]), (POSTGRES.values[0], "sqlite")])
@pytest.mark.postgres
async def test_a_base_answers_the_same_on_another_database(here, there, tmp_path):
    path = tmp_path / "a.zip"
    with migrated(here, tmp_path / "here") as url:
        async with open_shelf(url, tmp_path / "here" / "data") as shelf:
            await fill(shelf)
            before = await answers(shelf)
            await write(shelf, path)
    with migrated(there, tmp_path / "there") as url:
        async with open_shelf(url, tmp_path / "there" / "data") as other:
            goal = await recovering.from_file(other.services, path, TENANT, "again", quiet)
            assert goal.kb_id == shelf.kb.id, "its ids are free here, so they stay"
            assert await answers(other, goal.kb_id) == before
            assert await files_of(other, goal.kb_id) == ["the original of one", "the original of two"]


async def files_of(shelf: Shelf, kb_id: str) -> list[str]:
    keys = await shelf.rows("SELECT file_key FROM knowledges WHERE knowledge_base_id = :kb", kb=kb_id)
    return sorted([(await shelf.services.files.read(key)).decode() for (key,) in keys])


async def test_beside_the_base_it_came_from_it_is_another_with_ids_of_its_own(shelf, tmp_path):
    before = await answers(shelf)
    await write(shelf, tmp_path / "a.zip")
    goal = await recovering.from_file(shelf.services, tmp_path / "a.zip", TENANT, "copy", quiet)
    assert goal.kb_id != shelf.kb.id
    assert await answers(shelf, goal.kb_id) == before == await answers(shelf)
    for part in PARTS:
        if "knowledge_base_id" in part.table.c:
            count = f"SELECT count(*) FROM {part.table.name} WHERE knowledge_base_id = :kb"
            assert await shelf.rows(count, kb=goal.kb_id) == await shelf.rows(count, kb=shelf.kb.id), (
                part.name
            )
    names = "SELECT t.name, d.title FROM knowledge_tags k JOIN tags t ON t.id = k.tag_id JOIN knowledges d ON d.id = k.knowledge_id WHERE d.knowledge_base_id = :kb ORDER BY d.title"
    assert await shelf.rows(names, kb=goal.kb_id) == [("birds", "one"), ("birds", "two")]
    said = (
        "SELECT s.name, r.kind, t.name, count(*) FROM relations r JOIN entities s ON s.id = r.source_id"
        " JOIN entities t ON t.id = r.target_id JOIN relation_evidence e ON e.relation_id = r.id"
        " WHERE r.knowledge_base_id = :kb GROUP BY s.name, r.kind, t.name"
    )
    assert await shelf.rows(said, kb=goal.kb_id) == [("Storks", "walk in", "Wet Meadows", 2)]


async def test_what_belongs_to_a_base_is_in_its_archive_or_left_out_on_purpose(shelf):
    """A table that comes later has to be put on one of the two lists."""
    left_out = {
        "slots", "knowledge_processing_spans", "stage_files", "file_notes", "tasks", "wiki_readings", "temporary_documents",
        "temporary_chunks", "data_sources", "sync_logs", "source_items", "tenants", "knowledge_bases", "backups",
        "memory_settings", "memory_subjects", "memory_items", "session_messages",
    }  # fmt: skip
    _, domain = TARGETS
    assert set(domain.tables) == {part.table.name for part in PARTS} | left_out
    assert shelf


async def test_an_archive_is_one_snapshot(shelf, tmp_path):
    """What is written while it is made is not in it, in no table."""
    written = False

    async def beside(what: str, _count: int) -> None:
        nonlocal written
        if what == "chunks" and not written:
            written = True
            await shelf.write("three", *ANIMALS)

    services = shelf.services
    made = await backing_up.write_archive(
        services.database, services.search, services.files, shelf.kb.id, tmp_path / "a.zip", beside
    )
    assert (made.documents, written) == (2, True)
    with Reader.open(tmp_path / "a.zip", most_bytes=1 << 30) as reader:
        documents = {row["id"] for row in reader.rows("rows/knowledges.jsonl")}
        for name in ("rows/chunks.jsonl", "rows/questions.jsonl"):
            assert {row["knowledge_id"] for row in reader.rows(name)} == documents
        assert {row["knowledge_id"] for row in reader.rows("index/base.jsonl")} == documents


async def asked(shelf: Shelf) -> StoreBackup:
    backup_id = await shelf.do(backing_up.ask_for, shelf.kb.id)
    return await assert_enqueued(shelf.pipeline, StoreBackup, backup_id=backup_id)


async def kept(shelf: Shelf) -> list[str]:
    async with shelf.services.database.read() as sql:
        found = await backing_up.list_backups(sql, TENANT, shelf.kb.id, 100)
    return [one.id for one in found]


async def test_a_job_makes_a_backup_once_however_often_it_runs(shelf):
    job = await asked(shelf)
    await drain(shelf.pipeline, HANDLERS, services=shelf.services)
    await back_up(job, shelf.context())
    assert await kept(shelf) == [job.backup_id]
    task = await shelf.task(job.backup_id)
    assert task.status is TaskStatus.COMPLETED
    async with recovering.archive_of(shelf.services, job.backup_id) as path:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == task.detail["sha256"]


async def test_the_newest_backups_are_kept(shelf):
    jobs = []
    for _ in range(3):
        jobs.append(await asked(shelf))
        context = shelf.context()
        context.services = shelf.with_settings(backups_kept=2)
        await back_up(jobs[-1], context)
    assert await kept(shelf) == [jobs[2].backup_id, jobs[1].backup_id]
    assert not await shelf.services.files.exists(backing_up.key_of(shelf.kb.id, jobs[0].backup_id))


async def test_a_backup_that_is_killed_is_made_when_its_job_runs_again(shelf, monkeypatch):
    job = await asked(shelf)
    with monkeypatch.context() as patched:
        patched.setattr(backing_up, "_file", die)
        with suppress(Killed):
            await back_up(job, shelf.context())
    assert await kept(shelf) == []
    await back_up(job, shelf.context())
    assert await kept(shelf) == [job.backup_id]


async def die(*_: Any) -> bool:
    raise Killed


async def test_a_cancelled_backup_leaves_nothing(shelf, monkeypatch):
    job = await asked(shelf)
    monkeypatch.setattr(handlers, "SAY_S", 0.0)
    rows = backing_up._rows

    async def cancelling(*args: Any) -> int:
        cut = await shelf.services.outbox.choose_cut()
        await shelf.do(tasks.cancel, TENANT, job.backup_id, cut)
        return await rows(*args)

    with monkeypatch.context() as patched:
        patched.setattr(backing_up, "_rows", cancelling)
        await back_up(job, shelf.context())
    assert await kept(shelf) == []
    await shelf.services.files.put(backing_up.key_of(shelf.kb.id, job.backup_id), b"left by a killed process")
    await drain(shelf.pipeline, HANDLERS, services=shelf.services)
    assert not await shelf.services.files.exists(backing_up.key_of(shelf.kb.id, job.backup_id))


async def test_a_backup_that_died_fails_its_task_and_of_two_at_once_the_second_is_told(shelf):
    job = await asked(shelf)
    with pytest.raises(UnderWay, match=job.backup_id):
        await asked(shelf)
    letter: Any = type("Letter", (), {"reason": ArchiveReason.EXHAUSTED, "error": "boom"})()
    await backup_lost(job, letter, shelf.services)
    assert "boom" in (await shelf.task(job.backup_id)).error


async def restoring_of(shelf: Shelf, path: Path, name: str = "again") -> StoreRestore:
    task_id = new_id()
    await shelf.services.files.put(recovering.key_of(task_id), path)
    await shelf.do(recovering.ask_for, task_id, TENANT, recovering.key_of(task_id), name)
    return await assert_enqueued(shelf.pipeline, StoreRestore, task_id=task_id)


@pytest.mark.parametrize("step", [0, 1, 4, 8])
async def test_a_restore_that_is_killed_shows_nothing_and_goes_on_when_it_runs_again(
    shelf, archive, monkeypatch, step
):
    job, before = await restoring_of(shelf, archive), await answers(shelf)
    insert, left = restoring._insert, iter(range(step))

    async def dying(*args: Any) -> None:
        if next(left, None) is None:
            raise Killed
        await insert(*args)

    with monkeypatch.context() as patched:
        patched.setattr(restoring, "_insert", dying)
        with suppress(Killed):
            await restore(job, shelf.context())
    async with shelf.services.database.read() as sql:
        assert await find_base(sql, TENANT, "again") is None
    await restore(job, shelf.context())
    await restore(job, shelf.context())
    assert await answers(shelf, job.knowledge_base_id) == before
    assert (await shelf.task(job.task_id)).status is TaskStatus.COMPLETED
    assert not await shelf.services.files.exists(job.file_key), "the archive was sent for this alone"


async def test_a_cancelled_restore_leaves_nothing(shelf, archive, monkeypatch):
    job = await restoring_of(shelf, archive)
    monkeypatch.setattr(handlers, "SAY_S", 0.0)
    insert, before = restoring._insert, await everything(shelf)

    async def cancelling(*args: Any) -> None:
        await insert(*args)
        cut = await shelf.services.outbox.choose_cut()
        await shelf.do(tasks.cancel, TENANT, job.task_id, cut)

    with monkeypatch.context() as patched:
        patched.setattr(restoring, "_insert", cancelling)
        await restore(job, shelf.context())
    await drain(shelf.pipeline, HANDLERS, services=shelf.services)
    assert await everything(shelf) == before
    assert not await shelf.services.files.exists(job.file_key)


async def test_nothing_comes_into_a_base_that_somebody_removes_before_its_restore_knows(
    shelf, archive, monkeypatch
):
    job, before = await restoring_of(shelf, archive), await everything(shelf)
    insert = restoring._insert

    async def removed(*args: Any) -> None:
        monkeypatch.setattr(restoring, "_insert", insert)
        await insert(*args)
        await recovering.abandon(shelf.services, job.knowledge_base_id)

    monkeypatch.setattr(restoring, "_insert", removed)
    with suppress(Skip):
        await restore(job, shelf.context())
    assert await everything(shelf) == before


async def test_a_restore_that_is_refused_in_the_middle_says_why(shelf, archive):
    forged = rewritten(archive, swap("index/base.jsonl", b'"kind":"text"', b'"kind":"cake"'), honest=True)
    job = await restoring_of(shelf, forged)
    with pytest.raises(Skip, match="cake"):
        await restore(job, shelf.context())
    task = await shelf.task(job.task_id)
    assert (task.status, "cake" in task.error) == (TaskStatus.FAILED, True)


async def test_a_restore_that_died_leaves_nothing_and_not_its_archive(shelf, archive):
    job, before = await restoring_of(shelf, archive), await everything(shelf)
    letter: Any = type("Letter", (), {"reason": ArchiveReason.EXHAUSTED, "error": "boom"})()
    await restore_lost(job, letter, shelf.services)
    assert "boom" in (await shelf.task(job.task_id)).error
    assert await everything(shelf) == before
    assert not await shelf.services.files.exists(job.file_key)


async def test_what_a_task_whose_job_was_lost_has_made_is_removed(shelf, archive):
    """Housekeeping ends it, in a process that may have no handlers."""
    job = await restoring_of(shelf, archive)
    task = StillTask(job.task_id, job.spec.type, (await shelf.task(job.task_id)).updated_at)
    assert await shelf.do(leftovers.give_up_task, task, "lost")
    await drain(shelf.pipeline, HANDLERS, services=shelf.services)
    assert not await shelf.services.files.exists(job.file_key)


async def everything(shelf: Shelf) -> dict[str, int]:
    names = [*(part.table.name for part in PARTS), "search_entries", "search_vectors", "knowledge_bases"]
    return {name: (await shelf.rows(f"SELECT count(*) FROM {name}"))[0][0] for name in names}


async def test_a_name_that_is_taken_is_refused_before_anything_is_made(shelf, archive):
    before = await everything(shelf)
    with pytest.raises(ConfigurationError, match="there is a knowledge base 'shelf' already"):
        await recovering.from_file(shelf.services, archive, TENANT, None, quiet)
    assert await everything(shelf) == before


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], *, honest: bool) -> Path:
    """The archive with other entries; `honest`: with the sums of those."""
    with zipfile.ZipFile(path) as opened:
        entries = {name: opened.read(name) for name in opened.namelist()}
    change(entries)
    manifest = json.loads(entries["manifest.json"])
    if honest:
        manifest["entries"] = [
            {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in entries.items()
            if name != "manifest.json"
        ]
    entries["manifest.json"] = json.dumps(manifest).encode()
    forged = path.with_name("forged.zip")
    with zipfile.ZipFile(forged, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in entries.items():
            opened.writestr(name, data)
    return forged


def put(name: str, data: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda entries: entries.update({name: data})


def swap(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda entries: entries.update({name: entries[name].replace(old, new)})


REFUSED: list[Any] = [
    (swap("rows/chunks.jsonl", b"Storks", b"Snakes"), False, "rows/chunks.jsonl: its SHA-256"),
    (put("files/0", b"another"), False, "files/0: it has 7 bytes"),
    (put("../../etc/passwd", b"x"), True, "etc/passwd.*no entry of a backup is called so"),
    (put("/rows/chunks.jsonl", b"x"), True, "no entry of a backup is called so"),
    (put("files/99", b"\0" * (40 << 20)), True, "files/99: it would grow 300 times"),
    (lambda entries: entries.pop("files/0"), False, "files/0: it is in the archive or in the manifest only"),
    (
        swap("rows/chunks.jsonl", b'"position":0', b'"position":"x"'),
        True,
        "rows/chunks.jsonl: line .*position is a str",
    ),
    (swap("rows/chunks.jsonl", b'"kind":"text"', b'"kind":"cake"'), True, "rows/chunks.jsonl: line 1"),
    (put("rows/chunks.jsonl", b"[1]\n"), True, "rows/chunks.jsonl: line 1 is no row"),
    (put("rows/chunks.jsonl", b"[" * 200_000 + b"\n"), True, "rows/chunks.jsonl: line 1 is no row"),
    (put("rows/chunks.jsonl", b"{}"), True, "rows/chunks.jsonl: its last line is cut off"),
    (put("rows/chunks.jsonl", b""), True, "it names what the archive has not"),
    (swap("index/base.jsonl", b'"kind":"text"', b'"kind":"cake"'), True, "index/base.jsonl: line"),
    (put("index/base.f32", b"\0" * 8), True, "index/base.jsonl: line 1 .*fewer vectors"),
    (swap("rows/chunks.jsonl", b"Storks", b"Sto\\ud800rks"), True, "rows/chunks.jsonl: .*no database"),
    (
        swap("manifest.json", b'"embedding_dimension": 64', b'"embedding_dimension": "x"'),
        True,
        "manifest.json",
    ),
    (
        swap("manifest.json", b'"embedding_dimension": 64', b'"embedding_dimension": 9e99'),
        True,
        "manifest.json",
    ),
    (swap("manifest.json", b'"embedding_model": "', b'"embedding_model": "\\ud800'), True, "manifest.json"),
]


@pytest.mark.parametrize(("change", "honest", "said"), REFUSED)
async def test_what_is_damaged_or_forged_is_refused_naming_the_entry_and_leaves_nothing(
    shelf, archive, change, honest, said
):
    before = await everything(shelf)
    forged = rewritten(archive, change, honest=honest)
    with pytest.raises(ArchiveRefused, match=said):
        await recovering.from_file(shelf.services, forged, TENANT, "again", quiet)
    assert await everything(shelf) == before
    async with shelf.services.database.read() as sql:
        assert await find_base(sql, TENANT, "again") is None


async def test_an_archive_that_points_to_the_document_of_another_base_reaches_nothing_of_it(shelf, archive):
    ((victim,),) = await shelf.rows("SELECT min(id) FROM knowledges")
    with zipfile.ZipFile(archive) as opened:
        own = json.loads(opened.read("rows/knowledges.jsonl").splitlines()[0])["id"]
    forged = rewritten(archive, swap("rows/chunks.jsonl", own.encode(), victim.encode()), honest=True)
    before = await everything(shelf)
    with pytest.raises(ArchiveRefused, match=r"rows/chunks\.jsonl: line"):
        await recovering.from_file(shelf.services, forged, TENANT, "again", quiet)
    assert await everything(shelf) == before


@pytest.mark.parametrize("cut", [0, 10, 0.5, 0.99])
async def test_a_file_that_is_cut_off_is_no_backup(shelf, archive, cut):
    data = archive.read_bytes()
    archive.write_bytes(data[: int(len(data) * cut) if cut < 1 else cut])
    job = await restoring_of(shelf, archive)
    with pytest.raises(Skip, match="this is no backup, or it is cut off"):
        await restore(job, shelf.context())
    task = await shelf.task(job.task_id)
    assert task.status is TaskStatus.FAILED
    assert "cut off" in task.error


async def test_any_byte_that_flips_is_noticed(archive, tmp_path):
    data = archive.read_bytes()
    for place in range(40, len(data), len(data) // 40):
        flipped = tmp_path / "flipped.zip"
        flipped.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        try:
            with Reader.open(flipped, most_bytes=1 << 30) as reader:
                told = {name: list(reader.blocks(name)) for name in reader._sizes}
        except ArchiveRefused:
            continue
        with Reader.open(archive, most_bytes=1 << 30) as reader:
            assert told == {name: list(reader.blocks(name)) for name in reader._sizes}, (
                "nobody reads that byte"
            )


async def test_an_archive_that_would_take_too_much_room_is_refused(archive):
    with pytest.raises(ArchiveRefused, match="it would take"), Reader.open(archive, most_bytes=100):
        pass


async def test_a_document_in_work_is_complete_as_far_as_it_is_read_or_says_why_it_is_not(shelf, tmp_path):
    async with shelf.services.outbox.transaction() as sql:
        await sql.execute(
            update(Knowledge).where(Knowledge.title == "one").values(parse_status=ParseStatus.FINALIZING)
        )
        await sql.execute(
            update(Knowledge)
            .where(Knowledge.title == "two")
            .values(parse_status=ParseStatus.PROCESSING, parsed_attempt=0)
        )
    await write(shelf, tmp_path / "a.zip")
    goal = await recovering.from_file(shelf.services, tmp_path / "a.zip", TENANT, "copy", quiet)
    rows = await shelf.rows(
        "SELECT title, parse_status, error_message FROM knowledges WHERE knowledge_base_id = :kb ORDER BY title",
        kb=goal.kb_id,
    )
    assert rows == [("one", "completed", ""), ("two", "failed", restoring.UNDER_WAY)]


async def test_a_backup_outlives_its_base(shelf):
    job = await asked(shelf)
    await back_up(job, shelf.context())
    before = await answers(shelf)
    async with shelf.services.database.transaction() as sql:
        await sql.execute(update(KnowledgeBase).values(deleted_at=1))
    await recovering.abandon(shelf.services, shelf.kb.id)
    async with recovering.archive_of(shelf.services, job.backup_id) as path:
        goal = await recovering.from_file(shelf.services, path, TENANT, None, quiet)
    assert (goal.kb_id, goal.name) == (shelf.kb.id, "shelf")
    assert await answers(shelf) == before
