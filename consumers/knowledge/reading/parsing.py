"""A file to text: in a child process with limits on time and memory, or refused in one sentence."""

import re
import signal
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import BinaryIO

from consumers.knowledge.reading import archives, encodings, formats, languages, pdfs, pictures, texts
from consumers.knowledge.reading.parsed import (
    NO_TEXT,
    ExtractedImage,
    Limits,
    NoDocument,
    ParsedDocument,
    UnreadableDocument,
)
from consumers.knowledge.reading.pictures import Found
from consumers.knowledge.reading.rendering import html_title, html_to_markdown, kreuzberg_config, tidy
from contracts.knowledge import SpanCode

__all__ = ["ExtractedImage", "Limits", "ParsedDocument", "UnreadableDocument", "parse", "parse_document"]

KILLED = {signal.SIGKILL, signal.SIGTERM}
TITLE_CHARS = 200
MOST_BYTES = 4  # of a character
HEADING = re.compile(r"^#{1,3} +(\S.*)$", re.MULTILINE)
HEADING_WITHIN = 2000
FRONT_MATTER = re.compile(r"---\n.*?\n---\n", re.DOTALL)  # of Markdown for site generators
FRONT_TITLE = re.compile(r"^title:\s*[\"']?(.+?)[\"']?\s*$", re.MULTILINE)
SHEETS = {  # whose headings are "Sheet1"
    "application/vnd.ms-excel",
    "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
    "application/vnd.oasis.opendocument.spreadsheet",
    f"{archives.OFFICE}spreadsheetml.sheet",
}
NO_TITLE = {
    "untitled",
    "(anonymous)",
    "anonymous",
    "document",
    "untitled document",
    "powerpoint presentation",
}
DECODED_HERE = {"text/plain", "text/markdown", "text/csv", "text/tab-separated-values"} | {
    f"application/{name}" for name in ("json", "x-ndjson", "x-ipynb+json")
}


async def parse(
    path: Path, name: str, *, timeout: float, memory_mb: int, limits: Limits | None = None
) -> ParsedDocument:
    """Parse the file at `path`, called `name` by its owner, in a child process. Raises UnreadableDocument.

    Other exceptions mean that this process, not the file, is at fault, and that trying again may help.
    """
    from pipeline import run_in_child  # here, because a child that parses has no use for all that it brings

    try:
        return await run_in_child(
            parse_document, path, name, limits or Limits(), timeout=timeout, memory_mb=memory_mb
        )
    except TimeoutError:
        raise UnreadableDocument(
            f"reading the file took longer than {timeout:g} s; split it, or raise STREAMLANE_PARSER_TIMEOUT_S",
            SpanCode.DOCREADER_TIMEOUT,
        ) from None
    except MemoryError:
        raise UnreadableDocument(
            f"reading the file took more than {memory_mb} MiB of memory; split it, or raise STREAMLANE_PARSER_MEMORY_MB",
            SpanCode.DOCREADER_LIMIT,
        ) from None
    except ChildProcessError as death:
        if getattr(death, "signal", None) in KILLED:
            raise  # somebody else ended it, for want of memory perhaps: a retry finds out
        raise UnreadableDocument(
            "the file crashes its parser; save it again, or in another format", SpanCode.DOCREADER_FAILED
        ) from death


def parse_document(path: Path, name: str, limits: Limits | None = None) -> ParsedDocument:
    """Parse in this process. A hostile file may hang, grow or crash it: only for a child. Raises UnreadableDocument."""
    limits = limits or Limits()
    try:
        with path.open("rb") as file:
            document = _read(file, path, name, limits)
    except FileNotFoundError:
        raise UnreadableDocument("the file is gone; add it again", SpanCode.DOCREADER_FAILED) from None
    except PermissionError:
        raise UnreadableDocument(
            "the file may not be read; change its permissions", SpanCode.DOCREADER_FAILED
        ) from None
    except IsADirectoryError:
        raise UnreadableDocument("the path is a folder; add the files in it") from None
    except (UnreadableDocument, OSError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of native code is a BaseException
        raise UnreadableDocument(_sentence(error)) from error
    if not document.text and not document.images:
        raise UnreadableDocument(NO_TEXT)
    _check_length(len(document.text), limits)
    return document


def _check_length(characters: int, limits: Limits) -> None:
    if characters > limits.text_chars:
        raise UnreadableDocument(
            f"the text of the file has over {limits.text_chars} characters, which is the limit; split it"
        )


def _read(file: BinaryIO, path: Path, name: str, limits: Limits) -> ParsedDocument:
    size = path.stat().st_size
    if size == 0:
        raise UnreadableDocument("the file is empty; add it again when it has content")
    if size > limits.file_mb << 20:
        raise UnreadableDocument(
            f"the file has {size / (1 << 20):.0f} MiB, over the limit of {limits.file_mb} MiB; split it",
            SpanCode.DOCREADER_LIMIT,
        )
    mime = formats.identify(file, name, limits)
    file.seek(0)
    if mime is None:
        return _text(file.read(), name, limits)
    if mime == pdfs.MIME:
        pdf = pdfs.read(path, limits)
        return _document(pdf.text, pdf.title, mime, name, limits, pages=pdf.pages, found=pdf.pictures)
    if mime.startswith("image/"):
        picture = pictures.as_document(file.read(), mime, limits)
        return ParsedDocument("", PurePath(name).stem, mime, images=(picture,))
    return _office(file, mime, name, limits)


def _text(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    decoded = encodings.decode(data[: limits.text_chars * MOST_BYTES])
    if decoded.binary:
        raise NoDocument("the file is of a type that is not supported; save it as PDF or text")
    _check_length(max(len(decoded.text), len(data) // MOST_BYTES), limits)
    if not decoded.text.strip():
        raise UnreadableDocument("the file holds nothing but blanks; add it again when it has content")
    warnings = ["some characters could not be read"] if decoded.lossy else []
    mime = formats.identify_text(decoded.text, name)
    title: str | None = None
    found: list[Found] = []
    if mime in DECODED_HERE:
        text, found, odd = texts.convert(decoded.text, mime)
        warnings += odd
    elif mime == "text/html":
        text, title = html_to_markdown(decoded.text), html_title(decoded.text)
    else:
        source = data if mime == "message/rfc822" else decoded.text.encode()
        text, title, _, odd = _by_kreuzberg(source, mime)
        warnings += odd
    return _document(
        text, title, mime, name, limits, found=found, warnings=warnings, encoding=decoded.encoding
    )


def _office(file: BinaryIO, mime: str, name: str, limits: Limits) -> ParsedDocument:
    text, title, pages, warnings = _by_kreuzberg(file.read(), mime)
    found: list[Found] = []
    if zipfile.is_zipfile(file):
        found = [Found(kind, data) for kind, data in archives.pictures(file)]
    return _document(text, title, mime, name, limits, pages=pages, found=found, warnings=warnings)


def _by_kreuzberg(data: bytes, mime: str) -> tuple[str, str | None, int | None, list[str]]:
    """(Markdown, title, pages or slides, warnings)."""
    import kreuzberg

    result = kreuzberg.extract_bytes_sync(data, mime, kreuzberg_config(output_format="markdown"))
    metadata = result.metadata
    warnings = [warning.message for warning in result.processing_warnings]
    if attached := metadata.get("attachments"):
        warnings.append(f"attachments were not read; add them as files: {', '.join(attached)}")
    pages = metadata.get("slide_count") or metadata.get("page_count")
    return tidy(result.content), metadata.get("title") or metadata.get("subject"), pages, warnings


def _document(
    text: str,
    title: str | None,
    mime: str,
    name: str,
    limits: Limits,
    *,
    pages: int | None = None,
    found: Iterable[Found] = (),
    warnings: Iterable[str] = (),
    encoding: str = "utf-8",
) -> ParsedDocument:
    text = encodings.clean(text).strip()
    images, left_out = pictures.worth_reading(found, limits)
    return ParsedDocument(
        text=text,
        title=_title(title, text, mime, name),
        mime=mime,
        language=languages.detect(text, encoding),
        pages=pages,
        images=images,
        warnings=(*warnings, *left_out),
    )


def _title(stated: str | None, text: str, mime: str, name: str) -> str:
    """What the file calls itself, else its first heading near the top, else its name."""
    beginning = text[:HEADING_WITHIN]
    if front := FRONT_MATTER.match(beginning):
        beginning = beginning[front.end() :]
        stated = stated or (found[1] if (found := FRONT_TITLE.search(front[0])) else None)
    stated = " ".join(encodings.clean(stated or "").split())
    if stated and stated.lower() not in NO_TITLE:
        return stated[:TITLE_CHARS]
    heading = HEADING.search(beginning) if mime not in SHEETS else None
    return heading[1].strip("*_ ")[:TITLE_CHARS] if heading else PurePath(name).stem


def _sentence(error: BaseException) -> str:
    """What a parser's error means for the owner of the file."""
    said = str(error).lower()
    if "password" in said or "encrypt" in said:
        return archives.NEEDS_PASSWORD
    if "security limit" in said or "bomb" in said:
        return "the file unpacks to far more than an ordinary document does; split it or save it again"
    return archives.DAMAGED
