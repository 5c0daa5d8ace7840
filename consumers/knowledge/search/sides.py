"""The index of a base that serves: which vectors count, and what makes more of them.

Vectors of two models cannot be compared. So whoever writes reads the side first, embeds with it, and holds it in the
transaction that stores: where another index serves by then, its work is begun again on that one.
"""

from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.embedding.embedder import Embedder, ModelUnavailable
from consumers.knowledge.embedding.embedders import Embedders
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from contracts.outcomes import Snooze
from pipeline.store import now_ms

AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Side:
    """The serving index of a base: entries of it have this `model` and `generation`."""

    kb_id: str
    embedder: Embedder
    generation: int = 0

    @property
    def model(self) -> str:
        """Names the model of its vectors."""
        return self.embedder.model


async def side_of(session: AsyncSession, embedders: Embedders, kb_id: str) -> Side:
    """Return the side of a base; one without vectors, or that is gone, has the default model. Raises ModelUnavailable."""
    model, dimension, generation = await _serving(session, kb_id)
    if model is None or dimension is None:
        return Side(kb_id, embedders.default, generation)
    try:
        return Side(kb_id, embedders.get(model, dimension), generation)
    except ModelUnavailable as lack:
        raise ModelUnavailable(
            f"its knowledge base was embedded with {model} ({dimension} numbers), which this process cannot use: {lack}"
        ) from None


async def hold(session: AsyncSession, side: Side) -> None:
    """Do as `held`. Raises Snooze where another side serves by now: nothing may be stored that was made for this one."""
    if not await held(session, side):
        raise Snooze(AGAIN_S, "its knowledge base is served by another index by now")


async def hold_place(session: AsyncSession, side: Side, knowledge_id: str) -> None:
    """Do as `hold`, and keep a complete document in the base of a side. Raises Snooze also where it was moved to another one:
    whoever moves it holds both bases.
    """
    await hold(session, side)
    moved = Knowledge.id == knowledge_id, Knowledge.knowledge_base_id != side.kb_id
    if await session.scalar(select(Knowledge.id).where(*moved)) is not None:
        raise Snooze(AGAIN_S, "it was moved to another knowledge base meanwhile")


async def held(session: AsyncSession, side: Side) -> bool:
    """Keep a side the serving one until the transaction ends; the first ties its base to its model. False if another serves.

    To be called before anything of the base's documents is locked.
    """
    tied = {"embedding_model": side.model, "embedding_dimension": side.embedder.dimension}
    await session.execute(
        update(KnowledgeBase)
        .where(KnowledgeBase.id == side.kb_id, KnowledgeBase.embedding_model.is_(None))
        .values(**tied, updated_at=now_ms()),
        execution_options={"synchronize_session": False},
    )
    return await serves(session, side, keep=True)


async def serves(session: AsyncSession, side: Side, *, keep: bool = False) -> bool:
    """Whether a side is still the one that serves; with `keep`, it stays so until the transaction ends."""
    model, dimension, generation = await _serving(session, side.kb_id, keep=keep)
    ours = (side.model, side.embedder.dimension)
    return model is None or ((model, dimension) == ours and generation == side.generation)


async def _serving(
    session: AsyncSession, kb_id: str, *, keep: bool = False
) -> tuple[str | None, int | None, int]:
    base = select(
        KnowledgeBase.embedding_model, KnowledgeBase.embedding_dimension, KnowledgeBase.index_generation
    ).where(KnowledgeBase.id == kb_id)
    row = (await session.execute(base.with_for_update(read=True) if keep else base)).one_or_none()
    if row is None:
        return None, None, 0
    return row.embedding_model, row.embedding_dimension, row.index_generation
