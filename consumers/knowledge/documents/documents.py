"""Documents: how one enters a base, starts to be parsed, and is given up.

Each function is one guarded transition inside the caller's transaction. It says what really happened and never raises
for a lost race: a job that runs twice, or whose attempt was superseded, changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import case, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge import ids
from consumers.knowledge.bases.pending import forget_ingest, keep_alive
from consumers.knowledge.bases.settings import KnowledgeBaseSettings
from consumers.knowledge.bases.wiki_lane import retract
from consumers.knowledge.documents import originals
from consumers.knowledge.documents.contents import drop_contents
from consumers.knowledge.progress.spans import Attempt, current_root
from consumers.knowledge.search.store import SearchStore
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, Slot, table_of
from consumers.knowledge.tables.spans import Span
from contracts.identity import new_id
from contracts.knowledge import (
    HOPELESS,
    STOPPED,
    DocumentKind,
    ParseStatus,
    SpanCode,
    Stage,
    SummaryStatus,
    sources,
)
from contracts.payloads.documents import DocumentProcess
from contracts.wire import cut
from pipeline.store import Outbox, batches, changed, insert_new, now_ms

LONGEST_SOURCE: Final = 2_000
"""Bytes of what a document is known by: an entry of an index of PostgreSQL has 2,704."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file as it was found. `source` is what it is known by; `file_hash` the SHA-256 of its content, or of what stands
    for it until that is fetched.
    """

    source: str
    file_name: str
    file_type: str
    file_hash: str
    file_size: int
    file_key: str
    kind: DocumentKind = DocumentKind.FILE
    data_source_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """What a document is to get beside text and vectors. `timeout` limits an attempt, in seconds."""

    language: str | None = None
    read_pictures: bool = False
    ask_questions: bool = False
    question_count: int | None = None
    timeout: float | None = None

    @classmethod
    def of(cls, kb: KnowledgeBase, timeout: float | None) -> "ProcessOptions":
        """Return what a base wants done with its documents."""
        wanted = KnowledgeBaseSettings.model_validate(kb.settings)
        return cls(
            read_pictures=wanted.read_pictures,
            ask_questions=wanted.ask_questions,
            question_count=wanted.question_count,
            timeout=timeout,
        )


class Entry(StrEnum):
    """What registering a source came to."""

    CREATED = "created"
    CHANGED = "changed"  # other content than last time: a new attempt
    RETRIED = "retried"  # the last attempt failed or was cancelled: a new one
    RESUMED = "resumed"  # the same content is under way
    UNCHANGED = "unchanged"  # the same content is there
    HOPELESS = "hopeless"  # the same content could not be read, and trying again would not help
    DELETING = "deleting"  # being removed; register it again afterwards


@dataclass(frozen=True, slots=True)
class Registered:
    """A source in a base, and the attempt that speaks for it."""

    knowledge_id: str
    attempt: int
    entry: Entry


class Begin(StrEnum):
    """What a `document:process` may do."""

    STARTED = "started"
    AGAIN = "again"  # it had started before; nothing of it is stored yet
    PARSED = "parsed"  # its work is stored
    SUPERSEDED = "superseded"
    STOPPED = "stopped"  # failed, cancelled or being deleted
    GONE = "gone"

    @property
    def proceed(self) -> bool:
        """Whether to parse."""
        return self in {Begin.STARTED, Begin.AGAIN}


CANCELLED: Final = "cancelled by a person; ingest it again to take it up"

SUMMARY_GIVEN_UP: Final = case(
    (Knowledge.summary_status.in_((SummaryStatus.PENDING, SummaryStatus.PROCESSING)), SummaryStatus.FAILED),
    else_=Knowledge.summary_status,
)

# resumed too: if the queue's file was lost, the job is new again; otherwise it is a duplicate
_PROCESSED: Final = frozenset({Entry.CREATED, Entry.CHANGED, Entry.RETRIED, Entry.RESUMED})


def decide_entry(status: ParseStatus | None, *, same_content: bool, hopeless: bool = False) -> Entry:
    """Return what registering means for a document in this state; None for one that is not there. A `hopeless` one
    failed for what lies in its content.
    """
    if status is None:
        return Entry.CREATED
    if status is ParseStatus.DELETING:
        return Entry.DELETING
    if not same_content:
        return Entry.CHANGED
    if status is ParseStatus.COMPLETED:
        return Entry.UNCHANGED
    if status is ParseStatus.FAILED and hopeless:
        return Entry.HOPELESS
    return Entry.RETRIED if status in STOPPED else Entry.RESUMED


def decide_begin(status: ParseStatus, current: int, parsed: int, attempt: int) -> Begin:
    """Return what is left to a `document:process` that did not find its document pending."""
    if attempt != current:
        return Begin.SUPERSEDED
    if status in STOPPED:
        return Begin.STOPPED
    return Begin.PARSED if parsed == attempt or status is not ParseStatus.PROCESSING else Begin.AGAIN


async def register(
    session: AsyncSession, kb: KnowledgeBase, file: SourceFile, options: ProcessOptions = ProcessOptions()
) -> Registered:
    """Put a file into a base, or find that it is there. What a new attempt replaces stays until it is replaced."""
    (registered,) = await register_many(session, kb, [file], options)
    return registered


async def register_many(
    session: AsyncSession,
    kb: KnowledgeBase,
    files: Sequence[SourceFile],
    options: ProcessOptions = ProcessOptions(),
    *,
    retry: bool = False,
) -> list[Registered]:
    """Register files, as `register` does one, with a handful of statements for all that are new. With `retry`, what
    could not be read is tried again even if its content is the same. Raises KnowledgeBaseGone.
    """
    await keep_alive(session, kb)
    found = {file.source: file for file in files}
    known = await _known(session, kb, sorted(found))
    entered = {source: _entered(file, known.get(source), retry=retry) for source, file in found.items()}
    new = [
        new_row(kb, one.knowledge_id, found[source])
        for source, one in sorted(entered.items(), key=itemgetter(0))
        if one.entry is Entry.CREATED
    ]
    await insert_new(session, table_of(Knowledge), new)
    if new:  # another may have registered the same source just before
        there = await _known(session, kb, [str(row["source"]) for row in new])
        entered |= {
            source: _entered(found[source], row, retry=retry)
            for source, row in there.items()
            if row.id != entered[source].knowledge_id
        }
    await originals.hold(session)
    for source, one in entered.items():
        if one.entry in {Entry.CHANGED, Entry.RETRIED}:
            values = fresh_row(found[source], one.attempt, now_ms())
            await session.execute(update(Knowledge).where(Knowledge.id == one.knowledge_id).values(values))
            await abandon(session, kb.id, one.knowledge_id, one.attempt - 1, SpanCode.TASK_SUPERSEDED)
    jobs = [
        (ids.process_job(one.knowledge_id, one.attempt), process_job(kb, one, found[source], options))
        for source, one in entered.items()
        if one.entry in _PROCESSED
    ]
    await Outbox.add_many(session, jobs, timeout=options.timeout)
    return [entered[file.source] for file in files]


async def _known(session: AsyncSession, kb: KnowledgeBase, named: Sequence[str]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    columns = (
        select(Knowledge.source, Knowledge.id, Knowledge.attempt, Knowledge.parse_status)
        .add_columns(Knowledge.file_hash, Span.error_code.label("code"))
        .outerjoin(Span, current_root())
        .where(Knowledge.knowledge_base_id == kb.id)
    )
    for some in batches(named):
        these = columns.where(Knowledge.source.in_(some)).order_by(Knowledge.source)
        rows = await session.execute(these.with_for_update(of=Knowledge))
        known.update((row.source, row) for row in rows)
    return known


def _entered(file: SourceFile, row: Any | None, *, retry: bool) -> Registered:
    if row is None:
        # never derived from the source: a removed document that comes back would meet the tombstones of its old jobs
        return Registered(new_id(), 1, Entry.CREATED)
    hopeless = row.code in HOPELESS and not retry
    entry = decide_entry(row.parse_status, same_content=row.file_hash == file.file_hash, hopeless=hopeless)
    return Registered(row.id, row.attempt + (entry in {Entry.CHANGED, Entry.RETRIED}), entry)


def process_job(
    kb: KnowledgeBase, one: Registered, file: SourceFile | Knowledge, options: ProcessOptions
) -> DocumentProcess:
    """Return the job that parses a document."""
    fetched = file.kind is DocumentKind.URL
    return DocumentProcess(
        tenant_id=kb.tenant_id,
        knowledge_base_id=kb.id,
        knowledge_id=one.knowledge_id,
        attempt=one.attempt,
        language=options.language,
        url=file.source if fetched else None,
        file_path=None if fetched else file.file_key,
        file_name=file.file_name,
        file_type=file.file_type,
        enable_multimodel=options.read_pictures,
        enable_question_generation=options.ask_questions,
        question_count=options.question_count,
    )


async def begin_processing(session: AsyncSession, knowledge_id: str, attempt: int) -> Begin:
    """Pending → processing, for the current attempt only."""
    moved = await changed(
        session,
        update(Knowledge)
        .where(Knowledge.id == knowledge_id, Knowledge.attempt == attempt)
        .where(Knowledge.parse_status.in_(sources("begin")))
        .values(parse_status=ParseStatus.PROCESSING, updated_at=now_ms()),
    )
    begin = Begin.STARTED
    if not moved:
        columns = select(Knowledge.parse_status, Knowledge.attempt, Knowledge.parsed_attempt)
        standing = columns.where(Knowledge.id == knowledge_id).with_for_update()
        row = (await session.execute(standing)).one_or_none()
        begin = decide_begin(*row, attempt) if row else Begin.GONE
    if begin.proceed:
        await Attempt(session, knowledge_id, attempt).enter(Stage.DOCREADER)
    return begin


async def fail(
    session: AsyncSession,
    index: SearchStore,
    knowledge_id: str,
    attempt: int,
    message: str,
    *,
    code: SpanCode | None = None,
) -> bool:
    """Pending, processing, finalizing → failed, for the current attempt only; nothing of the document stays findable.

    `message` is one sentence for a person, cut to 8 KB; `code` is for the timeline, by default that of the stage.
    False if the attempt was not there to be failed.
    """
    moved = await session.execute(
        update(Knowledge)
        .where(Knowledge.id == knowledge_id, Knowledge.attempt == attempt)
        .where(Knowledge.parse_status.in_(sources("fail")))
        .values(
            parse_status=ParseStatus.FAILED,
            summary_status=case(
                (Knowledge.summary_status == SummaryStatus.NONE, SummaryStatus.NONE),
                else_=SummaryStatus.FAILED,
            ),
            summary="",
            summary_method="",
            error_message=cut(message),
            updated_at=now_ms(),
        )
        .returning(Knowledge.tenant_id, Knowledge.knowledge_base_id),
        execution_options={"synchronize_session": False},
    )
    row = moved.one_or_none()
    if row is None:
        return False
    await session.execute(delete(Slot).where(Slot.knowledge_id == knowledge_id))
    await drop_contents(session, index, knowledge_id)
    await retract(session, row.tenant_id, row.knowledge_base_id, knowledge_id)
    spans = Attempt(session, knowledge_id, attempt)
    await (spans.stall(message) if code is SpanCode.TASK_STALLED else spans.fail(message, code))
    return True


async def cancel(session: AsyncSession, knowledge_id: str) -> bool:
    """Pending, processing, finalizing → cancelled; what was written of the document stays (facts 1.20).

    False if there was nothing to cancel.
    """
    moved = await session.execute(
        update(Knowledge)
        .where(Knowledge.id == knowledge_id, Knowledge.parse_status.in_(sources("cancel")))
        .values(
            parse_status=ParseStatus.CANCELLED,
            summary_status=SUMMARY_GIVEN_UP,
            error_message=CANCELLED,
            updated_at=now_ms(),
        )
        .returning(Knowledge.tenant_id, Knowledge.knowledge_base_id, Knowledge.attempt),
        execution_options={"synchronize_session": False},
    )
    row = moved.one_or_none()
    if row is None:
        return False
    await abandon(session, row.knowledge_base_id, knowledge_id, row.attempt)
    await retract(session, row.tenant_id, row.knowledge_base_id, knowledge_id)
    return True


async def abandon(
    session: AsyncSession,
    kb_id: str,
    knowledge_id: str,
    attempt: int,
    code: SpanCode = SpanCode.USER_CANCELLED,
) -> None:
    """Let an attempt wait for nothing any more; the caller's transaction has moved the document on."""
    await session.execute(delete(Slot).where(Slot.knowledge_id == knowledge_id))
    await forget_ingest(session, kb_id, knowledge_id)
    await Attempt(session, knowledge_id, attempt).cancel(code)


async def document(session: AsyncSession, knowledge_id: str) -> Knowledge | None:
    """Return a document, or None."""
    return await session.get(Knowledge, knowledge_id)


def new_row(kb: KnowledgeBase, knowledge_id: str, file: SourceFile) -> dict[str, object]:
    """Return the row of a document that comes in."""
    now = now_ms()
    return {
        "id": knowledge_id,
        "tenant_id": kb.tenant_id,
        "knowledge_base_id": kb.id,
        "source": file.source,
        "data_source_id": file.data_source_id,
        "summary": "",
        "summary_method": "",
        "parsed_attempt": 0,
        "created_at": now,
        **fresh_row(file, 1, now),
    }


def fresh_row(file: SourceFile, attempt: int, now: int) -> dict[str, object]:
    """Return what an attempt at other content begins with."""
    return {
        "kind": file.kind,
        "file_name": file.file_name,
        "file_type": file.file_type,
        "file_hash": file.file_hash,
        "file_size": file.file_size,
        "file_key": file.file_key,
        "title": file.file_name,
        "language": None,
        "parse_status": ParseStatus.PENDING,
        "summary_status": SummaryStatus.NONE,
        "attempt": attempt,
        "error_message": "",
        "warnings": [],
        "updated_at": now,
        "processed_at": None,
    }
