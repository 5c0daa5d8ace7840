"""From a question to the ready answers that fit it, and one entry written by a person."""

from consumers.knowledge.answers.answering import NOISE, coverage
from consumers.knowledge.answers.asking import MAX_QUERY_CHARS
from consumers.knowledge.bases.knowledge_bases import keep_base
from consumers.knowledge.embedding.embedder import EmbeddingError
from consumers.knowledge.faq import storing
from consumers.knowledge.faq.reading import Written
from consumers.knowledge.search.aiming import aim_at
from consumers.knowledge.search.sides import held
from consumers.knowledge.tables.faq import FAQEntry
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.services import Services
from pipeline.errors import ConfigurationError


async def fitting(
    services: Services, kb: KnowledgeBase, query: str, limit: int
) -> list[tuple[FAQEntry, float]]:
    """Return the entries of a base that fit a question, best first, each with how well, 0 to 1: how close it is, and half
    the share of its words.
    """
    query = query[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
    aim = await aim_at(services, kb.id, query)
    hits = await aim.hits(services.search, [storing.space(kb.id)], query, limit)
    async with services.database.read() as session:
        found = await storing.answering(session, aim.embedder, query, aim.vector, hits)
    shares = coverage(query, [hit.heading for _, hit in found])
    fits = [
        (row, min(1.0, aim.fit(hit.closeness) + float(share) / 2))
        for (row, hit), share in zip(found, shares, strict=True)
    ]
    return sorted([one for one in fits if one[1] >= NOISE], key=lambda one: -one[1])


class EntryGone(LookupError):  # noqa: N818 - a state of the world
    """The entry that was to be written anew is not there any more."""


class EntryTaken(Exception):  # noqa: N818 - a state of the world
    """Another entry has this question; the argument is its id."""


async def write_one(
    services: Services, kb: KnowledgeBase, said: Written, *, replaces: str | None = None
) -> FAQEntry:
    """Write an entry that is not there yet, or one that `replaces` another. Raises EntryTaken, EntryGone; ConfigurationError
    where it cannot be embedded.
    """
    try:
        side = await services.side(kb.id)
        vectors = await storing.embed_forms(side.embedder, [said])
    except EmbeddingError as problem:
        raise ConfigurationError(str(problem)) from problem
    place, ident = storing.Place(kb.tenant_id, kb.id), storing.entry_id(kb.id, said.question)

    async with services.outbox.transaction() as session:
        if await keep_base(session, kb.id, alone=True) is None:
            raise ConfigurationError(f"the knowledge base {kb.name!r} is gone")
        if not await held(session, side):
            raise ConfigurationError(f"{kb.name!r} got another index just now: write it again")
        if replaces is not None and await storing.entry(session, kb.id, replaces) is None:
            raise EntryGone
        if ident != replaces and await storing.entry(session, kb.id, ident) is not None:
            raise EntryTaken(ident)
        if replaces is not None and replaces != ident:
            await storing.delete_entries(session, services.search, kb.id, [replaces])
        await storing.write_entries(session, services.search, place, [said], vectors, side)
        return await session.get_one(FAQEntry, ident, populate_existing=True)
