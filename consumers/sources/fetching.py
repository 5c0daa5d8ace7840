"""Fetching items of a source: at most so many at once, each into a file and from there into the file store."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from consumers.knowledge.documents.documents import SourceFile
from consumers.knowledge.documents.ingesting import printable
from consumers.knowledge.files.store import FileStoreError, file_key
from consumers.services import Services
from consumers.sources import items
from consumers.sources.connector import Connector, Content, Item, SourceError
from consumers.sources.items import Known
from pipeline.errors import StoreUnavailable

ABREAST: Final = 4
"""Items fetched at once."""
NOTHING: Final = Content()


@dataclass(frozen=True, slots=True)
class Got:
    """What came of fetching an item."""

    item: Item
    content: Content = NOTHING
    file: SourceFile | None = None
    local: Path | None = None
    error: str = ""


class Fetcher:
    """Fetches items of one source."""

    def __init__(self, services: Services, source_id: str, connector: Connector) -> None:
        self._services, self._source_id, self._connector = services, source_id, connector
        self._narrow = asyncio.Semaphore(ABREAST)

    async def fetch(self, item: Item, known: Known | None, into: Path) -> Got:
        """Fetch an item into a file, and keep that in the file store; what is wrong with it is said, and nothing raised but
        StoreUnavailable, FileStoreError.
        """
        async with self._narrow:
            try:
                content = await self._connector.fetch(item, into, known.stamp if known else "")
                name = printable(content.name or item.name)
                item = replace(item, name=name, version=content.version or item.version)
                if content.unchanged:
                    return Got(item, content)
                return Got(item, content, await self._keep(item, into), into)
            except (StoreUnavailable, FileStoreError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the others go on
                said = error.strerror if isinstance(error, OSError) else str(error)
                return Got(item, error=said or type(error).__name__)

    async def _keep(self, item: Item, path: Path) -> SourceFile:
        size, limit = (await asyncio.to_thread(path.stat)).st_size, self._services.settings.max_file_mb
        if size > limit << 20:
            raise SourceError(f"it has {size >> 20} MB, the limit is {limit}")
        name = item.name or "unnamed"
        key = await asyncio.to_thread(file_key, "originals", path, name)
        await self._services.files.put(key, path)
        return SourceFile(
            source=items.document_source(self._source_id, item.id),
            file_name=name,
            file_type=suffix(name),
            file_hash=Path(key).stem,
            file_size=size,
            file_key=key,
            data_source_id=self._source_id,
        )


def suffix(name: str) -> str:
    """Return the extension that tells the type of a file."""
    return Path(name).suffix.lower().lstrip(".")[:32]
