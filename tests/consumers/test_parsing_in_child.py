"""Parsing as the handlers call it: in a child process, whose end becomes a sentence too."""

import os
from pathlib import Path

import pytest
from consumers.knowledge.reading import parsing
from consumers.knowledge.reading.parsing import Limits, UnreadableDocument, parse, parse_document
from pipeline.worker.offload import close_children

from tests.support.documents import docx


@pytest.fixture(autouse=True)
async def no_child_is_kept():
    yield
    await close_children()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "stored"
    path.write_text("<html><body>" + "<p>words and <b>more</b> words</p>" * 100_000)
    return path


async def test_the_child_reads_what_this_process_would_read(samples: Path):
    for file in ("pdf/google-doc.pdf", "office/slides.pptx", "text/shift-jis.csv"):
        document = await parse(samples / file, file, timeout=60, memory_mb=1024)
        assert document == parse_document(samples / file, file)


async def test_a_refusal_comes_back_as_it_was_meant(tmp_path):
    path = tmp_path / "stored"
    path.write_bytes(docx("A" * (2 << 20)))
    with pytest.raises(UnreadableDocument) as caught:
        await parse(path, "a.docx", timeout=60, memory_mb=1024, limits=Limits(unpacked_mb=1))
    assert caught.value.reason.startswith("the file unpacks to more than 1 MiB")


async def test_a_file_that_takes_too_long_is_refused_with_the_setting_to_raise(page):
    with pytest.raises(
        UnreadableDocument, match=r"longer than 0\.01 s; split it, or raise STREAMLANE_PARSER_TIMEOUT_S"
    ):
        await parse(page, "a.html", timeout=0.01, memory_mb=1024)


async def test_a_file_that_takes_too_much_memory_is_refused_with_the_setting_to_raise(page):
    with pytest.raises(
        UnreadableDocument, match=r"more than 10 MiB of memory; .* STREAMLANE_PARSER_MEMORY_MB"
    ):
        await parse(page, "a.html", timeout=60, memory_mb=10)


def crash(*_: object) -> None:
    os.abort()


async def test_a_file_that_crashes_its_parser_is_refused(page, monkeypatch):
    monkeypatch.setattr(parsing, "parse_document", crash)
    with pytest.raises(UnreadableDocument, match="the file crashes its parser"):
        await parse(page, "a.html", timeout=60, memory_mb=1024)


async def test_a_file_that_vanished_is_refused(tmp_path):
    with pytest.raises(UnreadableDocument, match="the file is gone; add it again"):
        await parse(tmp_path / "gone", "a.txt", timeout=60, memory_mb=1024)


@pytest.fixture
def all_samples(samples: Path) -> list[Path]:
    return sorted(path for path in samples.rglob("*") if path.is_file())


async def test_reading_all_samples_takes_little_memory(all_samples):
    for path in all_samples:
        try:
            await parse(path, path.name, timeout=60, memory_mb=400)
        except UnreadableDocument as refused:
            assert "memory" not in refused.reason  # noqa: PT017 - every other reason is right
