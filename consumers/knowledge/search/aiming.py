"""What a question is compared with: its vector and the index that serves its base, chosen together."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from consumers.knowledge.embedding.embedder import Embedder, EmbeddingError
from consumers.knowledge.search.sides import Side
from consumers.knowledge.search.store import Hit, SearchStore, Vector
from consumers.services import Services

EMBED_S: Final = 5.0
"""For the vector of a question; then words alone decide."""

log = structlog.get_logger(component="search")


@dataclass(frozen=True, slots=True)
class Aim:
    """Without a `side` there is no vector, words alone decide, and the `notice` says so to a person.

    At `floor` the model sees nothing in common.
    """

    side: Side | None = None
    vector: Vector | None = None
    floor: float = 0.0
    notice: str = ""

    @property
    def embedder(self) -> Embedder | None:
        """What made the vector."""
        return self.side.embedder if self.side is not None else None

    async def hits(self, index: SearchStore, bases: Sequence[str], query: str, limit: int) -> list[Hit]:
        """Return the best passages. Raises StoreUnavailable."""
        model, generation = (self.side.model, self.side.generation) if self.side else ("", 0)
        return await index.search(bases, query, self.vector, model=model, generation=generation, limit=limit)

    def fit(self, closeness: float) -> float:
        """Return how close a text is, 0 to 1, whatever the model."""
        return max(0.0, closeness - self.floor) / (1 - self.floor)


async def aim_at(services: Services, kb_id: str, query: str) -> Aim:
    """Embed a question as the texts of its base were, if that can be done now. Raises StoreUnavailable."""
    try:
        side = await services.side(kb_id)
        async with asyncio.timeout(EMBED_S):
            (vector,) = await side.embedder.embed([query])
            floor = await services.embedders.floor(side.embedder)
    except (EmbeddingError, TimeoutError) as problem:
        why = str(problem) or f"embedding the question took longer than {EMBED_S:g} s"
        log.warning("searched by words alone", knowledge_base=kb_id, reason=why)
        return Aim(notice=f"searched by words alone: {why}")
    return Aim(side, vector, floor)
