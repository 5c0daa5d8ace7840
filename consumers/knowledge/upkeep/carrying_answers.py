"""Questions with ready answers, copied from one base into another with their vectors; compared by their content."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.faq import storing
from consumers.knowledge.search.store import IndexEntry, SearchStore
from consumers.knowledge.tables.faq import FAQEntry
from consumers.knowledge.tables.knowledge import KnowledgeBase, table_of
from consumers.knowledge.upkeep.carrying import served_by
from consumers.knowledge.upkeep.transfers import Difference
from pipeline.store import Database, now_ms, upsert

PAGE = 500


async def difference_of_answers(database: Database, source_id: str, target_id: str) -> Difference:
    """Return the ready answers that one base lacks and those that it has too much to be equal to another."""
    source, target = await _contents(database, source_id), await _contents(database, target_id)
    missing = [ident for content, ident in source.items() if content not in target]
    extra = [ident for content, ident in target.items() if content not in source]
    return Difference(missing, extra, 0)


async def copy_answers(
    session: AsyncSession,
    index: SearchStore,
    idents: Sequence[str],
    source: KnowledgeBase,
    target: KnowledgeBase,
) -> str:
    """Copy entries of a base into another one, over what that has of the same questions; return "", or why not."""
    served = await served_by(session, source, target)
    if isinstance(served, str):
        return served
    wanted = FAQEntry.id.in_(idents), FAQEntry.knowledge_base_id == source.id
    found = (await session.execute(select(table_of(FAQEntry)).where(*wanted))).mappings().all()
    rows, entries = [], list[IndexEntry]()
    for row in found:
        ident = storing.entry_id(target.id, row["question"])
        place = {"id": ident, "knowledge_base_id": target.id, "tenant_id": target.tenant_id}
        rows.append({**row, **place, "import_id": "", "updated_at": now_ms()})
        indexed = await index.entries(session, row["id"], generation=served[source.id])
        entries += [_carried(one, row["id"], ident, target.id, served[target.id]) for one in indexed]
        await index.drop(session, ident)
    rows.sort(key=lambda row: str(row["id"]))
    replaced = [name for name in rows[0] if name not in {"id", "created_at"}] if rows else []
    await upsert(session, table_of(FAQEntry), rows, replace=replaced)
    await index.put(session, entries)
    return ""


async def remove_answers(
    session: AsyncSession, index: SearchStore, target: KnowledgeBase, idents: Sequence[str]
) -> None:
    """Remove entries of a base."""
    await storing.delete_entries(session, index, target.id, idents)


def _carried(one: IndexEntry, old: str, new: str, kb_id: str, generation: int) -> IndexEntry:
    name = f"{new}{one.id.removeprefix(old)}"
    return replace(
        one, id=name, kb_id=storing.space(kb_id), knowledge_id=new, chunk_id=new, generation=generation
    )


async def _contents(database: Database, kb_id: str) -> dict[str, str]:
    """Return the ids of the entries of a base by a hash of their content."""
    contents: dict[str, str] = {}
    after = ""
    while True:
        async with database.read() as session:
            page = await storing.entries_of(session, kb_id, after, PAGE)
        if not page:
            return contents
        for one in page:
            said = (one.question, one.similar_questions, one.negative_questions, one.answers, one.enabled)
            contents[hashlib.sha256(json.dumps(said).encode()).hexdigest()] = one.id
        after = page[-1].id
