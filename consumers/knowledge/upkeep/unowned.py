"""Removes files of the file store that nobody has."""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.documents import originals
from consumers.knowledge.files.noted import forget, noted_before
from consumers.knowledge.files.store import FileStore
from consumers.knowledge.tables.attachments import Attachment
from consumers.knowledge.tables.backups import Backup
from consumers.knowledge.tables.knowledge import Image, Knowledge
from consumers.knowledge.tables.tasks import Task
from pipeline.store import Database, now_ms

KEPT_MS: Final = 3 * 24 * 3_600_000
"""How long a file may be without an owner: longer than a restore, which stores the files first, may take."""
AT_ONCE: Final = 100


async def remove_unowned(database: Database, files: FileStore, kept_ms: int = KEPT_MS) -> int:
    """Look whose the files are that were stored some time ago, and remove those of nobody. Says how many.

    Raises StoreUnavailable, FileStoreError.
    """
    removed, before = 0, now_ms() - kept_ms
    while True:
        async with database.transaction() as session:
            keys = await noted_before(session, before, AT_ONCE)
            if not keys:
                return removed
            await originals.hold(session, alone=True)  # nobody comes to own one meanwhile
            owned = await _owned(session, keys)
            for key in keys:
                removed += 0 if key in owned else await files.delete(key)
            await forget(session, keys, before)


async def _owned(session: AsyncSession, keys: Sequence[str]) -> set[str]:
    named: set[str] = set()
    for column in (Knowledge.file_key, Image.file_key, Backup.file_key, Attachment.file_key):
        named.update(await session.scalars(select(column).where(column.in_(keys))))
    documents = await _there(session, Knowledge.id, (_part(key, 0) for key in keys))
    tasks = await _there(session, Task.id, (_part(key, 1) for key in keys if _part(key, 0) == "tasks"))
    return {key for key in keys if key in named or _part(key, 0) in documents or _part(key, 1) in tasks}


async def _there(session: AsyncSession, column: Any, ids: Iterable[str]) -> set[str]:
    return set(await session.scalars(select(column).where(column.in_(list(ids)))))


def _part(key: str, number: int) -> str:
    return PurePosixPath(key).parts[number]
