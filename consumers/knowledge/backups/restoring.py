"""A knowledge base made anew from an archive: hidden until it is whole.

All that an archive says is read as ours: rows have the columns of our tables and values of their kinds, every id stands for
one of the archive, and a file is known by its content. Ids become those of the new base unless the base of the archive is
not there any more; then, where whoever asks is to be trusted, they stay.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from sqlalchemy import JSON, Column, Enum, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.backups.archive import MANIFEST, ArchiveRefused, Reader
from consumers.knowledge.backups.archive_parts import DOCUMENT, FAQ, PAGE, PARTS, THING, Part
from consumers.knowledge.backups.backing_up import SPACES
from consumers.knowledge.bases.knowledge_bases import find_base
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.bases.tenants import register_tenant
from consumers.knowledge.embedding.embedders import MOST_NUMBERS
from consumers.knowledge.faq import storing
from consumers.knowledge.files.store import FileStore, file_key
from consumers.knowledge.search.store import EntryKind, IndexEntry, SearchStore
from consumers.knowledge.tables.knowledge import Image, Knowledge, KnowledgeBase, table_of
from consumers.knowledge.tables.wiki import WikiPageSource
from consumers.knowledge.wiki.names import page_id
from consumers.scratch import scratch
from contracts.identity import derive_id, new_id
from contracts.knowledge import ImageStatus, ParseStatus, SummaryStatus
from pipeline import Database
from pipeline.errors import ConfigurationError
from pipeline.store import batches, changed, insert_new, now_ms

AT_ONCE: Final = 200
"""Rows and entries that are written in one transaction."""
HIDDEN_MS: Final = 2 * 24 * 3600 * 1000
"""Time that a restore has: what is not whole by then counts as deleted, and housekeeping removes it."""
UNDER_WAY: Final = "it was being parsed when the backup was made: parse it again"

Shown = Callable[[AsyncSession], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Goal:
    """The base that is made. `keep_ids`: as they are in the archive."""

    kb_id: str
    tenant_id: int
    name: str
    keep_ids: bool = False


@dataclass
class Names:
    """The ids of an archive as those of the new base."""

    goal: Goal
    known: dict[str, dict[str, str]] = field(default_factory=dict)

    def learn(self, part: Part, row: Mapping[str, Any]) -> str:
        """Return the new id of a row that has one of its own."""
        old = str(row["id"])
        new = old if self.goal.keep_ids else self._derived(part.own, row)
        if part.own != THING:  # of which there may be millions
            self.known.setdefault(part.own, {})[old] = new
        return new

    def _derived(self, own: str, row: Mapping[str, Any]) -> str:
        kb_id = self.goal.kb_id
        match own:
            case "tag":
                return ids.tag(kb_id, row["name"])
            case "entity":
                return ids.entity(kb_id, row["name"])
            case "relation":
                return ids.relation(kb_id, row["source_id"], row["target_id"], row["kind"])
            case "page":
                return page_id(kb_id, row["slug"])
            case "faq":
                return storing.entry_id(kb_id, row["question"])
        return self.renewed(str(row["id"]))

    def of(self, kind: str, old: Any) -> str:
        """Return what an id of this kind is now. Raises LookupError where the archive has no such thing."""
        if kind != THING:
            return self.known.get(kind, {})[str(old)]
        return str(old) if self.goal.keep_ids else self.renewed(str(old))

    def renewed(self, old: str) -> str:
        """Return the id of a thing that is nobody's but the new base's."""
        return derive_id("restored", self.goal.kb_id, old)


class NameTaken(ConfigurationError):  # noqa: N818 - a state of the world
    """The tenant has a base of this name."""


async def free_name(session: AsyncSession, base: Mapping[str, Any], tenant_id: int, name: str | None) -> str:
    """Return what a base is called that is made of an archive: as wished, or as it was. Raises NameTaken."""
    told = str(base.get("name", ""))[:255]
    wanted = name or (told if told.isprintable() else "") or "restored"
    if await find_base(session, tenant_id, wanted) is not None:
        raise NameTaken(f"there is a knowledge base {wanted!r} already: give the restored one another name")
    return wanted


async def choose(
    session: AsyncSession, base: Mapping[str, Any], tenant_id: int, name: str | None, *, trusted: bool
) -> Goal:
    """Return what is to be made of an archive. Raises NameTaken."""
    wanted = await free_name(session, base, tenant_id, name)
    old = str(base.get("id", ""))[:64]
    keep = trusted and bool(old) and await session.get(KnowledgeBase, old) is None
    return Goal(old if keep else new_id(), tenant_id, wanted, keep_ids=keep)


async def restore(
    database: Database, index: SearchStore, files: FileStore, reader: Reader, goal: Goal, shown: Shown
) -> AsyncIterator[tuple[str, int]]:
    """Make a base of an archive that was checked; yields what is being made, and how much of it is. `shown` is called in the
    transaction that lets the base be seen.

    Run again with the same goal, it comes to the same. Raises ArchiveRefused; ConfigurationError: the name was taken meanwhile.
    """
    model, dimension = _model(reader.manifest.base)
    await _hide(database, reader.manifest.base, goal, model, dimension)
    names, keys = Names(goal), await _keys(files, reader, goal)
    for part in PARTS:
        count = 0
        async for some in _batches(_rows(reader, part, names, keys, goal)):
            await _insert(database, part, some, goal)
            count += len(some)
            yield part.table.name, count
    for name, space in SPACES:
        count = 0
        async for entries in _batches(_entries(reader, f"index/{name}", space(goal.kb_id), names, dimension)):
            async with _writing(database, goal, f"index/{name}.jsonl") as session:
                await index.put(session, entries)
            count += len(entries)
            yield "index", count
    yield "base", 1
    async with database.transaction() as session:
        try:
            await _hold(session, goal)
            await changed(
                session,
                update(KnowledgeBase)
                .where(KnowledgeBase.id == goal.kb_id)
                .values(deleted_at=None, name=goal.name, updated_at=now_ms()),
            )
        except IntegrityError:
            raise ConfigurationError(
                f"there is a knowledge base {goal.name!r} by now: restore it under another name"
            ) from None
        await shown(session)


def _model(base: Mapping[str, Any]) -> tuple[str | None, int]:
    """What made the vectors of an archive, and how many numbers they have; None and 0 where there are none."""
    model, dimension = base.get("embedding_model"), base.get("embedding_dimension")
    if not (model and dimension):
        return None, 0
    if not (isinstance(model, str) and isinstance(dimension, int) and 1 <= dimension <= MOST_NUMBERS):
        raise ArchiveRefused(
            f"{MANIFEST}: no vectors are of {str(model)[:100]!r} with {str(dimension)[:20]} numbers"
        )
    return model[:255], dimension


async def _hide(
    database: Database, base: Mapping[str, Any], goal: Goal, model: str | None, dimension: int
) -> None:
    """Make the base, as one that is deleted in two days."""
    try:
        settings = KnowledgeBaseSettings.model_validate(base.get("settings") or {}).model_dump(mode="json")
    except ValueError:
        settings = {}
    now = now_ms()
    row = {
        "id": goal.kb_id,
        "tenant_id": goal.tenant_id,
        "name": goal.name,
        "settings": settings,
        "embedding_model": model,
        "embedding_dimension": dimension or None,
        "created_at": now,
        "updated_at": now,
        "deleted_at": now + HIDDEN_MS,
    }
    with _refused(MANIFEST):
        async with database.transaction() as session:
            await register_tenant(session, goal.tenant_id)
            await insert_new(session, table_of(KnowledgeBase), [row])


async def _hold(session: AsyncSession, goal: Goal) -> None:
    """Let nobody remove the base until the transaction ends. Raises ConfigurationError: somebody has begun to, and nothing more
    may come into it.
    """
    as_made = KnowledgeBase.id == goal.kb_id, KnowledgeBase.deleted_at == KnowledgeBase.created_at + HIDDEN_MS
    held = select(KnowledgeBase.id).where(*as_made).with_for_update(read=True)
    if await session.scalar(held) is None:
        raise ConfigurationError("the restore was given up meanwhile")


async def _keys(files: FileStore, reader: Reader, goal: Goal) -> dict[str, str]:
    """Store the files of an archive; return under which keys they are now, by those that they had."""
    keys: dict[str, str] = {}
    with scratch() as folder:
        path = folder / "file"
        for row in reader.rows("rows/files.jsonl"):
            old, entry = str(row.get("key", "")), str(row.get("entry", ""))
            if not reader.has(entry):
                raise ArchiveRefused(f"rows/files.jsonl: {entry[:50]!r} is not in the archive")
            await asyncio.to_thread(_unpack, reader, entry, path)
            owner = (
                "originals"
                if old.startswith("originals/")
                else derive_id("restored", goal.kb_id, old.partition("/")[0])
            )
            if goal.keep_ids and not old.startswith("originals/"):
                owner = old.partition("/")[0]
            keys[old] = await asyncio.to_thread(file_key, owner, path, old)
            if not await files.exists(keys[old]):
                await files.put(keys[old], path)
    return keys


def _unpack(reader: Reader, entry: str, path: Path) -> None:
    with path.open("wb") as written:
        for block in reader.blocks(entry):
            written.write(block)


def _rows(
    reader: Reader, part: Part, names: Names, keys: Mapping[str, str], goal: Goal
) -> Iterator[dict[str, Any]]:
    for number, said in enumerate(reader.rows(part.name), 1):
        try:
            row = {column.name: _value(column, said[column.name]) for column in _told(part, said)}
            for column, kind in part.refers.items():
                row[column] = names.of(kind, row[column])
            if part.own:
                row["id"] = names.learn(part, row)
        except (LookupError, TypeError, ValueError) as error:
            raise ArchiveRefused(f"{part.name}: line {number} cannot be taken ({error})") from None
        for column, value in (("knowledge_base_id", goal.kb_id), ("tenant_id", goal.tenant_id)):
            if column in row:
                row[column] = value
        yield _settled(part, row, keys)


def _settled(part: Part, row: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """A row as nobody works on it any more."""
    if part.row is Knowledge:
        row["file_key"] = keys.get(row["file_key"], "")
        if row["parse_status"] in {ParseStatus.PENDING, ParseStatus.PROCESSING} and not row["parsed_attempt"]:
            row |= {"parse_status": ParseStatus.FAILED, "error_message": UNDER_WAY}
        elif row["parse_status"] not in {ParseStatus.COMPLETED, ParseStatus.FAILED}:
            row |= {"parse_status": ParseStatus.COMPLETED, "attempt": row["parsed_attempt"]}
        if row["summary_status"] in {SummaryStatus.PENDING, SummaryStatus.PROCESSING}:
            row["summary_status"] = SummaryStatus.FAILED
    if part.row is Image:
        row["file_key"] = keys.get(row["file_key"], "")
        if row["status"] is ImageStatus.PENDING:
            row |= {"status": ImageStatus.SKIPPED, "reason": UNDER_WAY}
    if part.row is WikiPageSource and isinstance(row["contribution"], dict):
        row["contribution"] = {**row["contribution"], "knowledge_id": row["knowledge_id"]}
    return row


def _told(part: Part, said: Mapping[str, Any]) -> list["Column[Any]"]:
    """The columns that a row fills: an archive may be older than a column. Raises ValueError."""
    columns = list(part.table.columns)
    for column in columns:
        if column.name not in said and not column.nullable and column.server_default is None:
            raise ValueError(f"it has no {column.name}")
    return [column for column in columns if column.name in said]


def _value(column: "Column[Any]", value: Any) -> Any:
    """What a row says in a column. Raises ValueError, TypeError."""
    if value is None:
        if not column.nullable:
            raise ValueError(f"{column.name} is nothing")
        return None
    if isinstance(column.type, Enum) and column.type.enum_class is not None:
        return column.type.enum_class(value)
    if isinstance(column.type, JSON):
        return value
    kind = column.type.python_type
    kinds = (int, float) if kind is float else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{column.name} is a {type(value).__name__}")
    if isinstance(value, str) and (limit := getattr(column.type, "length", None)) and len(value) > limit:
        raise ValueError(f"{column.name} is longer than {limit}")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise ValueError(f"{column.name} is too great")
    return value


def _entries(reader: Reader, name: str, space: str, names: Names, dimension: int) -> Iterator[IndexEntry]:
    vectors = _Bytes(reader, f"{name}.f32")
    for number, said in enumerate(reader.rows(f"{name}.jsonl"), 1):
        try:
            vector = vectors.take(4 * dimension) if said["vector"] else None
            if said["vector"] and not dimension:
                raise ValueError("it has a vector, and the base no model")
            yield _entry(said, space, names, None if vector is None else np.frombuffer(vector, "<f4"))
        except (LookupError, TypeError, ValueError) as error:
            raise ArchiveRefused(f"{name}.jsonl: line {number} cannot be taken ({error})") from None


def _entry(said: Mapping[str, Any], space: str, names: Names, vector: Any) -> IndexEntry:
    kind, attempt = EntryKind(said["kind"]), int(said["attempt"])
    of = {EntryKind.WIKI: PAGE, EntryKind.FAQ: FAQ}.get(kind, DOCUMENT)
    stands_for = names.of(of, said["knowledge_id"])
    chunk = said["chunk_id"]
    ident = str(said["id"])
    if kind is EntryKind.WIKI:
        new = stands_for
    elif kind is EntryKind.FAQ:
        new = f"{stands_for}:{int(ident.rpartition(':')[2])}"
    elif kind is EntryKind.SUMMARY:
        new = ids.summary(stands_for, attempt)
    else:
        new = names.of(THING, ident)
    return IndexEntry(
        id=new,
        kb_id=space,
        knowledge_id=stands_for,
        attempt=attempt,
        kind=kind,
        text=str(said["text"]),
        chunk_id=None if chunk is None else names.of(FAQ if kind is EntryKind.FAQ else THING, chunk),
        position=int(said["position"]),
        heading=str(said["heading"]),
        vector=vector,
        model=str(said["model"]) if vector is not None else "",
    )


class _Bytes:
    """The bytes of an entry, as many at a time as are asked for."""

    def __init__(self, reader: Reader, name: str) -> None:
        self._blocks = reader.blocks(name) if reader.has(name) else iter(())
        self._rest = bytearray()

    def take(self, count: int) -> bytes:
        """Return so many bytes. Raises ValueError at the end."""
        while len(self._rest) < count:
            self._rest += next(self._blocks, None) or self._short()
        taken = bytes(self._rest[:count])
        del self._rest[:count]
        return taken

    def _short(self) -> bytes:
        raise ValueError("there are fewer vectors than entries that have one")


async def _insert(database: Database, part: Part, rows: Sequence[Mapping[str, Any]], goal: Goal) -> None:
    async with _writing(database, goal, part.name) as session:
        for some in batches(rows):
            await insert_new(session, part.table, some)


@asynccontextmanager
async def _writing(database: Database, goal: Goal, entry: str) -> AsyncIterator[AsyncSession]:
    """Give a transaction for some of an entry. Raises ArchiveRefused; ConfigurationError: the restore was given up."""
    with _refused(entry):
        async with database.transaction() as session:
            await _hold(session, goal)
            yield session


@contextmanager
def _refused(entry: str) -> Iterator[None]:
    """Whatever the database does not take is a fault of the archive."""
    try:
        yield
    except IntegrityError:
        raise ArchiveRefused(f"{entry}: it names what the archive has not") from None
    except (DBAPIError, UnicodeError, OverflowError):
        raise ArchiveRefused(f"{entry}: it has what no database takes") from None


async def _batches(items: Iterator[T]) -> AsyncIterator[list[T]]:
    """So many at a time, read beside the event loop."""
    while some := await asyncio.to_thread(lambda: list(islice(items, AT_ONCE))):
        yield some
