"""Kind folder: the files below a folder of the machine of the workers, one that STREAMLANE_SOURCE_FOLDERS lets sources read."""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from consumers.knowledge.documents.ingesting import printable
from consumers.sources.connector import (
    Config,
    Connector,
    Content,
    Item,
    Kind,
    NoCredentials,
    Page,
    SourceError,
    Surroundings,
    listing,
)
from pipeline import Settings

Patterns = Annotated[tuple[str, ...], Field(max_length=100)]


class FolderConfig(Config):
    """Which files. Patterns are those of a shell and look at the path below the folder; without `include`, all files are
    meant. Hidden files and folders, and links that lead out of the folder, never are.
    """

    path: Annotated[str, Field(min_length=1, max_length=4096)]
    include: Patterns = ()
    exclude: Patterns = ()


def admitted_folder(settings: Settings, path: str) -> Path:
    """Return a folder that sources may read, with all links followed; it need not be on this machine. Raises SourceError."""
    if "\0" in path or not Path(path).is_absolute():
        raise SourceError("write the whole path of the folder, from / on")
    place = Path(os.path.realpath(path))
    if not any(place.is_relative_to(os.path.realpath(root)) for root in settings.source_folders):
        raise SourceError(
            f"{path} lies in no folder that sources may read: name one in STREAMLANE_SOURCE_FOLDERS, commas between"
            " several, where this command, the workers and the API start"
        )
    return place


def allowed_folder(settings: Settings, path: str) -> Path:
    """Return a folder that sources may read and that is here. Raises SourceError."""
    place = admitted_folder(settings, path)
    if not place.is_dir():
        raise SourceError(f"{path} is no folder on the machine of this worker, or it is not mounted")
    return place


def _admit(config: FolderConfig, settings: Settings) -> None:
    admitted_folder(settings, config.path)


class Folder:
    """One folder."""

    def __init__(self, config: FolderConfig, settings: Settings) -> None:
        self._config, self._settings = config, settings
        self._limit = settings.max_file_mb << 20

    async def changes(self, cursor: str) -> AsyncIterator[Page]:
        """See `Connector`."""
        root = allowed_folder(self._settings, self._config.path)
        pages = listing(self._items(root), cursor)
        while page := await asyncio.to_thread(next, pages, None):
            yield page

    async def fetch(self, item: Item, into: Path, stamp: str) -> Content:  # noqa: ARG002 - a local file has none
        """See `Connector`."""
        root = allowed_folder(self._settings, self._config.path)
        return await asyncio.to_thread(self._copy, root, item, into)

    async def health(self) -> str:
        """See `Connector`."""
        root = allowed_folder(self._settings, self._config.path)
        found = await asyncio.to_thread(lambda: next(self._items(root), None))
        return "it can be read" if found else "it can be read and has no file that is meant"

    def _copy(self, root: Path, item: Item, into: Path) -> Content:
        path = Path(os.path.realpath(root / item.id))
        if not path.is_relative_to(root):
            raise SourceError("it leads out of the folder")
        if not path.is_file():
            raise SourceError("it is not there (any more), or its name is not UTF-8: rename it")
        status = path.stat()
        if status.st_size > self._limit:
            raise SourceError(f"it has {status.st_size >> 20} MB, the limit is {self._limit >> 20}")
        shutil.copyfile(path, into)
        return Content(version=_version(status))

    def _items(self, root: Path) -> Iterator[Item]:
        """Walk in the order of whole paths: a folder counts as its name and a slash."""
        left = [(root, "")]
        while left:
            folder, below = left.pop()
            if below and not below.endswith("/"):
                yield from self._item(folder, below, root)
                continue
            try:
                entries = list(os.scandir(folder))
            except OSError as error:
                raise SourceError(f"{below or self._config.path}: {error.strerror}") from error
            named = [
                (folder / entry.name, f"{below}{entry.name}{'/' * entry.is_dir(follow_symlinks=False)}")
                for entry in entries
                if not entry.name.startswith(".")
            ]
            left.extend(sorted(named, key=lambda one: one[1], reverse=True))

    def _item(self, path: Path, below: str, root: Path) -> Iterator[Item]:
        wanted = not self._config.include or any(fnmatch(below, one) for one in self._config.include)
        if not wanted or any(fnmatch(below, one) for one in self._config.exclude):
            return
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
            return
        with suppress(FileNotFoundError):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                yield Item(printable(below), printable(path.name), _version(status))


def _version(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}"


@asynccontextmanager
async def _connect(config: FolderConfig, _: NoCredentials, around: Surroundings) -> AsyncIterator[Connector]:
    yield Folder(config, around.settings)


FOLDER: Final = Kind(
    "folder", "the files below a folder of the machine of the workers", FolderConfig, _connect, admit=_admit
)
