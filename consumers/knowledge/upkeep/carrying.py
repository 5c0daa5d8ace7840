"""A document carried into another base with all that was read out of it: copied, or moved. Nothing is parsed or embedded anew.

Each is one transaction, so a document is in a base completely or not at all; carried twice, it is there once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.bases.pending import base_lives, forget_ingest
from consumers.knowledge.bases.profile_asking import ask_for_profile
from consumers.knowledge.bases.tags import ensure_tags, tags_of
from consumers.knowledge.bases.wiki_lane import ask_anew_for_pages, retract
from consumers.knowledge.documents.contents import drop_contents
from consumers.knowledge.documents.documents import Entry, ProcessOptions, Registered, abandon, process_job
from consumers.knowledge.files.store import FileMissing, FileStore
from consumers.knowledge.graph.storing import forget_mentions, tell, told_by
from consumers.knowledge.progress.spans import Attempt
from consumers.knowledge.search.store import EntryKind, IndexEntry, SearchStore
from consumers.knowledge.tables.data import TableSummary
from consumers.knowledge.tables.graph import KnowledgeTag, Tag
from consumers.knowledge.tables.knowledge import Chunk, Image, Knowledge, KnowledgeBase, Question, table_of
from consumers.knowledge.tables.wiki import WikiReading
from contracts.identity import derive_id
from contracts.knowledge import ParseStatus, SpanCode, Stage, SummaryStatus
from pipeline.store import Database, Outbox, insert_new, now_ms
from pipeline.store.rows import insert_one

FIRST: Final = 1
"""The attempt of a copy."""
DONE: Final = ""
"""What is said of a document that was carried."""
GONE: Final = "it is not there any more"
TAKEN: Final = "the target base has another document from the same place"
BASE_GONE: Final = "one of the bases was deleted"
OTHER_MODEL: Final = "the bases have vectors of different models by now"


@dataclass(frozen=True, slots=True)
class _Names:
    """The new ids of a copy, by the old ones; `chunks` are passages, and tables, which have entries of their own."""

    document: str
    chunks: Mapping[str, str]
    questions: Mapping[str, str]

    def entry(self, entry: IndexEntry, kb_id: str, generation: int) -> IndexEntry:
        if entry.kind is EntryKind.SUMMARY:
            name = ids.summary(self.document, FIRST)
        else:
            known = self.chunks.get(entry.id) or self.questions.get(entry.id)
            name = known or derive_id("entry", self.document, entry.id)
        chunk_id = self.chunks.get(entry.chunk_id or "")
        return replace(
            entry,
            id=name,
            kb_id=kb_id,
            knowledge_id=self.document,
            attempt=FIRST,
            chunk_id=chunk_id,
            generation=generation,
        )


async def copy_files(files: FileStore, database: Database, source_id: str, copy_id: str) -> None:
    """Copy the pictures of a document for its copy; originals are shared. Raises StoreUnavailable, FileStoreError."""
    async with database.read() as session:
        keys = (await session.scalars(select(Image.file_key).where(Image.knowledge_id == source_id))).all()
    for key in dict.fromkeys(keys):
        try:
            async with files.local(key) as path:
                await files.put(_key_of_copy(key, source_id, copy_id), path)
        except FileMissing:  # its row says the same of the copy
            continue


async def copy_document(
    session: AsyncSession,
    index: SearchStore,
    ident: str,
    source: KnowledgeBase,
    target: KnowledgeBase,
    copy_id: str,
) -> str:
    """Copy a complete document into another base of its tenant, as `copy_id`; return "", or why not."""
    served = await served_by(session, source, target)
    if isinstance(served, str):
        return served
    whole = Knowledge.id == ident, Knowledge.parse_status == ParseStatus.COMPLETED
    found = select(Knowledge).where(*whole, Knowledge.knowledge_base_id == source.id)
    original = (await session.scalars(found.with_for_update(read=True))).one_or_none()
    if original is None:
        return GONE
    now = now_ms()
    (row,) = await _rows(session, table_of(Knowledge), Knowledge.id == ident)
    row |= {"id": copy_id, "knowledge_base_id": target.id, "attempt": FIRST, "parsed_attempt": FIRST}
    row["data_source_id"] = None  # whoever keeps the other base in step keeps nothing here
    if not await insert_one(session, table_of(Knowledge), {**row, "created_at": now, "updated_at": now}):
        return DONE if await session.get(Knowledge, copy_id) else TAKEN
    names = await _copy_contents(session, original, target, copy_id)
    entries = await index.entries(session, ident, generation=served[source.id])
    current = [one for one in entries if one.attempt == original.parsed_attempt]
    await index.put(session, [names.entry(one, target.id, served[target.id]) for one in current])
    told = await told_by(session, ident)
    await tell(session, target.id, copy_id, told, names.chunks)
    await _give_tags(session, target.id, copy_id, await _tags_of(session, ident))
    spans = Attempt(session, copy_id, FIRST)
    await spans.enter(Stage.DOCREADER, {"copied_from": ident})
    await spans.complete()
    await ask_anew_for_pages(session, await session.get_one(Knowledge, copy_id))
    await ask_for_profile(session, target.id)
    return DONE


async def _copy_contents(
    session: AsyncSession, source: Knowledge, target: KnowledgeBase, copy_id: str
) -> _Names:
    current = source.parsed_attempt
    chunks = await _rows(session, table_of(Chunk), Chunk.knowledge_id == source.id, Chunk.attempt == current)
    place = {"knowledge_id": copy_id, "attempt": FIRST}
    chunk_ids = {row["id"]: ids.chunk(copy_id, FIRST, row["kind"], row["position"]) for row in chunks}
    of_target = {**place, "knowledge_base_id": target.id, "tenant_id": target.tenant_id}
    await insert_new(
        session, table_of(Chunk), [row | of_target | {"id": chunk_ids[row["id"]]} for row in chunks]
    )
    images = await _rows(session, table_of(Image), Image.knowledge_id == source.id, Image.attempt == current)
    await insert_new(
        session,
        table_of(Image),
        [
            row
            | place
            | {
                "id": ids.image(copy_id, FIRST, row["position"]),
                "file_key": _key_of_copy(row["file_key"], source.id, copy_id),
            }
            for row in images
        ],
    )
    asked = await _rows(session, table_of(Question), Question.knowledge_id == source.id)
    asked = [row for row in asked if row["chunk_id"] in chunk_ids]
    questions = {row["id"]: ids.question(chunk_ids[row["chunk_id"]], row["position"]) for row in asked}
    await insert_new(
        session,
        table_of(Question),
        [row | place | {"id": questions[row["id"]], "chunk_id": chunk_ids[row["chunk_id"]]} for row in asked],
    )
    sheets = await _rows(
        session,
        table_of(TableSummary),
        TableSummary.knowledge_id == source.id,
        TableSummary.attempt == current,
    )
    tables = {row["id"]: ids.table(copy_id, FIRST, row["position"]) for row in sheets}
    await insert_new(
        session, table_of(TableSummary), [row | place | {"id": tables[row["id"]]} for row in sheets]
    )
    return _Names(copy_id, chunk_ids | tables, questions)


async def move_document(
    session: AsyncSession, index: SearchStore, knowledge_id: str, source: KnowledgeBase, target: KnowledgeBase
) -> str:
    """Move a complete document with its vectors into another base of its tenant; return "", or why not."""
    served = await served_by(session, source, target)
    if isinstance(served, str):
        return served
    document, why = await _taken(session, knowledge_id, source, target)
    if document is None:
        return why
    told, tags = await told_by(session, knowledge_id), await _tags_of(session, knowledge_id)
    entries = await index.entries(session, knowledge_id, generation=served[source.id])
    await forget_mentions(session, knowledge_id)
    await index.drop(session, knowledge_id)
    await _leave(session, document, source)
    await _enter(session, document, target)
    moved = update(Chunk).where(Chunk.knowledge_id == knowledge_id).values(knowledge_base_id=target.id)
    await session.execute(moved, execution_options={"synchronize_session": False})
    await index.put(session, [replace(one, kb_id=target.id, generation=served[target.id]) for one in entries])
    chunks = {one[0]: one[0] for one in told.mentions} | {one[0]: one[0] for one in told.evidence}
    await tell(session, target.id, knowledge_id, told, chunks)
    await _give_tags(session, target.id, knowledge_id, tags)
    await ask_anew_for_pages(session, document)
    return DONE


async def move_to_parse(
    session: AsyncSession,
    index: SearchStore,
    knowledge_id: str,
    source: KnowledgeBase,
    target: KnowledgeBase,
    timeout: float | None,
) -> str:
    """Move a complete document into another base of its tenant, where it is parsed again as that base wants it; `timeout` of a
    parse, in seconds. Return "", or why not.
    """
    served = await served_by(session, source, target)
    if isinstance(served, str):
        return served
    document, why = await _taken(session, knowledge_id, source, target)
    if document is None:
        return why
    await drop_contents(session, index, knowledge_id)
    await _leave(session, document, source)
    await abandon(session, source.id, knowledge_id, document.attempt, SpanCode.TASK_SUPERSEDED)
    attempt = document.attempt + 1
    await _enter(
        session,
        document,
        target,
        attempt=attempt,
        parse_status=ParseStatus.PENDING,
        summary_status=SummaryStatus.NONE,
        summary="",
        summary_method="",
        warnings=[],
        processed_at=None,
    )
    new = Registered(knowledge_id, attempt, Entry.RETRIED)
    job = process_job(target, new, document, ProcessOptions.of(target, timeout))
    await Outbox.add(session, ids.process_job(knowledge_id, attempt), job, timeout=timeout)
    return DONE


async def served_by(
    session: AsyncSession, source: KnowledgeBase, target: KnowledgeBase
) -> dict[str, int] | str:
    """Return which generation of vectors serves each of two bases that can be compared, and goes on to until this transaction
    ends; or why nothing can go from one to the other.
    """
    columns = select(KnowledgeBase.embedding_model, KnowledgeBase.embedding_dimension).add_columns(
        KnowledgeBase.index_generation
    )
    generations: dict[str, int] = {}
    models = set()
    for kb in sorted((source, target), key=lambda one: one.id):
        if not await base_lives(session, kb.tenant_id, kb.id):
            return BASE_GONE
        row = (await session.execute(columns.where(KnowledgeBase.id == kb.id))).one()
        generations[kb.id] = row.index_generation
        models.add((row.embedding_model, row.embedding_dimension))
    return generations if len(models - {(None, None)}) < 2 else OTHER_MODEL


async def _taken(
    session: AsyncSession, knowledge_id: str, source: KnowledgeBase, target: KnowledgeBase
) -> tuple[Knowledge | None, str]:
    """Return a document to move, for this transaction alone; or None, and what is said of it."""
    found = select(Knowledge).where(Knowledge.id == knowledge_id, Knowledge.tenant_id == source.tenant_id)
    document = (await session.scalars(found.with_for_update())).one_or_none()
    if document is None:
        return None, GONE
    if document.knowledge_base_id == target.id:
        return None, DONE  # an earlier run brought it there
    if document.knowledge_base_id != source.id:
        return None, "it is in another base"
    if document.parse_status is not ParseStatus.COMPLETED:
        return None, f"it is {document.parse_status}"
    same_place = Knowledge.knowledge_base_id == target.id, Knowledge.source == document.source
    if await session.scalar(select(Knowledge.id).where(*same_place)) is not None:
        return None, TAKEN
    return document, DONE


async def _leave(session: AsyncSession, document: Knowledge, source: KnowledgeBase) -> None:
    """Take a document out of the wiki of its base; it has no tags of that base any more."""
    await forget_ingest(session, source.id, document.id)
    await retract(session, document.tenant_id, source.id, document.id)
    await ask_for_profile(session, source.id)
    for table in (WikiReading, KnowledgeTag):
        await session.execute(delete(table).where(table.knowledge_id == document.id))


async def _enter(session: AsyncSession, document: Knowledge, target: KnowledgeBase, **values: object) -> None:
    values |= {"knowledge_base_id": target.id, "data_source_id": None, "updated_at": now_ms()}
    for name, value in values.items():
        setattr(document, name, value)
    await session.flush()
    await ask_for_profile(session, target.id)


async def _tags_of(session: AsyncSession, knowledge_id: str) -> Sequence[tuple[str, str, float, str]]:
    """Return name, description, confidence and method of each tag of a document."""
    found = (
        select(Tag.name, Tag.description, KnowledgeTag.confidence, KnowledgeTag.method)
        .join(KnowledgeTag, KnowledgeTag.tag_id == Tag.id)
        .where(KnowledgeTag.knowledge_id == knowledge_id)
    )
    return [(row[0], row[1], row[2], row[3]) for row in await session.execute(found)]


async def _give_tags(
    session: AsyncSession, kb_id: str, knowledge_id: str, tags: Sequence[tuple[str, str, float, str]]
) -> None:
    listed = {ids.normal(tag.name): tag.id for tag in await tags_of(session, kb_id)}
    new = {name: about for name, about, *_ in tags if ids.normal(name) not in listed}
    await ensure_tags(session, kb_id, new)
    rows: list[dict[str, Any]] = [
        {
            "knowledge_id": knowledge_id,
            "tag_id": listed.get(ids.normal(name)) or ids.tag(kb_id, name),
            "confidence": sure,
            "method": method,
        }
        for name, _, sure, method in tags
    ]
    await insert_new(session, table_of(KnowledgeTag), rows)


async def _rows(session: AsyncSession, table: Table, *where: ColumnElement[bool]) -> list[dict[str, Any]]:
    return [dict(row) for row in (await session.execute(select(table).where(*where))).mappings()]


def _key_of_copy(key: str, source_id: str, copy_id: str) -> str:
    owner, _, name = key.partition("/")
    return f"{copy_id}/{name}" if owner == source_id else key
