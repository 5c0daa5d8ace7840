"""Zipped office files: which kind one is, and whether it is safe to open. Sizes are measured, not believed."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

from consumers.knowledge.reading.parsed import Limits, NoDocument, UnreadableDocument

OFFICE = "application/vnd.openxmlformats-officedocument."
KINDS = {  # a part that only this kind has
    "word/document.xml": f"{OFFICE}wordprocessingml.document",
    "ppt/presentation.xml": f"{OFFICE}presentationml.presentation",
    "xl/workbook.xml": f"{OFFICE}spreadsheetml.sheet",
    "xl/workbook.bin": "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
}
NAMED_KINDS = {  # the content of the part `mimetype`
    "application/epub+zip",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.oasis.opendocument.spreadsheet",
}
IWORK = {"pages": "pages", "numbers": "numbers", "key": "keynote"}
PICTURES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif"} | {
    name: f"image/{name}" for name in ("webp", "bmp", "tiff")
}
THUMBNAILS = {"docProps", "Thumbnails"}
MOST_ENTRIES = 10_000
CHUNK = 1 << 16
LOCAL_HEADER = struct.Struct("<4s22xHH")
LOOKED_AT = 4096  # the beginning of a part, where XML declares its entities
DAMAGED = "the file is damaged or incomplete; download or export it again"
NEEDS_PASSWORD = "the file needs a password; save it without one"  # noqa: S105 - a sentence
ENTITIES = "the file defines XML entities, which are not expanded; save it without them"
BOMB = "the file unpacks to more than {limit} MiB, as no ordinary document does; split it or save it again"


def identify(file: BinaryIO, suffix: str, limits: Limits) -> str:
    """The MIME type of a zipped document that is safe to open. Raises UnreadableDocument."""
    with opened(file) as archive:
        names = set(archive.namelist())
        if len(archive.infolist()) > MOST_ENTRIES:
            raise UnreadableDocument(f"the file holds over {MOST_ENTRIES} parts; split it or save it again")
        measure(file, archive, limits)
        for part, kind in KINDS.items():
            if part in names:
                return kind
        if "mimetype" in names and (kind := archive.read("mimetype").decode("ascii", "replace").strip()):
            if (
                b"encryption-data" in _part(archive, "META-INF/manifest.xml")
                or "META-INF/rights.xml" in names
            ):
                raise UnreadableDocument(NEEDS_PASSWORD)
            if kind in NAMED_KINDS:
                return kind
        if "Index/Document.iwa" in names and suffix in IWORK:
            return f"application/x-iwork-{IWORK[suffix]}-sff{suffix}"
    raise NoDocument("the file is an archive; unpack it and add the documents in it")


def opened(file: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OSError, RuntimeError) as error:
        raise UnreadableDocument(DAMAGED) from error


def measure(file: BinaryIO, archive: zipfile.ZipFile, limits: Limits) -> None:
    """Unpack every part into nothing, and stop where it grows too big, holds entities, or cannot be unpacked."""
    left = limits.unpacked_mb << 20
    for entry in archive.infolist():
        if entry.flag_bits & 1:
            raise UnreadableDocument(NEEDS_PASSWORD)
        beginning = b""
        for piece in _inflated(file, entry):
            left -= len(piece)
            if left < 0:
                raise UnreadableDocument(BOMB.format(limit=limits.unpacked_mb))
            if len(beginning) < LOOKED_AT:
                beginning += piece
        if b"<!ENTITY" in beginning[:LOOKED_AT]:
            raise UnreadableDocument(ENTITIES)


def pictures(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """The pictures of an office file as (MIME type, bytes), in the order of their names."""
    with opened(file) as archive:
        found = [(PurePosixPath(name), name) for name in archive.namelist()]
        for path, name in sorted(found, key=lambda pair: (len(pair[1]), pair[1])):
            if path.parts[0] not in THUMBNAILS and (mime := PICTURES.get(path.suffix.lstrip(".").lower())):
                yield mime, archive.read(name)


def _inflated(file: BinaryIO, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """What really comes out of an entry, whatever size it claims to have."""
    file.seek(entry.header_offset)
    header = file.read(LOCAL_HEADER.size)
    if len(header) < LOCAL_HEADER.size or header[:4] != b"PK\3\4":
        raise UnreadableDocument(DAMAGED)
    _, name, extra = LOCAL_HEADER.unpack(header)
    file.seek(name + extra, 1)
    left = entry.compress_size
    inflate = zlib.decompressobj(-zlib.MAX_WBITS) if entry.compress_type == zipfile.ZIP_DEFLATED else None
    if inflate is None and entry.compress_type != zipfile.ZIP_STORED:
        raise UnreadableDocument("the file is packed in a way no office program uses; save it again")
    while left > 0 and (packed := file.read(min(left, CHUNK))):
        left -= len(packed)
        if inflate is None:
            yield packed
            continue
        try:
            while packed:
                yield inflate.decompress(packed, CHUNK)
                packed = inflate.unconsumed_tail
        except zlib.error as error:
            raise UnreadableDocument(DAMAGED) from error
    if left:
        raise UnreadableDocument(DAMAGED)


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    return archive.read(name) if name in archive.namelist() else b""
