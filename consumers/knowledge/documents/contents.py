"""What was read out of documents: passages and pictures, stored with their index entries or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.documents.slots import Child, open_slots
from consumers.knowledge.graph.storing import forget_mentions
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.search.store import EntryKind, IndexEntry, SearchStore, Vector
from consumers.knowledge.tables.data import TableSummary
from consumers.knowledge.tables.graph import KnowledgeTag
from consumers.knowledge.tables.knowledge import Chunk, Image, Knowledge, table_of
from contracts.knowledge import ChunkKind, ImageStatus, ParseStatus, SlotKind, Stage, sources
from contracts.payloads.documents import ImageMultimodal, KnowledgePostProcess
from contracts.payloads.enrichment import DataTableSummary
from pipeline.store import Outbox, batches, insert_new, now_ms

DATA_TABLES: Final = frozenset({"csv", "tsv", "xlsx", "xls", "xlsm", "xlsb", "ods"})
"""File types whose tables are described."""
PARTS_OF_IMAGE: Final = 1000
"""A picture's passages have the positions from its own position times this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A chunk to be stored. `start` and `end` are character offsets in the text of the document."""

    text: str
    heading: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    vector: Vector | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image to be stored, a `scan` where it is a whole page. One with a `skipped` reason is not read."""

    file_key: str
    mime: str
    page: int | None = None
    scan: bool = False
    skipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """All that parsing found, in the order of the document. `model` made the vectors, of this `generation` of the index."""

    passages: Sequence[Passage]
    pictures: Sequence[Picture] = ()
    title: str = ""
    language: str | None = None
    warnings: Sequence[str] = ()
    model: str = ""
    generation: int = 0
    captions: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of reading the picture at `position`; a `reason` says why there are no words."""

    position: int
    status: ImageStatus
    reason: str = ""
    words: Sequence[Passage] = ()
    captions: Sequence[Passage] = ()
    model: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where contents belong."""

    tenant_id: int
    knowledge_base_id: str
    knowledge_id: str
    attempt: int


class Stored(StrEnum):
    """Where a document stands once its contents are stored."""

    READS_PICTURES = "reads_pictures"
    POSTPROCESSES = "postprocesses"
    EMPTY = "empty"  # completed: neither text nor pictures
    NOT_OURS = "not_ours"  # stored before, superseded or stopped: nothing was changed


async def store_parsed(
    session: AsyncSession, index: SearchStore, knowledge_id: str, attempt: int, parsed: Parsed
) -> Stored:
    """Put the contents of an attempt in the place of older ones, and start what comes next."""
    now = now_ms()
    to_read = [place for place, picture in enumerate(parsed.pictures) if not picture.skipped]
    empty = not parsed.passages and not to_read
    ended: dict[str, Any] = {"parse_status": ParseStatus.COMPLETED, "processed_at": now} if empty else {}
    row = (
        await session.execute(
            update(Knowledge)
            .where(Knowledge.id == knowledge_id, Knowledge.attempt == attempt)
            .where(Knowledge.parsed_attempt < attempt, Knowledge.parse_status.in_(sources("store_parsed")))
            .values(
                parsed_attempt=attempt,
                title=parsed.title or Knowledge.title,
                language=parsed.language,
                warnings=list(parsed.warnings),
                summary="",
                summary_method="",
                updated_at=now,
                **ended,
            )
            .returning(Knowledge.knowledge_base_id, Knowledge.tenant_id, Knowledge.file_name),
            execution_options={"synchronize_session": False},
        )
    ).one_or_none()
    if row is None:
        return Stored.NOT_OURS
    if attempt > 1:
        await drop_contents(session, index, knowledge_id, before_attempt=attempt)
    place = _Place(row.tenant_id, row.knowledge_base_id, knowledge_id, attempt)
    await _add_chunks(session, index, place, ChunkKind.TEXT, 0, parsed.passages, parsed)
    await _add_images(session, place, parsed.pictures)
    spans = Attempt(session, knowledge_id, attempt)
    await spans.leave({"chunks": len(parsed.passages), "images": len(parsed.pictures)})
    if empty:
        await spans.complete()
        return Stored.EMPTY
    if to_read:
        await spans.enter(Stage.MULTIMODAL, {"images": len(to_read)})
    await open_slots(session, knowledge_id, attempt, _next_jobs(place, parsed, to_read))
    if PurePath(row.file_name).suffix.lower().lstrip(".") in DATA_TABLES:
        described = DataTableSummary(
            tenant_id=row.tenant_id,
            knowledge_base_id=row.knowledge_base_id,
            knowledge_id=knowledge_id,
            attempt=attempt,
        )
        await Outbox.add(session, ids.enrichment_job(knowledge_id, attempt, "datatable"), described)
    return Stored.READS_PICTURES if to_read else Stored.POSTPROCESSES


async def store_picture(
    session: AsyncSession,
    index: SearchStore,
    knowledge_id: str,
    attempt: int,
    reading: Reading,
) -> None:
    """Store what was read in a picture, in the transaction that closed its slot."""
    place = (
        await session.execute(
            select(Knowledge.tenant_id, Knowledge.knowledge_base_id).where(Knowledge.id == knowledge_id)
        )
    ).one()
    await session.execute(
        update(Image)
        .where(Image.id == ids.image(knowledge_id, attempt, reading.position))
        .values(status=reading.status, reason=reading.reason)
    )
    home = _Place(place.tenant_id, place.knowledge_base_id, knowledge_id, attempt)
    first = reading.position * PARTS_OF_IMAGE
    await _add_chunks(session, index, home, ChunkKind.OCR, first, reading.words, reading)
    await _add_chunks(session, index, home, ChunkKind.CAPTION, first, reading.captions, reading)


async def drop_contents(
    session: AsyncSession, index: SearchStore, knowledge_id: str, *, before_attempt: int | None = None
) -> None:
    """Remove what was read out of a document, all or only what older attempts read; what hangs on it goes too."""
    old_chunks = [Chunk.knowledge_id == knowledge_id]
    old_images = [Image.knowledge_id == knowledge_id]
    if before_attempt is not None:
        old_chunks.append(Chunk.attempt < before_attempt)
        old_images.append(Image.attempt < before_attempt)
    await index.drop(session, knowledge_id, before_attempt=before_attempt)
    await forget_mentions(session, knowledge_id, before_attempt=before_attempt)
    await session.execute(delete(KnowledgeTag).where(KnowledgeTag.knowledge_id == knowledge_id))
    await session.execute(delete(TableSummary).where(TableSummary.knowledge_id == knowledge_id))
    await session.execute(delete(Chunk).where(*old_chunks))
    await session.execute(delete(Image).where(*old_images))


async def chunks_of(
    session: AsyncSession, knowledge_id: str, attempt: int, *kinds: ChunkKind
) -> Sequence[Chunk]:
    """Return the passages of an attempt, of these kinds or of all, in the order of the document."""
    wanted = select(Chunk).where(Chunk.knowledge_id == knowledge_id, Chunk.attempt == attempt)
    if kinds:
        wanted = wanted.where(Chunk.kind.in_(kinds))
    return (await session.scalars(wanted.order_by(Chunk.kind.desc(), Chunk.position))).all()


async def chunks_from(
    session: AsyncSession,
    knowledge_id: str,
    attempt: int,
    kind: ChunkKind | None,
    after: tuple[ChunkKind, int] | None,
    limit: int,
) -> Sequence[Chunk]:
    """Return some passages of an attempt in the order of `chunks_of`, those behind a kind and position."""
    wanted = select(Chunk).where(Chunk.knowledge_id == knowledge_id, Chunk.attempt == attempt)
    if kind is not None:
        wanted = wanted.where(Chunk.kind == kind)
    if after is not None:
        last, position = after
        wanted = wanted.where((Chunk.kind < last) | ((Chunk.kind == last) & (Chunk.position > position)))
    return (await session.scalars(wanted.order_by(Chunk.kind.desc(), Chunk.position).limit(limit))).all()


async def chunks_by_id(session: AsyncSession, chunk_ids: Sequence[str]) -> Mapping[str, Chunk]:
    """Return those of these passages that are there, by id."""
    found: dict[str, Chunk] = {}
    for some in batches(chunk_ids):
        chunks = await session.scalars(select(Chunk).where(Chunk.id.in_(some)))
        found.update((chunk.id, chunk) for chunk in chunks)
    return found


def _next_jobs(place: _Place, parsed: Parsed, to_read: Sequence[int]) -> list[Child]:
    common: dict[str, Any] = {**asdict(place), "language": parsed.language}
    if not to_read:
        return [Child(ids.postprocess_job(place.knowledge_id, place.attempt), KnowledgePostProcess(**common))]
    return [
        Child(
            ids.image_job(place.knowledge_id, place.attempt, position),
            ImageMultimodal(
                **common,
                image_url=parsed.pictures[position].file_key,
                enable_caption=parsed.captions,
                image_source_type="scanned_pdf" if parsed.pictures[position].scan else "",
                image_index=position,
            ),
            SlotKind.IMAGE,
        )
        for position in to_read
    ]


async def _add_chunks(
    session: AsyncSession,
    index: SearchStore,
    place: _Place,
    kind: ChunkKind,
    first: int,
    passages: Sequence[Passage],
    made: Parsed | Reading,
) -> None:
    placed = [
        (ids.chunk(place.knowledge_id, place.attempt, kind, position), position, passage)
        for position, passage in enumerate(passages, first)
    ]
    rows = [
        {
            **asdict(place),
            "id": chunk_id,
            "kind": kind,
            "position": position,
            "text": passage.text,
            "heading": list(passage.heading),
            "start": passage.start,
            "end": passage.end,
        }
        for chunk_id, position, passage in placed
    ]
    entries = [
        IndexEntry(
            id=chunk_id,
            kb_id=place.knowledge_base_id,
            knowledge_id=place.knowledge_id,
            attempt=place.attempt,
            kind=EntryKind(kind),
            text=passage.text,
            chunk_id=chunk_id,
            position=position,
            heading=" > ".join(passage.heading),
            vector=passage.vector,
            model=made.model if passage.vector is not None else "",
            generation=made.generation,
        )
        for chunk_id, position, passage in placed
    ]
    await insert_new(session, table_of(Chunk), rows)
    if entries:
        await index.put(session, entries)


async def _add_images(session: AsyncSession, place: _Place, pictures: Sequence[Picture]) -> None:
    rows = [
        {
            "id": ids.image(place.knowledge_id, place.attempt, position),
            "knowledge_id": place.knowledge_id,
            "attempt": place.attempt,
            "position": position,
            "file_key": picture.file_key,
            "mime": picture.mime,
            "page": picture.page,
            "status": ImageStatus.SKIPPED if picture.skipped else ImageStatus.PENDING,
            "reason": picture.skipped,
        }
        for position, picture in enumerate(pictures)
    ]
    await insert_new(session, table_of(Image), rows)
