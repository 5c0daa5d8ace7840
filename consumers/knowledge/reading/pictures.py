"""Pictures that may hold words: their size from their header, and which of them are worth reading."""

import hashlib
import struct
from collections.abc import Iterable
from typing import NamedTuple

from consumers.knowledge.reading.parsed import ExtractedImage, Limits, UnreadableDocument

LEAST_SIDE = 32  # pixels; smaller ones are bullets, rules and icons
LEAST_AREA = 64 * 64
SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
)
JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of a frame, which states the size
TIFF_WIDTH, TIFF_HEIGHT = 256, 257


class Found(NamedTuple):
    """A picture as it was found. A `scan` is a whole page, and worth reading whatever its size."""

    mime: str
    data: bytes
    page: int | None = None
    scan: bool = False


def identify(data: bytes) -> str | None:
    """The MIME type of a picture by its first bytes, None of anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    for signature, mime in SIGNATURES:
        if data.startswith(signature) and (mime != "image/bmp" or data[6:10] == bytes(4)):
            return mime
    return None


def size(data: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels from the header alone, None of a picture that is damaged or has no such header."""
    try:
        match identify(data):
            case "image/png":
                return struct.unpack(">II", data[16:24])
            case "image/gif":
                return struct.unpack("<HH", data[6:10])
            case "image/bmp":
                width, height = struct.unpack("<ii", data[18:26])
                return abs(width), abs(height)
            case "image/jpeg":
                return _size_of_jpeg(data)
            case "image/webp":
                return _size_of_webp(data)
            case "image/tiff":
                return _size_of_tiff(data)
    except (struct.error, IndexError, KeyError):
        return None
    return None


def as_document(data: bytes, mime: str, limits: Limits) -> ExtractedImage:
    """A picture that is a document by itself. Raises UnreadableDocument when it is damaged or too big."""
    if (measured := size(data)) is None or not all(measured):
        raise UnreadableDocument("the picture is damaged or incomplete; download or export it again")
    width, height = measured
    if width * height > limits.picture_pixels:
        raise UnreadableDocument(
            f"the picture has {width} x {height} pixels, over the limit of {limits.picture_pixels // 10**6} million;"
            " make it smaller"
        )
    if len(data) > limits.picture_mb << 20:
        raise UnreadableDocument(f"the picture is over the limit of {limits.picture_mb} MiB; make it smaller")
    return ExtractedImage(data, mime, None, 0)


def worth_reading(
    found: Iterable[Found], limits: Limits
) -> tuple[tuple[ExtractedImage, ...], tuple[str, ...]]:
    """The pictures that may hold words, each once, within the limits, and a warning for what is left out."""
    taken: list[ExtractedImage] = []
    seen: set[bytes] = set()
    room, too_big = limits.pictures_mb << 20, 0
    for mime, data, page, scan in found:
        if not (scan or _may_hold_words(data)) or (digest := hashlib.sha256(data).digest()) in seen:
            continue
        if len(taken) == limits.pictures:
            unread = f"; of the pages from {page} on only what is text was read" if scan else ""
            return tuple(taken), (f"only the first {limits.pictures} pictures were kept{unread}",)
        seen.add(digest)
        width, height = size(data) or (0, 0)
        if width * height > limits.picture_pixels or len(data) > min(limits.picture_mb << 20, room):
            too_big += 1
            continue
        room -= len(data)
        taken.append(ExtractedImage(data, mime, page, len(taken), scan))
    return tuple(taken), (f"pictures left out because they are too big: {too_big}",) if too_big else ()


def _may_hold_words(data: bytes) -> bool:
    width, height = size(data) or (0, 0)
    return min(width, height) >= LEAST_SIDE and width * height >= LEAST_AREA


def _size_of_jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in JPEG_SIZES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0] if marker != 0xFF else 1
    return None


def _size_of_webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8X":
            width, more_width, height, more_height = struct.unpack("<HBHB", data[24:30])
            return 1 + (width | more_width << 16), 1 + (height | more_height << 16)
        case b"VP8L":
            (bits,) = struct.unpack("<I", data[21:25])
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
    return None


def _size_of_tiff(data: bytes) -> tuple[int, int]:
    order = "<" if data[:2] == b"II" else ">"
    (at,) = struct.unpack(f"{order}I", data[4:8])
    (count,) = struct.unpack(f"{order}H", data[at : at + 2])
    tags: dict[int, int] = {}
    for entry in range(min(count, 512)):
        start = at + 2 + 12 * entry
        tag, kind = struct.unpack(f"{order}HH", data[start : start + 4])
        (tags[tag],) = struct.unpack(
            f"{order}{'H' if kind == 3 else 'I'}", data[start + 8 : start + (10 if kind == 3 else 12)]
        )
    return tags[TIFF_WIDTH], tags[TIFF_HEIGHT]
