"""Resume: a retry after a crash, and another parse of the same content, do no finished stage again. What is counted are
the real parser, the real reader of pictures and the real encoder.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import consumers.handlers.documents
import consumers.handlers.enrichment
import numpy as np
import pytest
from consumers.commands.ingest import Watch
from consumers.commands.session import POOLS, TENANT, Session
from consumers.document_deeds import act
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.documents import stages
from consumers.knowledge.documents.lifecycle import delete
from consumers.knowledge.documents.stages import KeptEmbedder, Stages
from consumers.knowledge.embedding.embedder import LocalEmbedder
from consumers.knowledge.files.store import FileStoreError
from consumers.knowledge.reading.parsed import ExtractedImage
from consumers.knowledge.tables.knowledge import Knowledge
from consumers.knowledge.tables.stages import StageFile
from consumers.lanes import HANDLERS
from consumers.services import open_services
from contracts.knowledge import DocumentVerb
from contracts.outcomes import Retry
from pipeline import Handler, Pipeline
from pipeline.http.documents import Deed
from sqlalchemy import select, update

from tests.consumers.test_handlers import GUIDE, NOTE
from tests.support.documents import docx, png
from tests.support.end_state import end_state
from tests.support.library import open_library
from tests.support.library_work import work as do_all
from tests.support.platform import ingest, write
from tests.support.waiting import wait_until

LONG = "\n\n".join(f"## Part {n}\n\n{f'{GUIDE.splitlines()[2]} Number {n}. ' * 12}" for n in range(40))
ALL = Deed(DocumentVerb.REPARSE)
PASSAGE = 500
"""Longer texts are passages, which one job encodes; two that run at once may both encode the same short ones."""


def passages(work: Counter[str]) -> dict[str, int]:
    """Return how often each passage was encoded."""
    return {text: n for text, n in work.items() if text.startswith("embed ")}


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is really done: files parsed, pictures read, texts encoded."""
    monkeypatch.setattr(stages, "FEWEST", 1)
    done: Counter[str] = Counter()
    encode = LocalEmbedder.embed

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        async def count(*args: Any, **options: Any) -> Any:
            done[name] += 1
            return await real(*args, **options)

        monkeypatch.setattr(module, name, count)

    async def embed(self: LocalEmbedder, texts: Any) -> Any:
        done.update(f"embed {text}" for text in texts if len(text) > PASSAGE)
        done["embed"] += len(texts)
        return await encode(self, texts)

    counted(consumers.handlers.documents, "parse")
    counted(consumers.handlers.enrichment, "read_words")
    monkeypatch.setattr(LocalEmbedder, "embed", embed)
    return done


async def again(deed: Deed = ALL) -> None:
    """Parse all documents again, and wait until they have ended."""
    async with Pipeline.open() as pipeline, open_services(pipeline) as services:
        async with services.database.read() as sql:
            ids = list(await sql.scalars(select(Knowledge.id)))
        done = await act(services.settings, services.outbox, deed, ids)
        assert all(one.ok and one.delivered for one in done)
        ours = {handler.payload.spec.type for handler in HANDLERS}
        async with pipeline.workers(
            pools=POOLS, handlers=HANDLERS, services=services, only=ours, duties=services.duties
        ):
            async with services.database.transaction() as sql:
                kb = await ensure_base(sql, TENANT, "test")
            watch = Watch(Session(pipeline, services), kb, ids)
            await wait_until(watch.over, describe="all documents have ended", timeout=60)


async def test_another_parse_of_the_same_content_does_no_finished_stage_again(
    tmp_path: Path, data_dir: Path, work: Counter[str], either_database: str
) -> None:
    paths = write(tmp_path / "in", guide_md=GUIDE, note_md=NOTE, long_md=LONG)
    (tmp_path / "in" / "pictures.docx").write_bytes(
        docx("hello there", ("word/media/a.png", png(200, 200, 9)))
    )
    await ingest(tmp_path / "in")
    first, state = Counter(work), end_state(data_dir, either_database)
    assert (first["parse"], first["read_words"]) == (len(paths) + 1, 1)
    work.clear()
    await again()
    assert end_state(data_dir, either_database) == state
    assert (work["parse"], work["read_words"]) == (0, 0)
    assert work["embed"] < first["embed"] / 4, (
        "only handfuls, which are encoded sooner than they are looked up"
    )
    work.clear()
    await again(replace(ALL, fresh=True))
    assert end_state(data_dir, either_database) == state
    assert {**passages(work), "parse": work["parse"]} == {**passages(first), "parse": first["parse"]}
    assert work["read_words"] == first["read_words"]


def dying_once(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Handler]:
    """All handlers; the first time that a parse comes to this function, its attempt dies."""
    real, died = getattr(consumers.handlers.documents, name), list[int]()

    async def die(*args: Any, **options: Any) -> Any:
        if not died:
            died.append(1)
            raise Retry(after=0, reason="died")
        return await real(*args, **options)

    monkeypatch.setattr(consumers.handlers.documents, name, die)
    return list(HANDLERS)


async def test_a_crash_after_embedding_does_not_embed_again(
    tmp_path: Path, data_dir: Path, work: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write(tmp_path / "in", long_md=LONG)
    await ingest(*paths)
    undisturbed, state = Counter(work), end_state(data_dir)
    work.clear()
    monkeypatch.setenv("STREAMLANE_DATA_DIR", str(tmp_path / "other"))
    await ingest(*paths, handlers=dying_once("store_parsed", monkeypatch))
    assert passages(work) == passages(undisturbed) != {}
    assert work["parse"] == 1
    assert end_state(tmp_path / "other") == state


async def test_a_crash_in_the_middle_of_embedding_keeps_what_was_embedded(
    tmp_path: Path, data_dir: Path, work: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "BLOCK", 16)
    paths = write(tmp_path / "in", long_md=LONG)
    await ingest(*paths)
    undisturbed = Counter(work)
    work.clear()
    monkeypatch.setenv("STREAMLANE_DATA_DIR", str(tmp_path / "other"))
    counting = LocalEmbedder.embed
    calls = 0

    async def embed(self: LocalEmbedder, texts: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Retry(after=0, reason="died")
        return await counting(self, texts)

    monkeypatch.setattr(LocalEmbedder, "embed", embed)
    (outcome,) = await ingest(*paths)
    assert outcome.fate.status == "completed"
    assert passages(work) == passages(undisturbed) != {}


async def test_a_deadline_shorter_than_the_work_is_met_by_retries_that_go_on(
    tmp_path: Path, data_dir: Path, work: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt is stopped after one block; four blocks need four attempts, and no block is made twice."""
    monkeypatch.setattr(stages, "BLOCK", 12)
    paths = write(tmp_path / "in", long_md=LONG)
    counting, made = LocalEmbedder.embed, 0

    async def embed(self: LocalEmbedder, texts: Any) -> Any:
        nonlocal made
        made += 1
        if made in {2, 4, 6}:
            raise Retry(after=0, reason="out of time")
        return await counting(self, texts)

    monkeypatch.setattr(LocalEmbedder, "embed", embed)
    (outcome,) = await ingest(*paths)
    assert outcome.fate.status == "completed"
    assert work["parse"] == 1
    assert set(passages(work).values()) == {1}


@pytest.fixture
async def kept(tmp_path, database_url):
    async with open_library(tmp_path, database_url) as library:
        for name in ("k1", "k2", "other"):
            found = await library.register(f"/{name}.txt", name)
            async with library.database.transaction() as session:
                one = Knowledge.id == found.knowledge_id
                await session.execute(update(Knowledge).where(one).values(id=name))
        yield library, Stages(library.database, library.files)


class Letters:
    """Encodes a text as its length; counts what it is asked for."""

    model, dimension = "letters", 2

    def __init__(self):
        self.asked = []

    async def embed(self, texts):
        self.asked += texts
        return np.array([[len(text), 1] for text in texts], dtype=np.float32)


async def test_vectors_are_made_once_for_a_document_a_model_and_a_text(kept):
    _, results = kept
    letters = Letters()
    texts = [f"text {n}" for n in range(300)]
    first = await KeptEmbedder(results, letters, "k1").embed(texts)
    assert (await KeptEmbedder(results, letters, "k1").embed(texts) == first).all()
    assert letters.asked == texts
    await KeptEmbedder(results, letters, "k1").embed([*texts[:256], *texts[257:]])
    assert letters.asked == [*texts, *texts[257:]], "the first block is the same"
    await KeptEmbedder(results, letters, "k2").embed(texts[:10])
    letters.model = "other"
    await KeptEmbedder(results, letters, "k1").embed(texts[:256])
    assert len(letters.asked) == 300 + 43 + 10 + 256


async def test_an_index_that_is_made_anew_has_no_vectors_of_what_had_the_name_of_its_model_before(kept):
    _, results = kept
    letters, texts = Letters(), [f"text {n}" for n in range(10)]
    for generation in (0, 1, 1):
        await KeptEmbedder(results, letters, "k1", generation).embed(texts)
    assert letters.asked == 2 * texts


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"nonsense", b"{}"])
async def test_a_damaged_result_is_made_anew(kept, damage):
    library, results = kept
    letters, texts = Letters(), [f"text {n}" for n in range(10)]
    await KeptEmbedder(results, letters, "k1").embed(texts)
    [(key,)] = await library.rows("SELECT key FROM stage_files")
    await library.files.put(key, damage)
    assert len(await KeptEmbedder(results, letters, "k1").embed(texts)) == 10
    assert len(letters.asked) == 20


async def test_results_that_nobody_used_for_long_go(kept):
    library, results = kept
    await results.keep("k1", "read", "a", data=b"old")
    assert await results.prune(kept_ms=-1, most_bytes=100) == 1
    assert await results.recall("k1", "read", "a") is None
    assert await library.rows("SELECT key FROM stage_files") == []
    await results.keep("k1", "read", "a", data=b"new")
    assert await results.prune(kept_ms=60_000) == 0
    assert await results.recall("k1", "read", "a") == b"new"


async def test_of_too_many_results_the_one_used_last_stays(kept):
    library, results = kept
    for name in ("a", "b", "c"):
        await results.keep("k1", "read", name, data=bytes(100))
        await library.do(_aged)
    await results.recall("k1", "read", "a")
    assert await results.prune(most_bytes=150) == 2
    assert await results.recall("k1", "read", "a") == bytes(100)
    assert await results.recall("k1", "read", "c") is None


async def _aged(session):
    """As if what was kept until now had been kept long before what comes next."""
    await session.execute(update(StageFile).values(used_at=StageFile.used_at - 1000))


async def test_a_store_of_files_that_fails_only_costs_time(kept, monkeypatch):
    library, results = kept

    async def fail(*_args):
        raise FileStoreError("the disk is gone")

    monkeypatch.setattr(type(library.files), "put", fail)
    await results.keep("k1", "read", "a", data=b"x")
    monkeypatch.setattr(type(library.files), "read", fail)
    assert await results.recall("k1", "read", "a") is None


async def test_results_go_with_their_document(kept):
    library, results = kept
    found = await library.register()
    await do_all(library)
    await results.keep(found.knowledge_id, "read", "a", data=b"x")
    await results.keep("other", "read", "a", data=b"x")
    await library.stop(delete, [found.knowledge_id])
    await do_all(library)
    assert await results.recall(found.knowledge_id, "read", "a") is None
    assert await library.rows("SELECT knowledge_id FROM stage_files") == [("other",)]


async def test_a_removal_meanwhile_leaves_no_result(kept, monkeypatch):
    library, results = kept
    found = await library.register()
    await do_all(library)
    put = type(library.files).put

    async def late(*file):
        await library.stop(delete, [found.knowledge_id])
        await do_all(library)
        await put(*file)

    monkeypatch.setattr(type(library.files), "put", late)
    await results.keep(found.knowledge_id, "read", "a", data=b"x")
    await results.keep(found.knowledge_id, "read", "b", data=b"x")
    assert await library.rows("SELECT id FROM knowledges WHERE id NOT IN ('k1', 'k2', 'other')") == []
    assert await library.rows("SELECT key FROM stage_files") == []
    assert await results.recall(found.knowledge_id, "read", "a") is None


async def test_a_removal_meanwhile_leaves_no_picture(kept):
    library, _ = kept
    found = await library.register()
    await library.stop(delete, [found.knowledge_id])
    await do_all(library)
    services: Any = SimpleNamespace(files=library.files, database=library.database)
    image = ExtractedImage(png(200, 200, 9), "image/png", None, 0)
    (picture,) = await consumers.handlers.documents._kept(services, found.knowledge_id, [image])
    assert not await library.files.exists(picture.file_key)
    (picture,) = await consumers.handlers.documents._kept(services, "k1", [image])
    assert await library.files.exists(picture.file_key)
