"""What lies in a source, as it was last seen, and the documents that it became."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.documents.documents import LONGEST_SOURCE
from consumers.knowledge.tables.knowledge import Knowledge, table_of
from consumers.knowledge.tables.sources import SourceItem
from consumers.sources.connector import Item
from contracts.identity import derive_id
from contracts.knowledge import ParseStatus
from contracts.sources import ItemState
from contracts.wire import cut as shortened
from pipeline.store import batches, changed, now_ms, upsert

LONGEST: Final = 255
_KEPT: Final = (
    *("name", "version", "stamp", "file_hash", "state", "generation", "error", "knowledge_id", "updated_at"),
)


_ITS_DOCUMENT: Final = and_(
    Knowledge.id == SourceItem.knowledge_id, Knowledge.data_source_id == SourceItem.data_source_id
)


@dataclass(frozen=True, slots=True)
class Known:
    """An item as it was last seen; `status` is that of its document, None where that is gone or is no longer the source's."""

    item: Item
    stamp: str
    file_hash: str
    state: ItemState
    generation: int
    error: str
    knowledge_id: str | None
    status: ParseStatus | None


def row_id(source_id: str, external_id: str) -> str:
    """The id of the row of an item."""
    return derive_id("source item", source_id, external_id)


def document_source(source_id: str, external_id: str) -> str:
    """What the document of an item is known by in its base: nothing that another way in could say."""
    return f"{source_id}:{external_id}"


def unfit(external_id: str) -> str:
    """Return why nothing can be kept under what a source calls a thing; "" if it can."""
    size = len(external_id.encode("utf-8", "surrogatepass"))
    if size > LONGEST_SOURCE:
        return f"its name has {size:,} bytes, at most {LONGEST_SOURCE:,} can be kept: shorten it"
    if shortened(external_id, size) != external_id:
        return "its name has characters that no database takes: rename it"
    return ""


def fitting(version: str) -> str:
    """Return a version, or what stands for one that is too long to be kept."""
    return version if len(version) <= LONGEST else derive_id(version)


async def known(session: AsyncSession, source_id: str, ids: Iterable[str]) -> Mapping[str, Known]:
    """Return those of these items that were seen, by what the source calls them."""
    rows = [row_id(source_id, one) for one in ids]
    return {
        one.item.id: one for some in batches(rows) for one in await _read(session, SourceItem.id.in_(some))
    }


async def page(
    session: AsyncSession, source_id: str, state: ItemState, after: str, limit: int
) -> Sequence[tuple[str, Known]]:
    """Return items of a state behind a row, each with the id of its row."""
    there = SourceItem.data_source_id == source_id, SourceItem.state == state, SourceItem.id > after
    found = await _read(session, *there, limit=limit)
    return [(row_id(source_id, one.item.id), one) for one in found]


async def broken(
    session: AsyncSession, source_id: str, after: str, limit: int
) -> Sequence[tuple[str, Known]]:
    """Return items whose document failed or was cancelled, likewise."""
    bad = Knowledge.parse_status.in_((ParseStatus.FAILED, ParseStatus.CANCELLED))
    there = SourceItem.data_source_id == source_id, SourceItem.id > after, bad
    found = await _read(session, *there, SourceItem.state == ItemState.SYNCED, limit=limit)
    return [(row_id(source_id, one.item.id), one) for one in found]


async def unseen(
    session: AsyncSession, source_id: str, before: int, after: str, limit: int
) -> Sequence[tuple[str, Known]]:
    """Return items that no listing from `before` on named, those behind a row, each with the id of its row."""
    there = SourceItem.data_source_id == source_id, SourceItem.generation < before, SourceItem.id > after
    found = await _read(session, *there, limit=limit)
    return [(row_id(source_id, one.item.id), one) for one in found]


async def has_seen(session: AsyncSession, source_id: str, generation: int) -> bool:
    """Whether a listing of this number, or a later one, named anything."""
    there = SourceItem.data_source_id == source_id, SourceItem.generation >= generation
    return await session.scalar(select(SourceItem.id).where(*there).limit(1)) is not None


async def twins(
    session: AsyncSession,
    source_id: str,
    before: int,
    *,
    versions: Sequence[str] = (),
    hashes: Sequence[str] = (),
) -> Sequence[Known]:
    """Return the items that no listing from `before` on has named yet and that have one of these versions or hashes."""
    there = SourceItem.data_source_id == source_id, SourceItem.generation < before
    has = SourceItem.version.in_(versions) if versions else SourceItem.file_hash.in_(hashes)
    return await _read(session, *there, has, Knowledge.id.is_not(None), limit=1000)


async def see(session: AsyncSession, source_id: str, ids: Sequence[str], generation: int) -> None:
    """Note that a listing named these."""
    for some in batches([row_id(source_id, one) for one in ids]):
        there = SourceItem.id.in_(some), SourceItem.generation < generation
        await changed(session, update(SourceItem).where(*there).values(generation=generation))


async def keep(session: AsyncSession, source_id: str, items: Sequence[Mapping[str, Any]]) -> None:
    """Write items as they are now; each has an `item` and what is to be kept of it."""
    rows = []
    for said in items:
        item: Item = said["item"]
        usual = {"stamp": "", "file_hash": "", "error": "", "knowledge_id": None}
        row = usual | {name: value for name, value in said.items() if name != "item"}
        row |= {"id": row_id(source_id, item.id), "data_source_id": source_id, "external_id": item.id}
        row |= {"name": item.name, "version": fitting(item.version), "updated_at": now_ms()}
        row["error"] = shortened(row["error"])
        rows.append(row)
    await upsert(session, table_of(SourceItem), sorted(rows, key=lambda row: str(row["id"])), replace=_KEPT)


async def forget(session: AsyncSession, source_id: str, ids: Iterable[str]) -> None:
    """Forget items."""
    for some in batches([row_id(source_id, one) for one in ids]):
        await session.execute(delete(SourceItem).where(SourceItem.id.in_(some)))


async def counted(session: AsyncSession, source_id: str) -> Mapping[ItemState, int]:
    """Return how many items there are of each state."""
    rows = await session.execute(
        select(SourceItem.state, func.count())
        .where(SourceItem.data_source_id == source_id)
        .group_by(SourceItem.state)
    )
    found = {row[0]: row[1] for row in rows}
    return {state: found.get(state, 0) for state in ItemState}


async def stamp_of(session: AsyncSession, source_id: str, external_id: str) -> str:
    """Return what is to be told at the next fetch of an item."""
    one = select(SourceItem.stamp).where(SourceItem.id == row_id(source_id, external_id))
    return await session.scalar(one) or ""


async def strays(session: AsyncSession, source_id: str, limit: int) -> Sequence[str]:
    """Return documents that came from a source and that no item of it became."""
    became = select(SourceItem.id).where(SourceItem.knowledge_id == Knowledge.id).exists()
    lost = (
        select(Knowledge.id)
        .where(Knowledge.data_source_id == source_id, ~became)
        .where(Knowledge.parse_status != ParseStatus.DELETING)
    )
    return (await session.scalars(lost.order_by(Knowledge.id).limit(limit))).all()


async def _read(session: AsyncSession, *where: Any, limit: int | None = None) -> list[Known]:
    query = (
        select(SourceItem, Knowledge.parse_status)
        .outerjoin(Knowledge, _ITS_DOCUMENT)
        .where(*where)
        .order_by(SourceItem.id)
        .limit(limit)
        .execution_options(populate_existing=True)
    )
    return [
        Known(
            item=Item(row.external_id, row.name, row.version),
            stamp=row.stamp,
            file_hash=row.file_hash,
            state=row.state,
            generation=row.generation,
            error=row.error,
            knowledge_id=row.knowledge_id,
            status=status,
        )
        for row, status in await session.execute(query)
    ]
