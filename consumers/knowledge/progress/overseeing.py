"""Documents as operators see them: which there are, where each stands, and how a parse of one went."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.bases.tags import tags_on
from consumers.knowledge.progress.fates import fates
from consumers.knowledge.progress.timeline import Node, timeline
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase, Question
from consumers.knowledge.tables.spans import Span
from contracts.knowledge import OPEN, ParseStatus, SpanKind, SpanStatus, sources
from pipeline.store import batches

STALE_MS: Final = 20 * 60_000
"""An open document on which nothing moved for so long is asked about (facts 7.6)."""


async def counted(session: AsyncSession) -> Mapping[str, int]:
    """Return how many documents there are of each status, those of none left out."""
    hidden = select(KnowledgeBase.id).where(KnowledgeBase.deleted_at.is_not(None))
    live = select(Knowledge.parse_status, func.count()).where(Knowledge.knowledge_base_id.not_in(hidden))
    rows = await session.execute(live.group_by(Knowledge.parse_status))
    found = {row[0]: row[1] for row in rows}
    return {status.value: found[status] for status in ParseStatus if status in found}


async def names_of(session: AsyncSession, ids: Collection[str]) -> Mapping[str, str]:
    """Return by id what the files of these documents are called; what is no document is absent."""
    found: dict[str, str] = {}
    for some in batches(sorted(set(ids) - {""})):
        rows = await session.execute(select(Knowledge.id, Knowledge.file_name).where(Knowledge.id.in_(some)))
        found.update((row.id, row.file_name) for row in rows)
    return found


async def documents_of(session: AsyncSession, kb_id: str) -> dict[str, bool]:
    """Return the ids of all documents of a base, and whether each is still under way."""
    rows = await session.execute(
        select(Knowledge.id, Knowledge.parse_status.in_(sources("cancel"))).where(
            Knowledge.knowledge_base_id == kb_id
        )
    )
    return {ident: bool(under_way) for ident, under_way in rows}


def listed(
    status: ParseStatus | None, name: str, tenant_id: int | None, after: tuple[int, str] | None
) -> Select[Knowledge, str]:
    """Return the query of documents, those that moved last first; `after` is (updated_at, id) of the last one seen."""
    query = (
        select(Knowledge, KnowledgeBase.name)
        .join(KnowledgeBase, KnowledgeBase.id == Knowledge.knowledge_base_id)
        .where(KnowledgeBase.deleted_at.is_(None))
        .order_by(Knowledge.updated_at.desc(), Knowledge.id.desc())
    )
    if status is not None:
        query = query.where(Knowledge.parse_status == status)
    if name:
        query = query.where(Knowledge.file_name.icontains(name, autoescape=True))
    if tenant_id is not None:
        query = query.where(Knowledge.tenant_id == tenant_id)
    if after is not None:
        at, ident = after
        query = query.where(
            (Knowledge.updated_at < at) | ((Knowledge.updated_at == at) & (Knowledge.id < ident))
        )
    return query


async def whereabouts(session: AsyncSession, documents: Sequence[Knowledge]) -> Mapping[str, tuple[str, int]]:
    """Return by id, for open documents, the stage that runs and when something last moved (ms)."""
    wanted = [document for document in documents if document.parse_status in OPEN]
    spans = select(Span.knowledge_id, Span.attempt, Span.name, Span.kind, Span.status, Span.updated_at).where(
        Span.knowledge_id.in_([document.id for document in wanted])
    )
    attempts = {document.id: document.attempt for document in wanted}
    found = {document.id: ("", document.updated_at) for document in wanted}
    for span in await session.execute(spans):
        stage, moved = found[span.knowledge_id]
        running = span.kind is SpanKind.STAGE and span.status is SpanStatus.RUNNING
        if span.attempt == attempts[span.knowledge_id]:
            stage = span.name if running else stage
        found[span.knowledge_id] = stage, max(moved, span.updated_at)
    return found


def stale(documents: Iterable[Knowledge], moved: Mapping[str, tuple[str, int]], now: int) -> list[str]:
    """Return the ids of open documents on which nothing has moved for long."""
    return [d.id for d in documents if d.id in moved and now - moved[d.id][1] > STALE_MS]


def flat(node: Node, depth: int = 0) -> list[tuple[Node, int]]:
    """Return the stages of a timeline and what is inside them, each with how deep it lies; the root is left out."""
    found: list[tuple[Node, int]] = []
    for child in node.children:
        found += [(child, depth), *flat(child, depth + 1)]
    return found


async def told(
    session: AsyncSession, knowledge_id: str, attempt: int | None
) -> tuple[int, list[tuple[Node, int]]]:
    """Return the number and the parts of a parse, the latest unless told."""
    found = await timeline(session, knowledge_id, attempt)
    return (found.attempt, flat(found.trace)) if found else (0, [])


async def remarks(session: AsyncSession, knowledge_id: str) -> tuple[tuple[str, ...], int]:
    """Return what was left out of a document, and how many chunks it has."""
    fate = (await fates(session, [knowledge_id])).get(knowledge_id)
    return (fate.warnings, fate.chunks) if fate else ((), 0)


async def made_of(session: AsyncSession, knowledge_id: str) -> tuple[int, tuple[tuple[str, float], ...]]:
    """Return how many questions a document answers, and its tags with how sure they are."""
    count = select(func.count()).select_from(Question).where(Question.knowledge_id == knowledge_id)
    return await session.scalar(count) or 0, tuple(await tags_on(session, knowledge_id))
