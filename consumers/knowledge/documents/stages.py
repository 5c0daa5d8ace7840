"""Results of finished stages, kept under what they were made of: a retry after a crash, and another parse of the same
content, find them instead of doing the work again. Losing one costs only time.

A result is a file among those of its document. Its row is written before it, so that no file is without one: what was
not used for long, and the oldest of what is too much, goes.
"""

import hashlib
import importlib.metadata
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import BytesIO
from typing import Final

import numpy as np
import structlog
from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.embedding.embedder import Embedder, Vectors
from consumers.knowledge.files.store import FileMissing, FileStore, FileStoreError
from consumers.knowledge.tables.knowledge import Knowledge, table_of
from consumers.knowledge.tables.stages import StageFile
from contracts.knowledge import ParseStatus
from pipeline.store import Database, now_ms, upsert

FOLDER: Final = "stages"
KEPT_MS: Final = 7 * 24 * 3_600_000
"""How long a result is kept that nobody uses."""
MOST_BYTES: Final = 2 << 30
"""What all results take at most."""
BLOCK: Final = 256
"""Texts whose vectors are kept together: a crash loses at most the work on so many."""
FEWEST: Final = 8
"""Texts from which on it is quicker to read their vectors than to make them."""

log = structlog.get_logger(component="stages")


class Stages:
    """The results of one file store. None of its methods raises for a store of files that fails: a result is only missed."""

    def __init__(self, database: Database, files: FileStore) -> None:
        self._database, self._files = database, files

    async def recall(self, knowledge_id: str, stage: str, *made_of: str) -> bytes | None:
        """Return what a stage of a document made of this, None if it is not kept. Raises StoreUnavailable."""
        key = _key(knowledge_id, stage, made_of)
        try:
            data = await self._files.read(key)
        except FileMissing:
            return None
        except FileStoreError as error:
            log.warning("a result cannot be read", key=key, error=str(error))
            return None
        used = update(StageFile).where(StageFile.key == key).values(used_at=now_ms())
        async with self._database.transaction() as session:
            await session.execute(used, execution_options={"synchronize_session": False})
        return data

    async def keep(self, knowledge_id: str, stage: str, *made_of: str, data: bytes) -> None:
        """Keep what a stage of a document made of this. Raises StoreUnavailable."""
        key = _key(knowledge_id, stage, made_of)
        row = {"key": key, "knowledge_id": knowledge_id, "size": len(data), "used_at": now_ms()}
        async with self._database.transaction() as session:
            if not await stays(session, knowledge_id, keep=True):
                return
            await upsert(session, table_of(StageFile), [row], replace=["size", "used_at"])
        try:
            await self._files.put(key, data)
        except FileStoreError as error:
            log.warning("a result cannot be kept", key=key, error=str(error))
            return
        async with self._database.read() as session:
            stayed = await stays(session, knowledge_id)
        if not stayed:  # its removal may have been here before the file was
            with suppress(FileStoreError):
                await self._files.delete(key)

    async def forget(self, knowledge_id: str) -> None:
        """Remove all results of a document: what comes next does all its stages anew.

        Raises StoreUnavailable, FileStoreError.
        """
        await self._files.delete(f"{knowledge_id}/{FOLDER}")
        async with self._database.transaction() as session:
            await session.execute(delete(StageFile).where(StageFile.knowledge_id == knowledge_id))

    async def prune(self, *, kept_ms: int = KEPT_MS, most_bytes: int = MOST_BYTES) -> int:
        """Remove results that nobody used for long, and the oldest until the others fit. Says how many.

        Raises StoreUnavailable, FileStoreError.
        """
        removed = 0
        while going := await self._superfluous(now_ms() - kept_ms, most_bytes):
            for key in going:
                await self._files.delete(key)
            async with self._database.transaction() as session:
                await session.execute(delete(StageFile).where(StageFile.key.in_(going)))
            removed += len(going)
        return removed

    async def _superfluous(self, before: int, most_bytes: int) -> list[str]:
        oldest = select(StageFile.key, StageFile.size, StageFile.used_at).order_by(StageFile.used_at)
        async with self._database.read() as session:
            excess = (await session.scalar(select(func.sum(StageFile.size))) or 0) - most_bytes
            rows = (await session.execute(oldest.limit(100))).all()
        going: list[str] = []
        for row in rows:
            if row.used_at >= before and excess <= 0:
                break
            going.append(row.key)
            excess -= row.size
        return going


class KeptEmbedder:
    """Makes the vectors of texts of one document, block by block, and each block only once for a `generation` of its index:
    a model may come back as another one under its name.
    """

    def __init__(self, stages: Stages, embedder: Embedder, knowledge_id: str, generation: int = 0) -> None:
        self._stages, self._embedder, self._knowledge_id = stages, embedder, knowledge_id
        self._generation = str(generation)

    @property
    def model(self) -> str:
        """See `Embedder`."""
        return self._embedder.model

    @property
    def dimension(self) -> int:
        """See `Embedder`."""
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder`."""
        if len(texts) < FEWEST:
            return await self._embedder.embed(texts)
        blocks = [await self._block(texts[at : at + BLOCK]) for at in range(0, len(texts), BLOCK)]
        return np.concatenate(blocks)

    async def _block(self, texts: Sequence[str]) -> Vectors:
        made_of = self._knowledge_id, "vectors", self.model, self._generation, *texts
        data = await self._stages.recall(*made_of)
        if data is not None and (kept := self._read(data, len(texts))) is not None:
            return kept
        made = await self._embedder.embed(texts)
        written = BytesIO()
        np.save(written, made, allow_pickle=False)
        await self._stages.keep(*made_of, data=written.getvalue())
        return made

    def _read(self, data: bytes, count: int) -> Vectors | None:
        try:
            rows: Vectors = np.load(BytesIO(data), allow_pickle=False)
        except (ValueError, EOFError, OSError):
            return None
        fits = rows.shape == (count, self.dimension) and rows.dtype == np.float32
        return rows if fits else None


async def stays(session: AsyncSession, knowledge_id: str, *, keep: bool = False) -> bool:
    """Whether a document is there and not being deleted; with `keep`, it stays so until the transaction ends."""
    found = select(Knowledge.id).where(
        Knowledge.id == knowledge_id, Knowledge.parse_status != ParseStatus.DELETING
    )
    return await session.scalar(found.with_for_update(read=True) if keep else found) is not None


def _key(knowledge_id: str, stage: str, made_of: Sequence[str]) -> str:
    digest = hashlib.sha256(_version().encode())
    for part in made_of:
        said = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(said), said))
    return f"{knowledge_id}/{FOLDER}/{stage}-{digest.hexdigest()}"


@cache
def _version() -> str:
    """Another version of this package may read the same file otherwise."""
    return importlib.metadata.version("streamlane")
