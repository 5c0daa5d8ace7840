"""Removing a document for good: part by part, each in a transaction of its own, so that it can be killed anywhere, run
again, and never keeps others from writing for long. Its row goes last: while it is there, somebody will finish.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.documents import originals
from consumers.knowledge.files.noted import forget
from consumers.knowledge.files.store import FileStore
from consumers.knowledge.graph.storing import forget_mentions
from consumers.knowledge.search.store import EntryKind, SearchStore
from consumers.knowledge.tables.data import TableSummary
from consumers.knowledge.tables.graph import KnowledgeTag
from consumers.knowledge.tables.knowledge import Chunk, Image, Knowledge, Slot
from consumers.knowledge.tables.sources import SourceItem
from consumers.knowledge.tables.spans import Span
from consumers.knowledge.tables.stages import StageFile
from contracts.knowledge import ParseStatus
from pipeline.store import Database, changed, now_ms

AT_ONCE: Final = 1_000
"""Passages removed in one transaction."""
ENTRIES: Final = (
    frozenset({EntryKind.QUESTION}),
    frozenset({EntryKind.SUMMARY}),
    frozenset({EntryKind.OCR, EntryKind.CAPTION, EntryKind.TABLE}),
    frozenset({EntryKind.TEXT}),
)

Part = Callable[[AsyncSession], Awaitable[int]]
"""Removes something and says how much; it is called again until there was nothing."""


async def remove(
    database: Database, index: SearchStore, files: FileStore, knowledge_id: str
) -> AsyncIterator[str]:
    """Remove a document that is being deleted, with all that was made of it; nothing of any other one.

    Yields the name of each part that is gone, and nothing more once the document is gone or no longer being deleted.
    Raises StoreUnavailable, FileStoreError: what was removed until then stays so.
    """
    for name, part in _parts(index, knowledge_id):
        more = 1
        while more:
            async with database.transaction() as session:
                if not await _deleting(session, knowledge_id):
                    return
                more = await part(session)
        yield name
    await files.delete(knowledge_id)
    async with database.transaction() as session:
        if file_key := await _remove_row(session, knowledge_id):
            await originals.hold(session, alone=True)
            if not await originals.is_used(session, file_key):
                await files.delete(file_key)
                await forget(session, [file_key], now_ms())
    yield "document"


def _parts(index: SearchStore, knowledge_id: str) -> list[tuple[str, Part]]:
    def entries(kinds: frozenset[EntryKind]) -> Part:
        return lambda session: index.drop(session, knowledge_id, kinds=kinds)

    async def mentions(session: AsyncSession) -> int:
        await forget_mentions(session, knowledge_id)
        return 0

    async def chunks(session: AsyncSession) -> int:
        some = select(Chunk.id).where(Chunk.knowledge_id == knowledge_id).limit(AT_ONCE)
        return await changed(session, delete(Chunk).where(Chunk.id.in_(some)))

    def rows(table: Any) -> Part:
        return lambda session: changed(session, delete(table).where(table.knowledge_id == knowledge_id))

    async def notes(session: AsyncSession) -> int:
        pictures = await session.scalars(select(Image.file_key).where(Image.knowledge_id == knowledge_id))
        await forget(session, pictures.all(), now_ms())
        return 0

    async def unlinked(session: AsyncSession) -> int:
        """Its source may still have it: the item stays, and says that no document is of it."""
        of_it = SourceItem.knowledge_id == knowledge_id
        return await changed(session, update(SourceItem).where(of_it).values(knowledge_id=None))

    found = [("+".join(sorted(kinds)), entries(kinds)) for kinds in ENTRIES]
    found += [("graph", mentions), ("chunks", chunks), ("source", unlinked), ("notes", notes)]
    tables = {
        "sheets": TableSummary,
        "tags": KnowledgeTag,
        "images": Image,
        "slots": Slot,
        "spans": Span,
        "stages": StageFile,
    }
    return found + [(name, rows(table)) for name, table in tables.items()]


async def _deleting(session: AsyncSession, knowledge_id: str) -> bool:
    """Whether the document is still being deleted; it stays so until the end of this transaction."""
    status = select(Knowledge.parse_status).where(Knowledge.id == knowledge_id).with_for_update()
    return await session.scalar(status) is ParseStatus.DELETING


async def _remove_row(session: AsyncSession, knowledge_id: str) -> str | None:
    """Remove the row of a document that is still being deleted; return the key of its file."""
    key: str | None = await session.scalar(
        delete(Knowledge)
        .where(Knowledge.id == knowledge_id, Knowledge.parse_status == ParseStatus.DELETING)
        .returning(Knowledge.file_key),
        execution_options={"synchronize_session": False},
    )
    return key
