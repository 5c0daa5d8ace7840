"""The pages that change a document: stop its parse, parse it again, delete it; each asks first."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Response

from contracts.knowledge import OPEN, DocumentEffect, DocumentVerb, ParseStatus
from pipeline.http import document_deeds
from pipeline.http.dashboard.acts import Question, ask, form_of
from pipeline.http.dashboard.frame import PageRoute, Visit, back_with
from pipeline.http.errors import Problem

KEYS: Final[Mapping[DocumentVerb, str]] = {
    DocumentVerb.CANCEL: "document_cancel",
    DocumentVerb.REPARSE: "document_reparse",
    DocumentVerb.DELETE: "document_delete",
}
REFUSED: Final[Mapping[DocumentEffect, str]] = {
    DocumentEffect.REFUSED: "document_refused",
    DocumentEffect.NOT_FOUND: "not_found",
}

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def offered(status: str) -> list[tuple[DocumentVerb, str]]:
    """Return what may be done to a document that stands so, each with the key of its texts."""
    possible = {
        DocumentVerb.CANCEL: status in OPEN,
        DocumentVerb.REPARSE: status != ParseStatus.DELETING,
        DocumentVerb.DELETE: True,
    }
    return [(verb, KEYS[verb]) for verb, can in possible.items() if can]


@router.post("/documents/{document_id}/{verb}/confirm")
async def ask_document(visit: Visit, document_id: str, verb: DocumentVerb) -> Response:
    """Ask before something is done to a document."""
    story = await document_deeds.keeper_of(visit.call).story(document_id)
    if story is None:
        raise Problem(404, visit.t("problem.document"), "knowledge_not_found")
    question = Question(KEYS[verb], {"name": story.document.name}, grave=verb is not DocumentVerb.REPARSE)
    return await ask(visit, question, await form_of(visit), _page(document_id))


@router.post("/documents/{document_id}/{verb}")
async def do_document(visit: Visit, document_id: str, verb: DocumentVerb) -> Response:
    """Do something to a document."""
    (done,) = await document_deeds.act(visit.call, verb, [document_id])
    said = {REFUSED.get(done.effect, KEYS[verb]): 1} | ({} if done.delivered else {"undelivered": 0})
    return back_with(_page(document_id), said)


def _page(document_id: str) -> str:
    return f"/documents/{quote(document_id, safe='')}"
