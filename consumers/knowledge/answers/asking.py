"""From a question to passages, and from passages to an answer that names them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from consumers.knowledge.answers import attachments
from consumers.knowledge.answers.answering import NOISE, Answer, ExtractiveWriter, Passage, Place, coverage
from consumers.knowledge.answers.recalling import remembered
from consumers.knowledge.faq import storing
from consumers.knowledge.progress.fates import Named, named_of
from consumers.knowledge.search.aiming import Aim, aim_at
from consumers.knowledge.search.sides import serves
from consumers.knowledge.search.store import EntryKind, Hit
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.wiki.showing import PageFound, pages_found
from consumers.services import Services
from pipeline.errors import StoreUnavailable

MAX_QUERY_CHARS: Final = 2000
PASSAGES: Final = 8
"""How many passages an answer is composed from."""
ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Found:
    """The best passages; `notice` is a sentence for a person on what they were found without, or nothing."""

    passages: list[Passage]
    notice: str = ""


async def look(services: Services, kb_id: str, query: str, *, limit: int) -> Found:
    """Return the best passages of a base for any text, by words and by meaning, without those that share neither. Raises
    StoreUnavailable.

    The vector of the query and the index it is compared with are chosen together: where another index came to serve
    meanwhile, all is done again on that one.
    """
    query = query[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
    with services.precedence.question():
        return await _look(services, kb_id, query, limit)


async def _look(services: Services, kb_id: str, query: str, limit: int) -> Found:
    for _ in range(ROUNDS):
        aim = await aim_at(services, kb_id, query)
        hits = await aim.hits(services.search, [kb_id, storing.space(kb_id)], query, limit)
        async with services.database.read() as session:
            if aim.side is not None and not await serves(session, aim.side):
                continue
            named = dict(await named_of(session, [hit.knowledge_id for hit in hits]))
            of_pages = [hit.knowledge_id for hit in hits if EntryKind.WIKI in hit.kinds]
            pages = await pages_found(session, of_pages)
            ready = [hit for hit in hits if EntryKind.FAQ in hit.kinds]
            for row, _ in await storing.answering(session, aim.embedder, query, aim.vector, ready):
                named[row.id] = Named(f"faq: {row.question}", row.question)
        passages = [
            Passage(
                (pages.get(hit.knowledge_id) or named[hit.knowledge_id]).path,
                hit.text,
                score,
                _place(hit, named, pages),
            )
            for hit, score in _scored(query, hits, aim)
            if hit.knowledge_id in named or hit.knowledge_id in pages
        ]
        return Found(passages, aim.notice)
    raise StoreUnavailable(f"the index of knowledge base {kb_id} changes all the time: ask again")


def _place(hit: Hit, named: Mapping[str, Named], pages: Mapping[str, PageFound]) -> Place:
    if page := pages.get(hit.knowledge_id):
        return Place(hit.kb_id, page.title, page=page.slug)
    if EntryKind.FAQ in hit.kinds:
        return Place(storing.base_of(hit.kb_id), named[hit.knowledge_id].title, faq_entry=hit.knowledge_id)
    position = hit.position if hit.chunk_id else None
    return Place(hit.kb_id, named[hit.knowledge_id].title, hit.knowledge_id, hit.chunk_id, position)


def _scored(query: str, hits: Sequence[Hit], aim: Aim) -> Iterator[tuple[Hit, float]]:
    """How well each hit fits: its closeness and half the share of the query's words in it, within 0 to 1.

    The order is that of the index, which weighs more than these two; so none scores above the one before it.
    """
    lowest = 1.0
    for hit, share in zip(hits, coverage(query, [hit.text for hit in hits]), strict=True):
        fit = aim.fit(hit.closeness) + float(share) / 2
        if fit >= NOISE:
            lowest = min(lowest, fit)
            yield hit, lowest


async def answer(
    services: Services,
    kb: KnowledgeBase,
    question: str,
    attached: Sequence[str] = (),
    subject_id: str | None = None,
) -> Answer:
    """Answer a question from the passages of a base, of files attached to a chat that are read, and of what is remembered of who
    asks; an answer without citations says that nothing fits.
    """
    with services.precedence.question():
        return await _answer(services, kb, question, attached, subject_id)


async def _answer(
    services: Services, kb: KnowledgeBase, question: str, attached: Sequence[str], subject_id: str | None
) -> Answer:
    found = await look(services, kb.id, question, limit=PASSAGES)
    passages = found.passages
    if attached:
        embedder = services.embedder
        beside = await attachments.passages(services.database, embedder, attached, question, PASSAGES)
        passages = sorted([*beside, *passages], key=lambda one: -one.score)[:PASSAGES]
    if subject_id is not None:
        passages = [*await remembered(services, kb, subject_id, question), *passages]
    said = await ExtractiveWriter(services.embedder).compose(question, passages)
    return replace(said, notice=found.notice)
