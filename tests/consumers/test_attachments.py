"""Answering from attached files in little memory, however long they are."""

import tracemalloc

import numpy as np
import pytest
from consumers.knowledge.answers import attachments
from consumers.knowledge.answers.attachments import Piece
from consumers.knowledge.embedding.hashing import HashingEmbedder
from consumers.knowledge.tables.attachments import Attachment
from consumers.knowledge.tables.knowledge import table_of
from contracts.attachments import AttachmentStatus
from pipeline.store import Database, insert_new, now_ms

from tests.support.databases import migrated

PASSAGES = 3_000
QUESTION = "How much is the monthly rent?"
ANSWER = "The monthly rent is 12,400 crowns."


@pytest.fixture
async def database(tmp_path):
    with migrated("sqlite", tmp_path) as url:
        opened = Database.open(url)
        yield opened
        await opened.close()


async def attached(database: Database, embedder: HashingEmbedder, ident: str, answers_at: int) -> None:
    row = {"id": ident, "tenant_id": 1, "session_id": "s", "file_name": f"{ident}.md", "file_size": 1}
    row |= {"file_key": "k", "status": AttachmentStatus.PROCESSING, "error_message": "", "warnings": []}
    row |= {"created_at": now_ms(), "updated_at": now_ms(), "expires_at": now_ms() + 60_000}
    pieces = [Piece("nothing of that kind " * 70) for _ in range(PASSAGES)]
    pieces[answers_at] = Piece(ANSWER)
    (other,), (fits,) = await embedder.embed([pieces[-1].text]), await embedder.embed([ANSWER])
    vectors = np.stack([fits if at == answers_at else other for at in range(PASSAGES)])
    async with database.transaction() as session:
        await insert_new(session, table_of(Attachment), [row])
        assert await attachments.store_ready(session, ident, pieces, vectors, embedder.model, [])


async def test_the_best_passages_of_long_files_are_found_in_the_memory_of_one_of_them(database):
    embedder = HashingEmbedder()
    names = [f"file-{number}" for number in range(4)]
    for number, name in enumerate(names):
        await attached(database, embedder, name, answers_at=700 * number)
    await attachments.passages(database, embedder, names[:1], QUESTION, 4)  # what is loaded once
    tracemalloc.start()
    try:
        found = await attachments.passages(database, embedder, names, QUESTION, 4)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sorted((one.path, one.text, one.place and one.place.position) for one in found) == [
        (f"{name}.md", ANSWER, 700 * number) for number, name in enumerate(names)
    ]
    vectors_of_one = PASSAGES * embedder.dimension * 4
    assert peak < 4 * vectors_of_one, f"{peak:,} bytes at once"


async def test_what_was_read_with_another_model_fits_nothing(database, monkeypatch):
    await attached(database, HashingEmbedder(), "file", answers_at=0)
    embedder = HashingEmbedder(64)
    monkeypatch.setattr(embedder, "model", "another")
    assert await attachments.passages(database, embedder, ["file", "none"], QUESTION, 4) == []
