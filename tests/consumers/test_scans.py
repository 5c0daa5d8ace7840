"""Scanned documents: their pages are read as pictures, in their order, beside those that have text."""

import io
import sqlite3
from pathlib import Path

import pytest
from consumers.knowledge.reading.ocr import why_unread
from consumers.knowledge.reading.parsing import Limits, parse_document
from contracts.knowledge import ParseStatus

from tests.support.documents import Scan, pdf
from tests.support.platform import ingest

pytestmark = pytest.mark.skipif(why_unread() is not None, reason="the ocr extra is not installed")


def scan(*lines: str) -> Scan:
    """A page of A4 with these lines, as a scanner sees it."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("RGB", (1240, 1754), "white")
    letters = ImageFont.load_default(36)
    for row, line in enumerate(lines):
        ImageDraw.Draw(picture).text((120, 160 + 70 * row), line, font=letters, fill="black")
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return picture.width, picture.height, file.getvalue()


FIRST = scan("The harbour master keeps the register", "of all ships that came in.")
SECOND = scan("Invoices of the chandler are paid", "on the third Monday of a month.")


def test_pages_without_text_are_pictures_among_pages_of_text(tmp_path: Path):
    path = tmp_path / "mixed.pdf"
    path.write_bytes(
        pdf("This first page is written in letters.", FIRST, "And so is the third of the pages.", SECOND)
    )
    document = parse_document(path, path.name)
    assert (document.pages, [(image.page, image.scan) for image in document.images]) == (
        4,
        [(2, True), (4, True)],
    )
    assert "This first page" in document.text
    assert "third of the pages" in document.text


def test_of_more_pages_than_the_limit_the_first_are_read_and_the_others_named(tmp_path: Path):
    path = tmp_path / "long.pdf"
    path.write_bytes(pdf(*[scan(f"This is page number {n} of the roll.") for n in range(1, 5)]))
    document = parse_document(path, path.name, Limits(pictures=2))
    assert [image.page for image in document.images] == [1, 2]
    assert document.warnings == (
        "only the first 2 pictures were kept; of the pages from 3 on only what is text was read",
    )


async def test_a_scan_is_read_page_by_page_in_order(tmp_path: Path):
    path = tmp_path / "roll.pdf"
    path.write_bytes(pdf(FIRST, "A page of letters between two scans.", SECOND))
    (outcome,) = await ingest(path)
    assert outcome.fate.status is ParseStatus.COMPLETED
    with sqlite3.connect(tmp_path / "data" / "streamlane.db") as db:
        read = db.execute("SELECT text FROM chunks WHERE kind = 'ocr' ORDER BY position").fetchall()
        pictures = db.execute("SELECT page, status FROM images ORDER BY position").fetchall()
    assert pictures == [(1, "read"), (3, "read")]
    assert ["harbour" in read[0][0], "chandler" in read[1][0]] == [True, True]
