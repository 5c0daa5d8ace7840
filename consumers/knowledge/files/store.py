"""Where files lie that are too big for the database: originals, pictures, backups.

A key is a path of plain names, the first of which says whose file it is: everything of a document goes with its
prefix. The API and the workers share no folder, so nobody but a store turns a key into a path.
"""

import asyncio
import errno
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, Protocol

from pipeline.errors import Outage, StreamlaneError

_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}){0,7}")
_SUFFIX: Final = re.compile(r"\.[a-z0-9]{1,16}")
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_COPY_BYTES: Final = 1024 * 1024
_INCOMING: Final = ".incoming"  # no key begins with a dot
_ABANDONED_S: Final = 3600


class FileStoreError(StreamlaneError):
    """The store cannot be used now. Repeating may help."""


class FileStoreAway(FileStoreError, Outage):  # noqa: N818 - a state of the world
    """The store does not answer, or refuses."""


class FileStoreFull(FileStoreAway):
    """There is no room. Nothing was written."""


class FileMissing(FileStoreError):  # noqa: N818 - a state of the world
    """No file has this key."""


class KeyRefused(ValueError):  # noqa: N818
    """Not a key: it could lead outside the store."""


class FileStore(Protocol):
    """Files by key. A file is there completely or not at all, also after a crash."""

    async def put(self, key: str, data: bytes | Path) -> None:
        """Keep these bytes, or those of a local file, under a key, replacing what was there.

        Raises FileStoreFull, FileStoreError; OSError when the local file cannot be read.
        """

    async def read(self, key: str) -> bytes:
        """All bytes of a file. Raises FileMissing."""

    def local(self, key: str) -> AbstractAsyncContextManager[Path]:
        """The file as a local path to read from, for as long as the block runs. Raises FileMissing."""

    async def exists(self, key: str) -> bool:
        """Whether a file has this key."""

    async def delete(self, prefix: str) -> int:
        """Remove the file of this key and all files below it. Says how many; repeating is harmless."""

    async def tidy(self) -> int:
        """Clear away what killed writers left long ago. Says how much."""

    async def close(self) -> None:
        """Let go of its connections."""

    @property
    def where(self) -> str:
        """Where the files lie, for people."""


def file_key(owner: str, data: bytes | Path, name: str = "") -> str:
    """The key of these bytes among the files of `owner`: their SHA-256, and the extension of `name`.

    The same bytes have the same key, so storing them again changes nothing. Reads a whole file: not for the
    event loop.
    """
    if isinstance(data, Path):
        with data.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    else:
        digest = hashlib.sha256(data).hexdigest()
    suffix = Path(name).suffix.lower()
    return checked_key(f"{owner}/{digest}{suffix if _SUFFIX.fullmatch(suffix) else ''}")


def checked_key(key: str) -> str:
    """The key itself. Raises KeyRefused for anything but plain names joined by slashes."""
    if not _KEY.fullmatch(key):
        raise KeyRefused(f"{key[:100]!r} is not a file key: write up to 8 names of A-Za-z0-9._- joined by /")
    return key


class FolderStore:
    """A `FileStore` in one folder, which several processes may share."""

    def __init__(self, root: Path) -> None:
        """Make the folder, and clear it of what killed writers left. Raises FileStoreError, FileStoreFull."""
        self._root = root
        self.where = f"the folder {root}"
        self._incoming = root / _INCOMING
        with _store_errors(str(root)):
            self._incoming.mkdir(parents=True, exist_ok=True)
            _sweep(self._incoming)

    async def put(self, key: str, data: bytes | Path) -> None:
        """See `FileStore`."""
        await asyncio.to_thread(self._put, key, self._path(key), data)

    async def read(self, key: str) -> bytes:
        """See `FileStore`."""
        path = self._path(key)
        with self._errors(key):
            return await asyncio.to_thread(path.read_bytes)

    @asynccontextmanager
    async def local(self, key: str) -> AsyncIterator[Path]:
        """See `FileStore`. This is the stored file itself: whoever gets it only reads."""
        if not await self.exists(key):
            raise FileMissing(f"there is no file {key}")
        yield self._path(key)

    async def exists(self, key: str) -> bool:
        """See `FileStore`."""
        path = self._path(key)
        with self._errors(key):
            return await asyncio.to_thread(lambda: path.is_file() or not self._here())

    async def delete(self, prefix: str) -> int:
        """See `FileStore`."""
        path = self._path(prefix)
        with self._errors(prefix):
            removed = await asyncio.to_thread(_remove, path)
            await asyncio.to_thread(self._here)
        return removed

    async def tidy(self) -> int:
        """See `FileStore`."""
        with self._errors(str(self._root)):
            return await asyncio.to_thread(_sweep, self._incoming)

    async def close(self) -> None:
        """See `FileStore`."""

    def _path(self, key: str) -> Path:
        return self._root / checked_key(key)

    def _here(self) -> bool:
        """Raise FileStoreAway where the store itself is gone, of whose files nothing can be said then: its disk is not mounted."""
        if not self._incoming.is_dir():
            raise FileStoreAway(f"{self.where} is not there: mount it, or put it back")
        return True

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            with _store_errors(what):
                yield
        except FileMissing:
            self._here()
            raise

    def _put(self, key: str, path: Path, data: bytes | Path) -> None:
        with data.open("rb") if isinstance(data, Path) else BytesIO(data) as source, self._errors(key):
            with NamedTemporaryFile(dir=self._incoming, delete=False) as written:
                try:
                    shutil.copyfileobj(source, written, _COPY_BYTES)
                    written.flush()
                    os.fsync(written.fileno())
                    path.parent.mkdir(parents=True, exist_ok=True)
                    Path(written.name).replace(path)
                except BaseException:
                    Path(written.name).unlink(missing_ok=True)
                    raise
            for folder in (path.parent, path.parent.parent):  # a new name, and perhaps a new folder for it
                _sync(folder)


@contextmanager
def _store_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise FileMissing(f"there is no file {what}") from error
    except OSError as error:
        if error.errno in _FULL:
            raise FileStoreFull(f"no room for {what}: free space on the disk, then repeat") from error
        raise FileStoreAway(f"{what} cannot be stored or read: {error.strerror}") from error


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove(path: Path) -> int:
    """Several may remove the same files at once: each file is counted by the one that removed it."""
    removed = 0
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            removed += _unlinked(Path(folder, name))
        with suppress(OSError):  # somebody has put another file there, or removed the folder
            Path(folder).rmdir()
    return removed or _unlinked(path)


def _unlinked(path: Path) -> bool:
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        if path.is_file():
            raise
        return False
    return True


def _sweep(incoming: Path) -> int:
    incoming.touch()  # the clock that counts is the one the file system stamps files with
    abandoned, swept = incoming.stat().st_mtime - _ABANDONED_S, 0
    for left in incoming.iterdir():
        with suppress(FileNotFoundError):
            if left.stat().st_mtime < abandoned:
                left.unlink()
                swept += 1
    return swept
