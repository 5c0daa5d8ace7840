"""Archives of a knowledge base: a zip of plain names, each entry with its size and SHA-256 in a manifest that comes last.

An archive comes from anywhere, so nothing of it is believed: its names are ours, no entry is longer than it says or grows
beyond reason, and every byte is compared with the manifest before anything is made of it. Nothing is ever unpacked by name.
"""

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import StreamlaneError

FORMAT: Final = "streamlane-backup"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
BLOCK: Final = 1 << 20
LONGEST_LINE: Final = 64 << 20
MOST_MANIFEST: Final = 64 << 20
DENSEST: Final = 300
"""Times that an entry of more than `LOOKED_AT` bytes may be longer than what it takes in the archive."""
LOOKED_AT: Final = 16 << 20
_NAMES: Final = re.compile(r"rows/[a-z_]{1,64}\.jsonl|index/(?:base|faq)\.(?:jsonl|f32)|files/[0-9]{1,9}")


class ArchiveRefused(StreamlaneError):  # noqa: N818 - named by what happens to it
    """An archive that is damaged, or not one of ours; the text names the entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as the manifest has it. `size` is in bytes."""

    name: str
    size: int
    sha256: str


class Manifest(BaseModel):
    """What an archive holds. `base` is the row of the knowledge base, `about` what people are told."""

    model_config = ConfigDict(extra="forbid")

    format: str
    version: int
    created_at: int
    base: dict[str, Any]
    about: dict[str, Any] = {}
    entries: list[Entry] = Field(max_length=2_000_000)


class Writer:
    """Writes an archive entry by entry; nothing is held in memory but the list of entries."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=3)
        self.entries: list[Entry] = []

    @contextmanager
    def entry(self, name: str, *, stored: bool = False) -> Iterator["Sink"]:
        """Give what an entry is written to; `stored`: as it is, because it cannot be made smaller."""
        info = zipfile.ZipInfo(name)  # without a time: the same base gives the same bytes
        info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        with self._zip.open(info, "w", force_zip64=True) as opened:
            sink = Sink(opened)
            yield sink
        self.entries.append(Entry(name, sink.size, sink.digest.hexdigest()))

    def close(self) -> None:
        """Let go of the file."""
        self._zip.close()

    def finish(self, base: Mapping[str, Any], about: Mapping[str, Any], created_at: int) -> None:
        """Write the manifest, without which it is no archive, and the end."""
        told = {
            "format": FORMAT,
            "version": VERSION,
            "created_at": created_at,
            "base": dict(base),
            "about": dict(about),
            "entries": [asdict(entry) for entry in self.entries],
        }
        self._zip.writestr(MANIFEST, json.dumps(told, ensure_ascii=False))
        self._zip.close()


class Sink:
    """What an entry is written to."""

    def __init__(self, opened: IO[bytes]) -> None:
        self._opened = opened
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Write on."""
        self._opened.write(data)
        self.size += len(data)
        self.digest.update(data)

    def line(self, value: Mapping[str, Any]) -> None:
        """Write a row."""
        self.write(
            json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
            + b"\n"
        )


class Reader:
    """Reads an archive that was checked: `open` refuses all others."""

    def __init__(self, opened: zipfile.ZipFile, manifest: Manifest) -> None:
        self._zip, self.manifest = opened, manifest
        self._sizes = {entry.name: entry.size for entry in manifest.entries}

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, most_bytes: int) -> Iterator[Self]:
        """Check an archive of at most so many bytes when it is unpacked, all of it, and give it.

        Raises ArchiveRefused, OSError.
        """
        with _zip(path) as opened:
            reader = cls(opened, _manifest(opened, most_bytes))
            for entry in reader.manifest.entries:
                reader._check(entry)
            yield reader

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name."""
        return name in self._sizes

    def blocks(self, name: str) -> Iterator[bytes]:
        """The bytes of an entry, some at a time. Raises ArchiveRefused."""
        left = self._sizes[name]
        try:
            with self._zip.open(name) as opened:
                while block := opened.read(min(BLOCK, left + 1)):
                    left -= len(block)
                    if left < 0:
                        raise ArchiveRefused(f"{name}: it is longer than the manifest says")
                    yield block
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
            raise ArchiveRefused(f"{name}: it is damaged ({error})") from None

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        """The rows of an entry. Raises ArchiveRefused, naming the line."""
        rest, number = b"", 0
        for block in self.blocks(name) if self.has(name) else ():
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > LONGEST_LINE:
                raise ArchiveRefused(f"{name}: a line is longer than {LONGEST_LINE >> 20} MB")
            for line in lines:
                number += 1
                yield _row(name, number, line)
        if rest:
            raise ArchiveRefused(f"{name}: its last line is cut off")

    def _check(self, entry: Entry) -> None:
        digest, size = hashlib.sha256(), 0
        for block in self.blocks(entry.name):
            digest.update(block)
            size += len(block)
        if size != entry.size:
            raise ArchiveRefused(f"{entry.name}: it has {size} bytes, not {entry.size}")
        if digest.hexdigest() != entry.sha256:
            raise ArchiveRefused(f"{entry.name}: its SHA-256 is another than the manifest says")


def manifest_of(path: Path, *, most_bytes: int) -> Manifest:
    """Return what an archive says of itself, of which no entry was read. Raises ArchiveRefused, OSError."""
    with _zip(path) as opened:
        return _manifest(opened, most_bytes)


def _zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise ArchiveRefused(f"this is no backup, or it is cut off: {error}") from None


def _manifest(opened: zipfile.ZipFile, most_bytes: int) -> Manifest:
    infos = opened.infolist()
    names = [info.filename for info in infos]
    for info in infos:
        if info.filename != MANIFEST and not _NAMES.fullmatch(info.filename):
            raise ArchiveRefused(f"{info.filename[:100]!r}: no entry of a backup is called so")
        dense = info.file_size > LOOKED_AT and info.file_size > DENSEST * max(1, info.compress_size)
        if dense:
            raise ArchiveRefused(f"{info.filename}: it would grow {DENSEST} times and more")
    if len(names) != len(set(names)):
        double = next(name for name in names if names.count(name) > 1)
        raise ArchiveRefused(f"{double}: it is there twice")
    if MANIFEST not in names:
        raise ArchiveRefused(f"{MANIFEST}: it is missing, so this is no backup")
    if opened.getinfo(MANIFEST).file_size > MOST_MANIFEST:
        raise ArchiveRefused(f"{MANIFEST}: it is longer than {MOST_MANIFEST >> 20} MB")
    try:
        manifest = Manifest.model_validate_json(opened.read(MANIFEST))
    except (ValidationError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ArchiveRefused(f"{MANIFEST}: it cannot be read ({type(error).__name__})") from None
    if manifest.format != FORMAT or manifest.version > VERSION:
        raise ArchiveRefused(
            f"{MANIFEST}: {manifest.format} of version {manifest.version} is not known here: update"
        )
    told = [entry.name for entry in manifest.entries]
    if sorted(told) != sorted(set(names) - {MANIFEST}):
        odd = next(iter(set(told) ^ (set(names) - {MANIFEST})), "an entry")
        raise ArchiveRefused(f"{odd}: it is in the archive or in the manifest only")
    if (total := sum(entry.size for entry in manifest.entries)) > most_bytes:
        raise ArchiveRefused(
            f"it would take {total >> 20} MB: more than the {most_bytes >> 20} MB that are allowed"
        )
    return manifest


def _row(name: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise ArchiveRefused(f"{name}: line {number} is no row")
    return row
