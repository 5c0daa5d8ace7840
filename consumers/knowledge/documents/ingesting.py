"""Bringing files in: found on disk, copied into the file store, registered in a base."""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from consumers.knowledge.documents.documents import ProcessOptions, Registered, SourceFile, register_many
from consumers.knowledge.files.store import file_key
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.scratch import scratch
from consumers.services import Services

ABREAST: Final = 4
"""Files hashed and copied at once."""
TOGETHER: Final = 32
"""Files registered in one transaction, at most."""
TOGETHER_BYTES: Final = 32 << 20
"""Content after which no more files wait for each other."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file named on the command line or found below a folder; `problem` says why it cannot be read."""

    path: Path
    problem: str = ""
    named: bool = False


def find_files(paths: Sequence[Path], *, leave_out: Path) -> Iterator[Found]:
    """Yield every file below `paths`, each once, in order of their names.

    Hidden files and folders are passed over unless named themselves, and so is the folder `leave_out`.
    Folders behind links are not followed: they could lead in circles.
    """
    seen: set[str] = set()
    folders = {path for path in paths if os.path.isdir(path)}  # noqa: PTH112 - never raises
    named = {_place(path) for path in paths if path not in folders}
    for path in paths:
        for found in _walk(path, leave_out.resolve()) if path in folders else (Found(path),):
            if (place := _place(found.path)) not in seen:
                seen.add(place)
                yield replace(found, named=place in named)


def _place(path: Path) -> str:
    return os.path.normpath(path.absolute())


def _walk(root: Path, leave_out: Path) -> Iterator[Found]:
    """Walk without recursion: folders may be nested deeper than Python's stack."""
    left = [(root, True)]
    while left:
        place, is_folder = left.pop()
        if not is_folder:
            yield Found(place)
            continue
        if place.resolve() == leave_out:
            continue
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            yield Found(place, f"the folder cannot be read: {error.strerror}; check its permissions")
            continue
        for entry in entries:
            path = place / entry.name
            linked = entry.is_symlink() and os.path.isdir(path)  # noqa: PTH112 - never raises
            if not entry.name.startswith(".") and not linked:
                left.append((path, entry.is_dir(follow_symlinks=False)))


class CannotTakeIn(Exception):  # noqa: N818 - named as a person would say it
    """A file that cannot be read; nothing is known of its content, so what was read of it before stays."""


Taken = Registered | CannotTakeIn


async def take_in(
    services: Services, kb: KnowledgeBase, found: Sequence[Found], *, retry: bool = False
) -> AsyncIterator[list[Taken]]:
    """Register files, and start the processing of each unless its very content is there, under way, or
    known as unreadable and this is no `retry`. Yields what
    became of them, in order, some at a time: each transaction waits in line behind those of all running jobs.

    Raises StoreUnavailable, StoreFull, FileStoreError.
    """
    options = ProcessOptions.of(kb, services.settings.document_process_timeout)
    for some in _together(found):
        kept = await _kept_all(services, some)
        files = [one for one in kept if isinstance(one, SourceFile)]
        async with services.outbox.transaction() as session:
            registered = iter(await register_many(session, kb, files, options, retry=retry))
        for one, file in zip(some, kept, strict=True):  # a delete of another document may have taken it along
            if isinstance(file, SourceFile) and not await services.files.exists(file.file_key):
                await _kept(services, one)
        yield [next(registered) if isinstance(one, SourceFile) else one for one in kept]


def _together(found: Iterable[Found]) -> Iterator[list[Found]]:
    some: list[Found] = []
    size = 0
    for one in found:
        some.append(one)
        with suppress(OSError):
            size += one.path.stat().st_size
        if len(some) == TOGETHER or size >= TOGETHER_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


async def _kept_all(services: Services, found: Sequence[Found]) -> list[SourceFile | CannotTakeIn]:
    narrow = asyncio.Semaphore(ABREAST)

    async def keep(one: Found) -> SourceFile | CannotTakeIn:
        async with narrow:
            try:
                return await _kept(services, one)
            except CannotTakeIn as problem:
                return problem

    return await asyncio.gather(*map(keep, found))


async def _kept(services: Services, found: Found) -> SourceFile:
    """Copy a file into the file store."""
    if found.problem:
        raise CannotTakeIn(found.problem)
    try:
        status = found.path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise CannotTakeIn("it is not a regular file: a pipe, socket or device has no end")
        size = status.st_size
        limit = services.settings.max_file_mb
        if size > limit << 20:
            raise CannotTakeIn(
                f"it has {size >> 20} MB, the limit is {limit}: split it, or raise STREAMLANE_MAX_FILE_MB"
            )
        with scratch() as folder:  # what is hashed is what is kept, whatever becomes of the file
            copy = await asyncio.to_thread(shutil.copyfile, found.path, folder / "copy")
            key = await asyncio.to_thread(file_key, "originals", copy, found.path.name)
            await services.files.put(key, copy)
    except OSError as error:
        raise CannotTakeIn(
            f"the file cannot be read: {error.strerror or error}; check that it is there and yours"
        ) from None
    return _described(found.path, size, key)


def _described(path: Path, size: int, key: str) -> SourceFile:
    name = printable(path.name)
    return SourceFile(
        source=printable(_place(path)),
        file_name=name,
        file_type=Path(name).suffix.lower().lstrip(".")[:32],
        file_hash=Path(key).stem,
        file_size=size,
        file_key=key,
    )


def printable(text: str) -> str:
    """Return a file name as text that any database can hold: bytes that are not UTF-8 are shown as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
