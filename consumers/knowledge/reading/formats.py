"""What a file is: by its content first, by its name only where the content is plain text."""

import re
import struct
from pathlib import PurePath
from typing import BinaryIO

from consumers.knowledge.reading import archives, encodings, pdfs, pictures
from consumers.knowledge.reading.archives import ENTITIES, NEEDS_PASSWORD
from consumers.knowledge.reading.parsed import Limits, NoDocument, UnreadableDocument

LOOKED_AT = 1 << 16
TEXT = "text/plain"
BY_NAME = {  # of files that are text
    "md": "text/markdown",
    "markdown": "text/markdown",
    "mdx": "text/markdown",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "geojson": "application/json",
    "jsonl": "application/x-ndjson",
    "ndjson": "application/x-ndjson",
    "ipynb": "application/x-ipynb+json",
    "html": "text/html",
    "htm": "text/html",
    "xhtml": "text/html",
    "eml": "message/rfc822",
    "rst": "text/x-rst",
    "org": "text/x-org",
    "typ": "application/x-typst",
    "bib": "application/x-bibtex",
    "opml": "application/xml+opml",
    "fb2": "application/x-fictionbook+xml",
    "dbk": "application/docbook+xml",
    "docbook": "application/docbook+xml",
}
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
OLE_STREAMS = (  # the old office container: its kind is the stream it holds
    ("EncryptedPackage", NEEDS_PASSWORD),
    ("WordDocument", "application/msword"),
    ("PowerPoint Document", "application/vnd.ms-powerpoint"),
    ("__properties_version1.0", "application/vnd.ms-outlook"),
    ("Workbook", "application/vnd.ms-excel"),
    ("Book", "application/vnd.ms-excel"),
)
SECTOR = 512
WORD_BEGINS = b"\xec\xa5"  # a flag of the twelfth byte says that the text is encrypted
EXCEL_BEGINS = b"\x09\x08\x10\x00\x00\x06\x05\x00"
EXCEL_PASSWORD = 0x2F
POWERPOINT_USER = b"\xf6\x0f"
POWERPOINT_ENCRYPTED = b"\xdf\xc4\xd1\xf3"  # in the record of the current user
NO_DOCUMENT = {  # signature: what it is
    b"\x7fELF": "a program",
    b"MZ": "a program",
    b"\xfe\xed\xfa": "a program",
    b"\xcf\xfa\xed\xfe": "a program",
    b"\xca\xfe\xba\xbe": "a program",
    b"\x1f\x8b": "a compressed file",
    b"BZh": "a compressed file",
    b"\xfd7zXZ\0": "a compressed file",
    b"\x28\xb5\x2f\xfd": "a compressed file",
    b"7z\xbc\xaf\x27\x1c": "an archive",
    b"Rar!": "an archive",
    b"SQLite format 3\0": "a database",
    b"ID3": "a sound",
    b"OggS": "a sound or a film",
    b"\x1aE\xdf\xa3": "a film",
}
XML_ROOT = re.compile(r"<(?![?!])(?:\w{1,50}:)?(\w{1,50})")
XML_KINDS = {
    "html": "text/html",
    "FictionBook": "application/x-fictionbook+xml",
    "opml": "application/xml+opml",
    "book": "application/docbook+xml",
}
HTML_BEGINS = re.compile(
    r"\s*(<!--.{0,2000}?-->\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
MAIL_HEADER = re.compile(
    r"(?:From|To|Subject|Date|Received|Return-Path|MIME-Version|Message-ID|Delivered-To): ", re.IGNORECASE
)


def identify(file: BinaryIO, name: str, limits: Limits) -> str | None:
    """The MIME type of a file that is no plain text, None of one that may be. Raises UnreadableDocument."""
    head = file.read(LOOKED_AT)
    if mime := pictures.identify(head):
        return mime
    if b"%PDF-" in head[:1024]:
        return pdfs.MIME
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return archives.identify(file, suffix(name), limits)
    if head.startswith(OLE):
        return _ole(head + file.read())
    if head.lstrip().startswith(b"{\\rtf"):
        return "application/rtf"
    _refuse_others(head)
    return None


def glance(head: bytes) -> None:
    """Refuse a file that is none of ours by its first bytes alone, as far as they tell. Raises UnreadableDocument."""
    known = pictures.identify(head) or b"%PDF-" in head[:1024] or head.startswith((b"PK\3\4", b"PK\5\6", OLE))
    if known or head.lstrip().startswith(b"{\\rtf"):
        return
    _refuse_others(head)
    if encodings.decode(head[:LOOKED_AT]).binary:
        raise NoDocument("the file is of a type that is not supported; save it as PDF or text")


def _refuse_others(head: bytes) -> None:
    for signature, what in NO_DOCUMENT.items():
        if head.startswith(signature):
            raise NoDocument(f"the file is {what}, not a document; leave it out")
    if head[257:262] == b"ustar":
        raise NoDocument("the file is an archive; unpack it and add the documents in it")
    if head[4:8] == b"ftyp":
        raise NoDocument("the file is a film or a sound, not a document; leave it out")


def identify_text(text: str, name: str) -> str:
    """The MIME type of a file that is plain text. Raises UnreadableDocument."""
    beginning = text[:LOOKED_AT]
    if beginning.lstrip().startswith("<") and "<!ENTITY" in beginning:
        raise UnreadableDocument(ENTITIES)
    if HTML_BEGINS.match(beginning):
        return "text/html"
    if beginning.lstrip().startswith("<?xml") or suffix(name) in {"xml", "svg"}:
        root = XML_ROOT.search(beginning)
        return XML_KINDS.get(root[1] if root else "", BY_NAME.get(suffix(name), "application/xml"))
    if sum(bool(MAIL_HEADER.match(line)) for line in beginning.split("\n\n", 1)[0].split("\n")) >= 3:
        return "message/rfc822"
    return BY_NAME.get(suffix(name), TEXT)


def suffix(name: str) -> str:
    return PurePath(name).suffix.lstrip(".").lower()


def _ole(data: bytes) -> str:
    """The kind of an old office file. Its streams begin on borders of 512 bytes; encryption is told at their start."""
    kind = next((kind for stream, kind in OLE_STREAMS if stream.encode("utf-16-le") in data), None)
    if kind is None:
        raise UnreadableDocument("the file is damaged, or of an old office format; save it in a newer one")
    if kind == NEEDS_PASSWORD or any(
        _is_encrypted(data[border : border + SECTOR]) for border in range(SECTOR, len(data), SECTOR)
    ):
        raise UnreadableDocument(NEEDS_PASSWORD)
    return kind


def _is_encrypted(sector: bytes) -> bool:
    if sector.startswith(WORD_BEGINS):
        return bool(sector[11] & 1)
    if sector.startswith(EXCEL_BEGINS):
        at = 0
        while at + 4 <= len(sector):
            record, length = struct.unpack_from("<HH", sector, at)
            if record == EXCEL_PASSWORD:
                return True
            at += 4 + length
    return sector[2:4] == POWERPOINT_USER and sector[12:16] == POWERPOINT_ENCRYPTED
