"""Search and answers over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from consumers.http.callers import NAME, PREFIX, Ident, Reader, base_of, printable, services_of
from consumers.knowledge.answers.answering import Citation, Passage
from consumers.knowledge.answers.asking import MAX_QUERY_CHARS, answer, look
from consumers.knowledge.answers.attachments import Waited, await_ready
from pipeline.http.errors import Problem, documented

router = APIRouter(
    prefix=f"{PREFIX}/knowledge-bases/{{id}}", tags=["search"], responses=documented(401, 403, 404, 429)
)

across = APIRouter(prefix=f"{PREFIX}/search", tags=["search"], responses=documented(401, 403, 404, 429))

MOST_BASES: Final = 20
AT_ONCE: Final = 8
"""Questions that a process works on at once …"""
IN_LINE: Final = 64
"""… and so many more that wait their turn; others are told to come back."""


Text = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS), AfterValidator(printable)]


class Query(BaseModel):
    """What is looked for."""

    model_config = ConfigDict(extra="forbid")

    query: Text
    limit: Annotated[int, Field(ge=1, le=100)] = 10


class WideQuery(Query):
    """What is looked for, and in which bases, all of one tenant."""

    knowledge_base_ids: Annotated[
        list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=MOST_BASES)
    ]


class Question(BaseModel):
    """What is asked."""

    model_config = ConfigDict(extra="forbid")

    question: Text
    attachments: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=20)] = []
    """Files of a session, waited for until they are read or the limit is over."""
    subject_id: Annotated[str, Field(pattern=NAME)] | None = None
    """Who asks, by the tenant's own name: what is remembered of them is answered from, too."""


class Source(BaseModel):
    """A passage and where it stands: in a document, on a page of the wiki, among the ready answers, or in what is remembered of
    who asks. `position` counts the chunks of a document; it is left out where the whole document was found by its summary.
    `page` is the slug of a page.
    """

    knowledge_base_id: str
    title: str
    source: str
    text: str
    knowledge_id: str | None = None
    chunk_id: str | None = None
    position: int | None = None
    page: str | None = None
    faq_entry: str | None = None
    attachment: str | None = None
    memory_item: str | None = None


class Found(Source):
    """A passage that was found. The better it fits, the higher its score, 0 to 1."""

    score: float


class Hits(BaseModel):
    """What was found, the best first; a `notice` says what it was found without, such as vectors."""

    query: str
    hits: Sequence[Found]
    notice: str | None = None


class Said(BaseModel):
    """An answer with marks [1], [2] … that number its citations; without any it says that nothing fits. Of attached files it
    names those that were read in time, and how many were not.
    """

    question: str
    answer: str
    method: str
    citations: Sequence[Source]
    notice: str | None = None
    attachments: Sequence[str] | None = None
    attachments_skipped: int | None = None


@router.post("/search", response_model_exclude_none=True)
async def search(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    asked: Query,
) -> Hits:
    """Find passages by words and by meaning."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with _turn(request):
        found = await look(services, kb.id, asked.query, limit=asked.limit)
    return Hits(query=asked.query, hits=_shown(found.passages), notice=found.notice or None)


@across.post("", responses=documented(400), response_model_exclude_none=True)
async def search_across(request: Request, who: Reader, asked: WideQuery) -> Hits:
    """Find passages in several bases of a tenant. Each is compared as it is embedded, and the best of all are told."""
    services = services_of(request)
    bases = [await base_of(services, who, ident) for ident in dict.fromkeys(asked.knowledge_base_ids)]
    if len({kb.tenant_id for kb in bases}) > 1:
        raise Problem(400, "these knowledge bases are of several tenants", "several_tenants")
    async with _turn(request):
        found = [await look(services, kb.id, asked.query, limit=asked.limit) for kb in bases]
    passages = sorted((hit for one in found for hit in one.passages), key=lambda hit: -hit.score)
    notices = " ".join(dict.fromkeys(one.notice for one in found if one.notice))
    return Hits(query=asked.query, hits=_shown(passages[: asked.limit]), notice=notices or None)


@router.post("/ask", response_model_exclude_none=True)
async def ask(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    asked: Question,
) -> Said:
    """Answer a question from the documents of a base."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    waited = Waited((), 0)
    if asked.attachments:
        limit = services.settings.chat_attachment_wait_timeout_s
        waited = await await_ready(services.database, kb.tenant_id, asked.attachments, limit)
    async with _turn(request):
        said = await answer(services, kb, asked.question, waited.ready, asked.subject_id)
    return Said(
        attachments=waited.ready if asked.attachments else None,
        attachments_skipped=waited.skipped if asked.attachments else None,
        question=asked.question,
        answer=said.text,
        method=said.method,
        citations=[Source(**_where(one)) for one in said.citations],
        notice=said.notice or None,
    )


def _shown(passages: Sequence[Passage]) -> list[Found]:
    return [Found(**_where(hit), score=round(hit.score, 4)) for hit in passages]


def _where(one: Passage | Citation) -> dict[str, Any]:
    return {"source": one.path, "text": one.text, **(asdict(one.place) if one.place else {})}


@asynccontextmanager
async def _turn(request: Request) -> AsyncIterator[None]:
    """Wait for a place among those that are worked on. Raises Problem 429 where too many wait."""
    state = request.app.state
    if not hasattr(state, "asking"):
        state.asking, state.in_line = asyncio.Semaphore(AT_ONCE), 0
    if state.in_line >= AT_ONCE + IN_LINE:
        raise Problem(429, "too many questions at once: ask again in a second", "busy", {"Retry-After": "1"})
    state.in_line += 1
    try:
        async with state.asking:
            yield
    finally:
        state.in_line -= 1
