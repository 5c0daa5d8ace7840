"""From a question to passages, and from passages to an answer that names them."""

from typing import Final

from consumers.knowledge.answering import Answer, ExtractiveWriter, Passage
from consumers.knowledge.fates import sources_of
from consumers.knowledge.tables import KnowledgeBase
from consumers.services import Services

MAX_QUERY_CHARS: Final = 2000
PASSAGES: Final = 8
"""How many passages an answer is composed from."""


async def find(services: Services, kb: KnowledgeBase, query: str, *, limit: int) -> list[Passage]:
    """Return the best passages of a base for any text, by words and by meaning."""
    query = query[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
    (vector,) = await services.embedder.embed([query])
    hits = await services.search.search([kb.id], query, vector, model=services.embedder.model, limit=limit)
    async with services.database.read() as session:
        paths = await sources_of(session, [hit.knowledge_id for hit in hits])
    return [
        Passage(paths[hit.knowledge_id], hit.text, hit.score) for hit in hits if hit.knowledge_id in paths
    ]


async def answer(services: Services, kb: KnowledgeBase, question: str) -> Answer:
    """Answer a question from the passages of a base; an answer without citations says that nothing fits."""
    passages = await find(services, kb, question, limit=PASSAGES)
    return await ExtractiveWriter(services.embedder).compose(question, passages)
