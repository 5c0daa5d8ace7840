"""Documents over HTTP: where each stands, how its parse went, and to stop, repeat or delete it."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request

from contracts.knowledge import OPEN, DocumentEffect, DocumentVerb, ParseStatus, SummaryStatus
from pipeline.http import answers_knowledge as answers
from pipeline.http import document_deeds
from pipeline.http.admin import PageSize, ShortCursor, page_of
from pipeline.http.auth import needs
from pipeline.http.call import Call
from pipeline.http.documents import DocumentRow, Done, Wanted
from pipeline.http.errors import Problem, documented
from pipeline.http.principal import Principal
from pipeline.inspector import PAGE
from pipeline.store.keys import Capability

BASE: Final = "/api/v1/knowledge"
MANY: Final[Mapping[str, str]] = {str(verb): deed for verb, deed in document_deeds.DEEDS.items()}

Reader = Annotated[Principal, Depends(needs(Capability.KNOWLEDGE_READ, Capability.KNOWLEDGE_WRITE))]
Ident = Annotated[str, Path(max_length=64)]

router = APIRouter(prefix=BASE, tags=["knowledge"], responses=documented(401, 403))


def writer(verb: DocumentVerb) -> Principal:
    """Return a dependency: whoever may do this."""
    found: Principal = Depends(needs(Capability.KNOWLEDGE_WRITE, deed=document_deeds.DEEDS[verb]))
    return found


@router.get("", responses=documented(400), response_model_exclude_none=True)
async def documents(  # each is a parameter of the query
    request: Request,
    who: Reader,
    *,
    status: Annotated[str, Query(max_length=32)] = "",
    name: Annotated[str, Query(max_length=200)] = "",
    knowledge_base_id: Annotated[str, Query(max_length=64)] = "",
    cursor: ShortCursor = None,
    page_size: PageSize = PAGE,
) -> answers.DocumentList:
    """Documents, those that moved last first: of any status, or of one, such as `cancelled`."""
    if status and status not in set(ParseStatus):
        raise Problem(400, f"no such status: {status}; there are {', '.join(ParseStatus)}", "unknown_status")
    size = page_of(page_size)
    wanted = Wanted(status, name, who.tenant_id, cursor or "", knowledge_base_id)
    page = await document_deeds.keeper_of(Call.of(request, who)).page(wanted, size)
    return answers.DocumentList(
        knowledge=[answers.Document(**_shown(row)) for row in page.rows],
        page_size=size,
        has_more=page.next_cursor is not None,
        next_cursor=page.next_cursor,
    )


@router.get("/{id}", responses=documented(404), response_model_exclude_none=True)
async def document(request: Request, who: Reader, id: Ident) -> answers.DocumentDetail:  # noqa: A002
    """One document."""
    story = await document_deeds.keeper_of(Call.of(request, who)).story(id)
    if story is None or who.tenant_id not in {None, story.document.tenant_id}:
        raise _unknown(id)
    return answers.DocumentDetail(
        **_shown(story.document),
        warnings=list(story.warnings),
        chunks=story.chunks,
        questions=story.questions,
        tags=[answers.TagOn(name=name, confidence=sure) for name, sure in story.tags],
        summary=story.summary,
        summary_status=SummaryStatus(story.summary_status),
        summary_method=story.summary_method,
        language=story.language,
    )


@router.get("/{id}/spans", responses=documented(404))
async def spans(
    request: Request,
    who: Reader,
    id: Ident,  # noqa: A002 - the name in the path
    attempt: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
) -> answers.Spans:
    """One parse of a document stage by stage, the latest unless told."""
    found = await document_deeds.keeper_of(Call.of(request, who)).spans(id, who.tenant_id, attempt)
    if found is None:
        raise _unknown(id, attempt)
    return answers.Spans.model_validate(found)


@router.post("/batch/{action}", responses=documented(400))
async def act_on_many(
    request: Request,
    who: Annotated[Principal, Depends(needs(Capability.KNOWLEDGE_WRITE, deed=MANY))],
    action: DocumentVerb,
    selected: answers.Selected,
) -> answers.Results:
    """Do one thing to at most 200 documents; each has an answer of its own."""
    done = await document_deeds.act(Call.of(request, who), action, selected.ids, fresh=selected.fresh)
    return answers.Results(
        success=all(one.ok for one in done),
        results=[_result(action, one) for one in done],
        counts=Counter(one.effect for one in done),
        delivery=_delivery(all(one.delivered for one in done)),
    )


@router.post("/{id}/cancel-parse", responses=documented(400, 404))
async def cancel_parse(
    request: Request,
    who: Annotated[Principal, writer(DocumentVerb.CANCEL)],
    id: Ident,  # noqa: A002 - the name in the path
) -> answers.Acted:
    """Stop the parse of a document; what was written of it stays."""
    return await _act(Call.of(request, who), DocumentVerb.CANCEL, id)


@router.post("/{id}/reparse", responses=documented(400, 404))
async def reparse(
    request: Request,
    who: Annotated[Principal, writer(DocumentVerb.REPARSE)],
    id: Ident,  # noqa: A002 - the name in the path
    asked: answers.Asked | None = None,
) -> answers.Acted:
    """Parse a document again; what was read out of it before stays until the new parse replaces it."""
    return await _act(Call.of(request, who), DocumentVerb.REPARSE, id, fresh=bool(asked and asked.fresh))


@router.delete("/{id}", responses=documented(400, 404))
async def delete(
    request: Request,
    who: Annotated[Principal, writer(DocumentVerb.DELETE)],
    id: Ident,  # noqa: A002 - the name in the path
) -> answers.Acted:
    """Delete a document with all that was made of it."""
    return await _act(Call.of(request, who), DocumentVerb.DELETE, id)


async def _act(call: Call, verb: DocumentVerb, ident: str, *, fresh: bool = False) -> answers.Acted:
    (done,) = await document_deeds.act(call, verb, [ident], fresh=fresh)
    if done.effect is DocumentEffect.NOT_FOUND:
        raise _unknown(ident)
    if done.effect is DocumentEffect.REFUSED:
        raise Problem(400, _why_not(verb, done), "action_not_allowed")
    return answers.Acted(
        knowledge_id=ident,
        effect=done.effect,
        attempt=_attempt(verb, done),
        delivery=_delivery(done.delivered),
    )


def _result(verb: DocumentVerb, done: Done) -> answers.Result:
    if done.ok:
        return answers.Result(knowledge_id=done.id, effect=done.effect, attempt=_attempt(verb, done))
    if done.effect is DocumentEffect.REFUSED:
        error, code = _why_not(verb, done), "action_not_allowed"
    else:
        error, code = _unknown(done.id).error, "knowledge_not_found"
    return answers.Result(knowledge_id=done.id, effect=done.effect, error=error, code=code)


def _why_not(verb: DocumentVerb, done: Done) -> str:
    return f"a document that is {done.status} does not allow {verb}"


def _attempt(verb: DocumentVerb, done: Done) -> int:
    return done.attempt + (verb is DocumentVerb.REPARSE)


def _delivery(delivered: bool) -> answers.Delivery:
    return "done" if delivered else "pending"


def _unknown(ident: str, attempt: int | None = None) -> Problem:
    which = f" that had an attempt {attempt}" if attempt else ""
    return Problem(404, f"no document {ident[:64]}{which} (any more)", "knowledge_not_found")


def _shown(row: DocumentRow) -> dict[str, object]:
    under_way = row.status in OPEN
    return {
        "id": row.id,
        "knowledge_base_id": row.base_id,
        "knowledge_base": row.base,
        "tenant_id": row.tenant_id,
        "name": row.name,
        "source": row.source,
        "kind": row.kind,
        "file_type": row.type,
        "parse_status": row.status,
        "attempt": row.attempt,
        "file_size": row.size,
        "error_message": row.error,
        "created_at": row.created_at,
        "updated_at": row.moved_at,
        "current_stage": row.stage or None,
        "last_activity_at": row.moved_at if under_way else None,
        "stall_state": row.stall or None,
    }
