"""Another index of a base, made beside the one that serves: a generation of vectors, of whatever model, that takes over
in one transaction once no entry lacks one.

Until then documents are written to the index that serves, whose entries the new one catches up with; from then on to the
new one (see `sides`). Vectors of generations that do not serve and that nobody makes are left over, and go.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.documents.contents import chunks_by_id
from consumers.knowledge.embedding.embedders import Embedders
from consumers.knowledge.faq import storing
from consumers.knowledge.long_work import tasks
from consumers.knowledge.long_work.store_work import begin, gone, locked
from consumers.knowledge.reading.chunking import context
from consumers.knowledge.search.store import EntryKind, Lacking, SearchStore
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.tasks import Task
from contracts.identity import new_id
from contracts.payloads.knowledge import StoreReembed
from contracts.tasks import TaskStatus
from pipeline.errors import NotAllowed

KIND: Final = StoreReembed.spec.type
DROPPED: Final = 500
"""Vectors that are removed in one transaction."""


def spaces(kb_id: str) -> tuple[str, ...]:
    """Return the bases of the index in which a base lies."""
    return (kb_id, storing.space(kb_id))


async def ask_for(
    session: AsyncSession,
    embedders: Embedders,
    kb_id: str,
    model: str,
    dimension: int,
    *,
    again: bool = False,
) -> str:
    """Begin to make another index of a base; return the id of the task. `again`: with the model that it has, too.

    Raises ModelUnavailable; UnderWay; NotAllowed where it has this model; ConfigurationError where the base is gone.
    """
    embedders.get(model, dimension)
    kb = await locked(session, kb_id)
    if kb is None:
        raise gone(kb_id)
    if not again and (kb.embedding_model, kb.embedding_dimension) == (model, dimension):
        raise NotAllowed(f"this knowledge base is embedded with {model} ({dimension} numbers) already")
    task_id = new_id()
    generation = kb.index_generations + 1
    job = StoreReembed(
        tenant_id=kb.tenant_id, knowledge_base_id=kb.id, task_id=task_id, model=model, dimension=dimension
    )
    detail = {"model": model, "dimension": dimension, "generation": generation}
    await begin(session, kb, task_id, job, detail=detail)
    await session.execute(
        update(KnowledgeBase).where(KnowledgeBase.id == kb.id).values(index_generations=generation),
        execution_options={"synchronize_session": False},
    )
    return task_id


async def texts_of(session: AsyncSession, entries: Sequence[Lacking]) -> list[str]:
    """Return what is embedded of each entry: the same as when it was made."""
    named = [entry.chunk_id for entry in entries if entry.kind is EntryKind.TEXT and entry.chunk_id]
    chunks = await chunks_by_id(session, named)

    def text(entry: Lacking) -> str:
        chunk = chunks.get(entry.chunk_id or "") if entry.kind is EntryKind.TEXT else None
        if chunk is not None:
            return context(chunk.text, chunk.heading)
        return entry.heading if entry.kind is EntryKind.FAQ else entry.text

    return [text(entry) for entry in entries]


async def swap(session: AsyncSession, index: SearchStore, task: Task) -> bool:
    """Let the new index serve, and end its task; False while an entry lacks a vector of it.

    Nobody writes entries meanwhile: whoever does holds the base (`sides.hold`).
    """
    kb, new = await locked(session, task.knowledge_base_id), task.detail
    if kb is None:
        await tasks.finish(session, task.id, TaskStatus.FAILED, error=str(gone(task.knowledge_base_id)))
        return True
    for space in spaces(kb.id):
        if await index.lacking(
            session, space, new["generation"], serving=kb.index_generation, after="", limit=1
        ):
            return False
    said = f"embedded with {new['model']} ({new['dimension']} numbers)"
    if await tasks.finish(session, task.id, TaskStatus.COMPLETED, message=said):
        serving = {"embedding_model": new["model"], "embedding_dimension": new["dimension"]}
        await session.execute(
            update(KnowledgeBase)
            .where(KnowledgeBase.id == kb.id)
            .values(**serving, index_generation=new["generation"]),
            execution_options={"synchronize_session": False},
        )
    return True


async def drop_left_over(session: AsyncSession, index: SearchStore, kb_id: str) -> int:
    """Remove some vectors that neither serve nor are being made; return how many, 0 for none left."""
    held = select(KnowledgeBase.index_generation).where(KnowledgeBase.id == kb_id)
    serving = await session.scalar(held.with_for_update(read=True))  # nobody begins another one meanwhile
    kept = set() if serving is None else {serving}
    if (under_way := await tasks.under_way(session, kb_id, KIND)) is not None:
        task = await tasks.find(session, None, under_way)
        kept |= {task.detail["generation"]} if task is not None else set()
    removed = 0
    for space in spaces(kb_id):
        removed += await index.drop_vectors(session, space, kept=kept, limit=DROPPED)
    return removed
