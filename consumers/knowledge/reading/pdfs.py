"""PDF to Markdown, by two engines that check each other.

pdf-oxide finds headings and tables, and sometimes tears a form or a table apart; pdfium (in kreuzberg) only reads
lines, in the order in which the page was written. Where both read the same words in the same order, the structure
of the first is believed; where they differ, the lines of the second.
"""

import contextlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consumers.knowledge.reading.parsed import Limits
from consumers.knowledge.reading.pictures import Found
from consumers.knowledge.reading.rendering import html_to_markdown, kreuzberg_config

LEAST_AGREEMENT = 0.8
FEWEST_LETTERS = 16  # of a page with pictures; fewer are a page number under a scan
DPI = 150
POINTS = 72  # an inch has
A4 = (0, 0, 595, 842)
MIME = "application/pdf"
MOST_STRUCTURED_PAGES = 1000  # the time for a page grows with their number
MOST_STRUCTURED_CHARS = 4_000_000  # some 20 seconds; of what follows only the lines are read
LEAST_OF_A_COMPOUND = 4  # letters: shorter ones are prefixes and syllables more often than words
WORD = re.compile(r"\w+")
BROKEN_WORD = re.compile(r"(\w+)- (\w+)")


@dataclass(frozen=True, slots=True)
class Pdf:
    text: str
    title: str | None
    pages: int
    pictures: Iterator[Found]  # found one by one, so that those over a limit cost nothing


def read(path: Path, limits: Limits) -> Pdf:
    """All pages. Raises what pdfium says when neither engine can open the file."""
    document = _open_by_oxide(path)
    lines: list[str] = []
    title = None
    try:
        lines, title = _lines_by_pdfium(path)
    except Exception:
        if document is None:
            raise
    count = len(lines) or int(document.page_count)
    lines += [""] * (count - len(lines))
    texts: list[str] = []
    structured = 0
    for page, plain in enumerate(lines):
        if page < MOST_STRUCTURED_PAGES and structured < MOST_STRUCTURED_CHARS:
            texts.append(_agreed(_structure_by_oxide(document, page), plain))
            structured += len(plain)
        else:
            texts.append(plain)
    return Pdf("\n\n".join(filter(None, texts)), title, count, _pictures(path, document, texts, limits))


def _lines_by_pdfium(path: Path) -> tuple[list[str], str | None]:
    import kreuzberg

    config = kreuzberg_config(
        output_format="plain",
        pages=kreuzberg.PageConfig(extract_pages=True),
        content_filter=kreuzberg.ContentFilterConfig(
            include_headers=True, include_footers=True, include_watermarks=True, strip_repeating_text=False
        ),
    )
    result = kreuzberg.extract_file_sync(str(path), MIME, config)
    return [page["content"].strip() for page in result.pages or []], result.metadata.get("title")


def _open_by_oxide(path: Path) -> Any:
    """The document, or None when this engine cannot open it, or not without a password."""
    import pdf_oxide

    pdf_oxide.disable_logging()
    with _tolerated():
        document = pdf_oxide.PdfDocument(str(path))
        return document if document.authenticate("") else None
    return None  # type: ignore[unreachable] # the block above may pass over its error


def _structure_by_oxide(document: Any, page: int) -> str:
    html = ""
    if document is not None:
        with _tolerated():
            html = document.to_html(page)
    return html_to_markdown(_joined(html)) if html else ""


def _agreed(structured: str, plain: str) -> str:
    if not structured or not plain:
        return structured or plain
    return structured if agreement(structured, plain) >= LEAST_AGREEMENT else plain


def agreement(one: str, other: str) -> float:
    """0 to 1: how many of the pairs of neighbouring words of `other` are neighbours in `one` too."""
    pairs = [set(itertools.pairwise(words)) for words in map(_words, (one, other))]
    return len(pairs[0] & pairs[1]) / len(pairs[1]) if pairs[1] else 1.0


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _joined(html: str) -> str:
    """Words broken at the end of a line made whole, but not the compounds, whose parts are words of the page."""
    known = set(_words(BROKEN_WORD.sub(" ", html)))

    def whole(match: re.Match[str]) -> str:
        head, tail = match.groups()
        likely = tail.lower() in known or len(head) >= LEAST_OF_A_COMPOUND
        compound = likely and head.lower() in known and (head + tail).lower() not in known
        return f"{head}-{tail}" if compound or not tail.islower() else head + tail

    return BROKEN_WORD.sub(whole, html)


def _pictures(path: Path, document: Any, texts: list[str], limits: Limits) -> Iterator[Found]:
    """The pictures in the pages; of a scan, which has no text, the page itself as one picture."""
    for page, text in enumerate(texts):
        images: list[dict[str, Any]] = []
        if document is not None:
            with _tolerated():
                images = document.extract_image_bytes(page)
        if (images or document is None) and sum(map(str.isalnum, text)) < FEWEST_LETTERS:
            with _tolerated():
                images = [{"format": "png", "data": _rendered(path, document, page, limits), "scan": True}]
        for image in images:
            yield Found(f"image/{image['format']}", image["data"], page + 1, image.get("scan", False))


def _rendered(path: Path, document: Any, page: int, limits: Limits) -> bytes:
    import kreuzberg

    left, bottom, right, top = document.page_media_box(page) if document is not None else A4
    width, height = max(1, abs(right - left)), max(1, abs(top - bottom))
    allowed = POINTS * (limits.picture_pixels / (width * height)) ** 0.5
    return bytes(kreuzberg.render_pdf_page(str(path), page, dpi=max(1, int(min(DPI, allowed)))))


@contextlib.contextmanager
def _tolerated() -> Iterator[None]:
    """One engine may fail where the other succeeds: by an error, or by a panic, which is a bare BaseException."""
    try:
        yield
    except (RuntimeError, ValueError, OSError):
        pass
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
