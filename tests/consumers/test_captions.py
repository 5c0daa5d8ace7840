"""Captions of pictures: made where a vision model is there, found like text, and never what a document fails for."""

import base64
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from consumers.commands.session import TENANT
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.embedding.embedder import TextRefused
from consumers.knowledge.embedding.endpoint import EndpointAway, EndpointBusy
from consumers.knowledge.vision import SENT_PIXELS, Vision, sendable
from consumers.services import open_services
from contracts.knowledge import ParseStatus
from pipeline import Pipeline
from pipeline.config import load
from pipeline.errors import ConfigurationError
from pipeline.worker.offload import close_children

from tests.support.documents import png
from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.platform import ingest

GROWTH = "A bar chart of the harvest of saffron in four valleys; the northern one leads with 40 tons."


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as opened:
        opened.says = GROWTH
        yield opened


@pytest.fixture
def sees(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> EmbeddingServer:
    """Every process of this test has the vision model of this server."""
    for name, value in server.vision().items():
        monkeypatch.setenv(f"STREAMLANE_{name.upper()}", value)
    monkeypatch.setattr("consumers.handlers.enrichment.why_unread", lambda: "no words are read in this test")
    return server


def rows(folder: Path, query: str) -> list[Any]:
    with sqlite3.connect(folder / "data" / "streamlane.db") as db:
        return db.execute(query).fetchall()


async def picture(tmp_path: Path) -> ParseStatus:
    path = tmp_path / "chart.png"
    path.write_bytes(png(200, 200))
    (outcome,) = await ingest(path)
    return outcome.fate.status


async def test_a_picture_is_described_and_what_was_said_is_indexed(tmp_path: Path, sees: EmbeddingServer):
    assert await picture(tmp_path) is ParseStatus.COMPLETED
    assert rows(tmp_path, "SELECT kind, text FROM chunks") == [("caption", GROWTH)]
    assert ("caption", GROWTH) in rows(tmp_path, "SELECT kind, text FROM search_entries")
    ((status, reason),) = rows(tmp_path, "SELECT status, reason FROM images")
    assert status == "read"
    assert "caption" not in reason
    text, shown = sees.calls[-1]["messages"][0]["content"]
    assert "three plain sentences" in text["text"]
    data = shown["image_url"]["url"].removeprefix("data:image/png;base64,")
    assert base64.b64decode(data) == png(200, 200)


async def test_a_model_that_asks_for_patience_gets_it(tmp_path: Path, sees: EmbeddingServer):
    sees.faults = [(429, {"retry-after": "0.2"}, "slow down")]
    assert await picture(tmp_path) is ParseStatus.COMPLETED
    assert rows(tmp_path, "SELECT kind FROM chunks") == [("caption",)]


@pytest.mark.parametrize(
    "fault", [(400, {}, "no pictures, please"), (429, {"retry-after": "0.2"}, "slow down")]
)
async def test_a_model_that_does_not_answer_fails_no_document_and_the_picture_says_why(
    tmp_path: Path, sees: EmbeddingServer, fault: Any
):
    (tmp_path / "note.md").write_text("# Saffron\n\nIt is harvested in October, in four valleys.\n")
    sees.faults = [fault] * 9
    (tmp_path / "chart.png").write_bytes(png(200, 200))
    note, chart = await ingest(tmp_path / "note.md", tmp_path / "chart.png")
    assert [note.fate.status, chart.fate.status] == [ParseStatus.COMPLETED] * 2
    ((status, reason),) = rows(tmp_path, "SELECT status, reason FROM images")
    assert (status, fault[2] in reason or "is busy" in reason) == ("skipped", True)
    assert "no caption: " in reason


async def test_a_base_may_want_no_captions(tmp_path: Path, sees: EmbeddingServer):
    async with (
        Pipeline.open() as pipeline,
        open_services(pipeline) as services,
        services.database.transaction() as sql,
    ):
        await ensure_base(sql, TENANT, "test", {"caption_pictures": False})
    await picture(tmp_path)
    assert sees.calls == []


async def test_without_a_service_nothing_is_described():
    assert Vision(load()).model("any") is None


async def test_settings_that_do_not_go_together_are_told(server: EmbeddingServer):
    with pytest.raises(ConfigurationError, match="VISION_MODEL"):
        Vision(load(vision_base_url=server.url))
    with pytest.raises(ConfigurationError, match="VISION_BASE_URL"):
        Vision(load(vision_base_url="localhost", vision_model="small"))


async def test_what_the_service_says_tells_whether_to_try_again(server: EmbeddingServer):
    vision = Vision(load(**server.vision()))
    seer = vision.model()
    assert seer is not None
    try:
        server.faults = [(400, {}, "no"), (500, {}, "no"), (200, {}, '{"choices": []}')]
        with pytest.raises(TextRefused):
            await seer.describe(b"x", "image/png")
        for _ in range(2):
            with pytest.raises(EndpointAway):
                await seer.describe(b"x", "image/png")
        server.faults = [(429, {"retry-after": "7"}, "no")]
        with pytest.raises(EndpointBusy) as busy:
            await seer.describe(b"x", "image/png")
        assert busy.value.after == 7
    finally:
        await vision.close()


async def test_a_picture_that_is_too_big_is_sent_smaller():
    pytest.importorskip("PIL", reason="Pillow, which makes pictures smaller, is not installed")
    side = int(SENT_PIXELS**0.5) + 200
    data, mime = await sendable(_whole(side), "image/png", memory_mb=1024)
    assert (mime, data[:3]) == ("image/jpeg", b"\xff\xd8\xff")
    assert await sendable(png(200, 200), "image/png", memory_mb=1024) == (png(200, 200), "image/png")
    await close_children()


def _whole(side: int) -> bytes:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (side, side), "white").save(file, "PNG")
    return file.getvalue()
