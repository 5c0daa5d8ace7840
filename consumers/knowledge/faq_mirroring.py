"""Ready answers of one base made equal to those of another, a hundred at a time; done twice, it changes nothing."""

from typing import Final

from consumers.knowledge import faq
from consumers.knowledge.faq_reading import Written
from consumers.knowledge.knowledge_bases import keep_base
from consumers.knowledge.sides import hold
from consumers.knowledge.tables import KnowledgeBase
from consumers.knowledge.tables_faq import FAQEntry
from consumers.services import Services

AT_ONCE: Final = 100


async def mirror(services: Services, source: KnowledgeBase, target: KnowledgeBase) -> int:
    """Write what is missing or other in the target, remove what is too much; return how many entries that concerned.

    Raises ModelUnavailable, EmbeddingError, Snooze, StoreUnavailable: what was done until then stays.
    """
    return await _write_missing(services, source, target) + await _remove_extra(services, source, target)


async def _write_missing(services: Services, source: KnowledgeBase, target: KnowledgeBase) -> int:
    written, after = 0, ""
    while True:
        async with services.database.read() as session:
            rows = await faq.entries_of(session, source.id, after, AT_ONCE)
            there = await faq.known_entries(session, [faq.entry_id(target.id, row.question) for row in rows])
        if not rows:
            return written
        after = rows[-1].id
        due = [
            _written(row)
            for row in rows
            if (known := there.get(faq.entry_id(target.id, row.question))) is None
            or _written(known) != _written(row)
        ]
        if due:
            side = await services.side(target.id)
            vectors = await faq.embed_forms(side.embedder, due)
            async with services.outbox.transaction() as session:
                await hold(session, side)
                if await keep_base(session, target.id) is None:
                    return written
                place = faq.Place(target.tenant_id, target.id)
                await faq.write_entries(session, services.search, place, due, vectors, side)
            written += len(due)


async def _remove_extra(services: Services, source: KnowledgeBase, target: KnowledgeBase) -> int:
    removed, after = 0, ""
    while True:
        async with services.database.read() as session:
            rows = await faq.entries_of(session, target.id, after, AT_ONCE)
            wanted = await faq.known_entries(session, [faq.entry_id(source.id, row.question) for row in rows])
        if not rows:
            return removed
        after = rows[-1].id
        extra = [row.id for row in rows if faq.entry_id(source.id, row.question) not in wanted]
        if extra:
            async with services.outbox.transaction() as session:
                removed += await faq.delete_entries(session, services.search, target.id, extra)


def _written(row: FAQEntry) -> Written:
    return Written(
        row.question,
        tuple(row.answers),
        tuple(row.similar_questions),
        tuple(row.negative_questions),
        row.enabled,
    )
