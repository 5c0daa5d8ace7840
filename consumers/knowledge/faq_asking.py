"""From a question to the ready answers that fit it, and one entry written by a person."""

from consumers.knowledge import faq
from consumers.knowledge.answering import coverage
from consumers.knowledge.asking import MAX_QUERY_CHARS, NOISE
from consumers.knowledge.faq_reading import Written
from consumers.knowledge.knowledge_bases import fix_embedding, is_there
from consumers.knowledge.tables import KnowledgeBase
from consumers.knowledge.tables_faq import FAQEntry
from consumers.services import Services
from pipeline.errors import ConfigurationError


async def fitting(
    services: Services, kb: KnowledgeBase, query: str, limit: int
) -> list[tuple[FAQEntry, float]]:
    """Return the entries of a base that fit a question, best first, each with how well, 0 to 1: how close it is, and half
    the share of its words.
    """
    query = query[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
    embedder = services.embedder
    (vector,) = await embedder.embed([query])
    hits = await services.search.search([faq.space(kb.id)], query, vector, model=embedder.model, limit=limit)
    async with services.database.read() as session:
        found = await faq.answering(session, embedder, query, vector, hits)
    shares = coverage(query, [hit.heading for _, hit in found])
    fits = [
        (row, min(1.0, hit.closeness + float(share) / 2))
        for (row, hit), share in zip(found, shares, strict=True)
    ]
    return sorted([one for one in fits if one[1] >= NOISE], key=lambda one: -one[1])


async def write_one(
    services: Services, kb: KnowledgeBase, said: Written, *, replaces: str | None = None
) -> None:
    """Write an entry, in the place of another one if told. Raises ConfigurationError where it cannot be embedded."""
    embedder = services.embedder
    vectors = await faq.embed_forms(embedder, [said])
    place = faq.Place(kb.tenant_id, kb.id)

    async with services.outbox.transaction() as session:
        if not await is_there(session, kb.id):
            raise ConfigurationError(f"the knowledge base {kb.name!r} is gone")
        model, _ = await fix_embedding(session, kb.id, embedder.model, embedder.dimension)
        if model != embedder.model:
            raise ConfigurationError(
                f"{kb.name!r} was embedded with {model}, this process has {embedder.model}"
            )
        if replaces is not None:
            await faq.delete_entries(session, services.search, kb.id, [replaces])
        await faq.write_entries(session, services.search, place, [said], vectors, model)
