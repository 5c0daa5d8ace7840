"""Gives the dashboard our documents."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from consumers.extras import KNOWLEDGE
from consumers.knowledge.progress import overseeing
from consumers.knowledge.progress.timeline import Timeline, timeline
from consumers.knowledge.tables.knowledge import Knowledge
from contracts.knowledge import ParseStatus
from pipeline import Database, Outbox, Pipeline
from pipeline.errors import ConfigurationError, CursorInvalid
from pipeline.http.documents import Deed, DocumentPage, DocumentRow, Done, Part, Story, Wanted
from pipeline.store import now_ms

LONGEST_STORY: Final = 200
"""Lines of a timeline: a document of a thousand pictures has a span for each."""


class StoredDocuments:
    """Implements `pipeline.http.documents.Documents`."""

    def __init__(self, database: Database, pipeline: Pipeline, outbox: Outbox) -> None:
        self._database, self._pipeline, self._outbox = database, pipeline, outbox

    async def page(self, wanted: Wanted, limit: int) -> DocumentPage:
        """See the protocol."""
        status = ParseStatus(wanted.status) if wanted.status in set(ParseStatus) else None
        query = overseeing.listed(status, wanted.name, wanted.tenant_id, _place(wanted.cursor))
        if wanted.base_id:
            query = query.where(Knowledge.knowledge_base_id == wanted.base_id)
        async with self._database.read() as sql:
            found = [(row[0], row[1]) for row in await sql.execute(query.limit(limit + 1))]
            counts = await overseeing.counted(sql) if wanted.counted else {}
            moved = await overseeing.whereabouts(sql, [document for document, _ in found[:limit]])
        rows = await self._rows(found[:limit], moved)
        last = found[limit - 1][0] if len(found) > limit else None
        return DocumentPage(rows, counts, f"{last.updated_at}.{last.id}" if last else None)

    async def names(self, ids: Collection[str]) -> Mapping[str, str]:
        """See the protocol."""
        async with self._database.read() as sql:
            return await overseeing.names_of(sql, ids)

    async def story(self, document_id: str, attempt: int | None = None) -> Story | None:
        """See the protocol."""
        query = overseeing.listed(None, "", None, None).where(Knowledge.id == document_id)
        async with self._database.read() as sql:
            found = [(row[0], row[1]) for row in await sql.execute(query)]
            if not found:
                return None
            moved = await overseeing.whereabouts(sql, [found[0][0]])
            number, nodes = await overseeing.told(sql, document_id, attempt)
            warnings, chunks = await overseeing.remarks(sql, document_id)
            questions, tags = await overseeing.made_of(sql, document_id)
        (row,) = await self._rows(found, moved)
        parts = tuple(
            Part(node.name, node.status.value, depth, node.started_at, node.finished_at)
            for node, depth in nodes[:LONGEST_STORY]
        )
        document = found[0][0]
        return Story(
            document=row,
            attempt=number,
            attempts=document.attempt,
            parts=parts,
            warnings=warnings,
            chunks=chunks,
            questions=questions,
            tags=tags,
            summary=document.summary,
            summary_status=document.summary_status.value,
            summary_method=document.summary_method,
            language=document.language,
        )

    async def spans(
        self, document_id: str, tenant_id: int | None = None, attempt: int | None = None
    ) -> Timeline | None:
        """See the protocol."""
        async with self._database.read() as sql:
            found = await sql.get(Knowledge, document_id)
            if found is None or tenant_id not in {None, found.tenant_id} or (attempt or 1) > found.attempt:
                return None
            return await timeline(sql, document_id, attempt)

    async def act(self, deed: Deed, ids: Sequence[str]) -> list[Done]:
        """See the protocol."""
        if KNOWLEDGE.absent:
            raise ConfigurationError(f"documents cannot be changed from this process: {KNOWLEDGE.how}")
        from consumers.document_deeds import act  # here: what it needs may be absent

        return await act(self._pipeline.settings, self._outbox, deed, ids)

    async def _rows(
        self, found: Sequence[tuple[Knowledge, str]], moved: Mapping[str, tuple[str, int]]
    ) -> tuple[DocumentRow, ...]:
        """Asks the queue, so that no connection to the database may be held meanwhile."""
        stale = overseeing.stale([document for document, _ in found], moved, now_ms())
        stalls = await self._pipeline.inspector.stall_state("knowledge", stale) if stale else {}
        return tuple(
            replace(_row(document, base, *moved.get(document.id, ("", document.updated_at))),
                    stall=stalls.get(document.id, ""))
            for document, base in found
        )  # fmt: skip


def _row(document: Knowledge, base: str, stage: str, moved_at: int) -> DocumentRow:
    return DocumentRow(
        id=document.id,
        name=document.title or document.file_name,
        source=document.source,
        base=base,
        base_id=document.knowledge_base_id,
        tenant_id=document.tenant_id,
        status=document.parse_status.value,
        attempt=document.attempt,
        size=document.file_size,
        created_at=document.created_at,
        moved_at=moved_at,
        kind=document.kind.value,
        type=document.file_type,
        stage=stage,
        error=document.error_message,
    )


def _place(cursor: str) -> tuple[int, str] | None:
    at, _, ident = cursor.partition(".")
    if not cursor:
        return None
    if not (at.isascii() and at.isdecimal() and len(at) < 19 and ident):
        raise CursorInvalid("this is not a page cursor; start from the first page")
    return int(at), ident
