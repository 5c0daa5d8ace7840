"""What is remembered of whoever asks, recalled for an answer."""

from typing import Final

from consumers.knowledge.answers.answering import Passage, Place, coverage
from consumers.knowledge.memory import storing
from consumers.knowledge.memory.storing import SHOWN, Who
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.memory import MemoryItem
from consumers.services import Services

NOISE: Final = 0.3
"""Fit below which what is remembered has nothing to do with a question."""
IN_ANSWER: Final = 4
"""Remembered things that an answer is composed from, beside the passages."""
SOURCE: Final = "memory"


async def recalled(
    services: Services, who: Who, query: str, *, limit: int = SHOWN
) -> list[tuple[MemoryItem, float]]:
    """Return what is remembered of a person that fits a text best, and how well, 0 to 1. Raises StoreUnavailable."""
    query = query.encode("utf-8", "replace").decode()
    (asked,) = await services.embedder.embed([query])
    async with services.database.read() as session:
        found = await storing.recall(session, who, asked, services.embedder.model)
    shares = coverage(query, [item.text for item, _ in found])
    fits = [
        (item, min(1.0, near + float(share) / 2)) for (item, near), share in zip(found, shares, strict=True)
    ]
    best = sorted(fits, key=lambda one: -one[1])
    return [(item, fit) for item, fit in best[:limit] if fit >= NOISE]


async def remembered(services: Services, kb: KnowledgeBase, subject_id: str, question: str) -> list[Passage]:
    """Return what is remembered of who asks a base, as passages of an answer: of the base's own tenant, and of nobody else."""
    who = Who(kb.tenant_id, subject_id)
    return [
        Passage(SOURCE, item.text, fit, Place(kb.id, SOURCE, memory_item=item.id))
        for item, fit in await recalled(services, who, question, limit=IN_ANSWER)
    ]
