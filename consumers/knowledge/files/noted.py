"""Files whose owner was never written down, because its process was killed or it was refused: each key is noted before its file
is stored, so that such a file is found later and removed.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.files.store import FileStore
from consumers.knowledge.tables.files import FileNote
from consumers.knowledge.tables.knowledge import table_of
from pipeline.store import Database, now_ms, upsert


class NotedStore:
    """A `FileStore` that notes what is put into it. `put` also raises StoreUnavailable, and stores nothing then."""

    def __init__(self, database: Database, files: FileStore) -> None:
        self._database, self._files = database, files

    @property
    def where(self) -> str:
        """See `FileStore`."""
        return self._files.where

    async def put(self, key: str, data: bytes | Path) -> None:
        """See `FileStore`."""
        row = {"key": key, "noted_at": now_ms()}
        async with self._database.transaction() as session:
            await upsert(session, table_of(FileNote), [row], replace=["noted_at"])
        await self._files.put(key, data)

    async def read(self, key: str) -> bytes:
        """See `FileStore`."""
        return await self._files.read(key)

    def local(self, key: str) -> AbstractAsyncContextManager[Path]:
        """See `FileStore`."""
        return self._files.local(key)

    async def exists(self, key: str) -> bool:
        """See `FileStore`."""
        return await self._files.exists(key)

    async def delete(self, prefix: str) -> int:
        """See `FileStore`."""
        return await self._files.delete(prefix)

    async def tidy(self) -> int:
        """See `FileStore`."""
        return await self._files.tidy()

    async def close(self) -> None:
        """See `FileStore`."""
        await self._files.close()


async def noted_before(session: AsyncSession, moment: int, limit: int) -> Sequence[str]:
    """Return keys that were last noted before a moment (ms), the oldest first."""
    old = select(FileNote.key).where(FileNote.noted_at < moment).order_by(FileNote.noted_at)
    return (await session.scalars(old.limit(limit))).all()


async def forget(session: AsyncSession, keys: Sequence[str], moment: int) -> None:
    """Forget notes, unless their files are being stored again since a moment (ms)."""
    await session.execute(delete(FileNote).where(FileNote.key.in_(keys), FileNote.noted_at < moment))
