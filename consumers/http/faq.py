"""Questions with ready answers over HTTP: imported, kept one by one, searched."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from consumers.http.callers import PREFIX, Ident, Reader, base_of, services_of, writer
from consumers.knowledge.answers import faq_asking
from consumers.knowledge.faq import storing
from consumers.knowledge.faq.reading import (
    LONGEST_ANSWER,
    LONGEST_QUESTION,
    MOST_ANSWERS,
    MOST_FORMS,
    Written,
    check,
)
from consumers.knowledge.tables.faq import FAQEntry
from pipeline.http.admin import PageSize, page_of
from pipeline.http.audit import recorded
from pipeline.http.call import Call
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.inspector import PAGE

BASE: Final = "/knowledge-bases/{id}/faq"

router = APIRouter(prefix=PREFIX, tags=["faq"], responses=documented(401, 403, 404))

Question = Annotated[str, Field(max_length=LONGEST_QUESTION)]
Questions = Annotated[list[Question], Field(max_length=MOST_FORMS)]
EntryId = Annotated[str, Path(max_length=64)]
Writer = Annotated[Principal, writer("knowledge.faq_changed")]


class Entry(BaseModel):
    """A question, other forms of it, questions that seem near and are not meant, and its answers."""

    model_config = ConfigDict(extra="forbid")

    question: Question
    answers: Annotated[list[Annotated[str, Field(max_length=LONGEST_ANSWER)]], Field(max_length=MOST_ANSWERS)]
    similar_questions: Questions = []
    negative_questions: Questions = []
    enabled: bool = True


class StoredEntry(Entry):
    """An entry as it is kept. Times are milliseconds since the epoch."""

    id: str
    created_at: int
    updated_at: int


class Entries(BaseModel):
    """Some entries of a base, by id."""

    entries: Sequence[StoredEntry]
    page_size: int
    has_more: bool
    next_cursor: str | None = None


class Asked(BaseModel):
    """What somebody wants to know."""

    model_config = ConfigDict(extra="forbid")

    query: Annotated[str, Field(min_length=1, max_length=2_000)]
    limit: Annotated[int, Field(ge=1, le=50)] = 5


class Match(BaseModel):
    """An entry that fits, and how well, 0 to 1."""

    entry: StoredEntry
    score: float


class Matches(BaseModel):
    """The entries that fit, best first."""

    matches: Sequence[Match]


class Chosen(BaseModel):
    """Entries by id."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=200)]


class Deleted(BaseModel):
    """How many were there."""

    deleted: int


@router.get(f"{BASE}/entries", response_model_exclude_none=True)
async def entries(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    contains: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str, Query(max_length=64)] = "",
    page_size: PageSize = PAGE,
) -> Entries:
    """Entries of a base by id, those whose question contains something."""
    services, size = services_of(request), page_of(page_size)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        found = await storing.entries_of(sql, kb.id, cursor, size + 1, contains)
    shown = [_shown(row) for row in found[:size]]
    more = len(found) > size
    return Entries(entries=shown, page_size=size, has_more=more, next_cursor=shown[-1].id if more else None)


@router.post(f"{BASE}/entries", status_code=201, responses=documented(400, 409))
async def add_entry(request: Request, who: Writer, id: Ident, said: Entry) -> StoredEntry:  # noqa: A002
    """Add a question that is not there yet."""
    return await _write(request, who, id, said, None)


@router.get(f"{BASE}/entries/{{entry_id}}")
async def one_entry(request: Request, who: Reader, id: Ident, entry_id: EntryId) -> StoredEntry:  # noqa: A002
    """One entry."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with services.database.read() as sql:
        found = await storing.entry(sql, kb.id, entry_id)
    if found is None:
        raise _unknown(entry_id)
    return _shown(found)


@router.put(f"{BASE}/entries/{{entry_id}}", responses=documented(400, 409))
async def change_entry(
    request: Request,
    who: Writer,
    id: Ident,  # noqa: A002 - the name in the path
    entry_id: EntryId,
    said: Entry,
) -> StoredEntry:
    """Write an entry anew. Where the question itself changes, the entry gets another id."""
    return await _write(request, who, id, said, entry_id)


@router.post(f"{BASE}/entries/delete")
async def delete_entries(request: Request, who: Writer, id: Ident, chosen: Chosen) -> Deleted:  # noqa: A002
    """Delete entries; those that are not there are not counted."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    async with recorded(Call.of(request, who), "knowledge.faq_deleted", ("knowledge_base", id)) as noted:
        async with services.outbox.transaction() as sql:
            gone = await storing.delete_entries(sql, services.search, kb.id, chosen.ids)
        noted.details["deleted"] = str(gone)
    return Deleted(deleted=gone)


@router.post(f"{BASE}/search")
async def search(request: Request, who: Reader, id: Ident, asked: Asked) -> Matches:  # noqa: A002
    """The entries that fit a question best."""
    services = services_of(request)
    kb = await base_of(services, who, id)
    found = await faq_asking.fitting(services, kb, asked.query, asked.limit)
    return Matches(matches=[Match(entry=_shown(row), score=round(score, 4)) for row, score in found])


async def _write(
    request: Request, who: Principal, kb_id: str, said: Entry, entry_id: str | None
) -> StoredEntry:
    services = services_of(request)
    kb = await base_of(services, who, kb_id)
    written = check(said.model_dump())
    if not isinstance(written, Written):
        raise Problem(400, f"this entry cannot be taken: {written}", "invalid_entry")
    ident = storing.entry_id(kb.id, written.question)
    async with recorded(Call.of(request, who), "knowledge.faq_changed", ("faq_entry", entry_id or ident)):
        try:
            row = await faq_asking.write_one(services, kb, written, replaces=entry_id)
        except faq_asking.EntryGone:
            raise _unknown(entry_id or ident) from None
        except faq_asking.EntryTaken:
            said_so = f"this question is there already, as {ident}"
            raise Problem(409, said_so, "faq_entry_exists") from None
    return _shown(row)


def _shown(row: FAQEntry) -> StoredEntry:
    return StoredEntry(
        id=row.id,
        question=row.question,
        answers=row.answers,
        similar_questions=row.similar_questions,
        negative_questions=row.negative_questions,
        enabled=row.enabled,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _unknown(entry_id: str) -> Problem:
    return Problem(404, f"no entry {entry_id[:64]} (any more)", "faq_entry_not_found")
