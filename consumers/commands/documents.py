"""`streamlane documents`: which there are, where each stands, and to stop, repeat or delete them."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from consumers.commands.terminal import (
    FAILED,
    OK,
    UNCHANGED,
    agreed,
    emit,
    moment,
    out,
    say,
    shown,
    table,
)
from consumers.desk import by_hand
from contracts.knowledge import DocumentEffect, DocumentVerb, ParseStatus
from pipeline import Database
from pipeline.errors import ConfigurationError
from pipeline.http.answers_knowledge import Span, Spans
from pipeline.http.document_deeds import AT_ONCE, act, keeper_of
from pipeline.http.documents import DocumentRow, Done, Wanted

PAGE: Final = 100
LOOK_S: Final = 0.2
SENTENCES: Final[Mapping[DocumentVerb, Mapping[DocumentEffect, str]]] = {
    DocumentVerb.CANCEL: {DocumentEffect.DONE: "stopped", DocumentEffect.ALREADY: "was stopped before"},
    DocumentVerb.REPARSE: {DocumentEffect.DONE: "is parsed again"},
    DocumentVerb.DELETE: {
        DocumentEffect.DONE: "is being deleted",
        DocumentEffect.ALREADY: "was being deleted already",
    },
}
UNDELIVERED: Final = "the queue is away: its jobs are told as soon as it is back and any worker runs"


async def list_documents(status: ParseStatus | None, name: str, limit: int, as_json: bool) -> int:
    """Print documents, a line each."""
    found: list[DocumentRow] = []
    cursor: str | None = ""
    async with by_hand("documents list") as call:
        while cursor is not None and len(found) < limit:
            wanted = Wanted(status or "", name, cursor=cursor)
            page = await keeper_of(call).page(wanted, min(PAGE, limit - len(found)))
            found += page.rows
            cursor = page.next_cursor
    if as_json:
        emit({"documents": [_facts(row) for row in found]})
        return OK
    table(
        ("id", "name", "base", "status", "stage", "parse", "moved", "error"),
        [
            (row.id, row.name, row.base, _standing(row), row.stage, row.attempt, moment(row.moved_at),
             shown(row.error, 80))
            for row in found
        ],
    )  # fmt: skip
    if cursor is not None:
        out.print(f"the first {limit}; --limit shows more")
    return OK


async def show(ident: str, attempt: int | None, as_json: bool) -> int:
    """Print where a document stands, and how a parse of it went."""
    async with by_hand("documents show") as call:
        story = await keeper_of(call).story(ident)
        tree = await keeper_of(call).spans(ident, None, attempt)
    if story is None or tree is None:
        raise ConfigurationError(
            f"no document or parse of it is called so: {ident}; see streamlane documents list"
        )
    spans = Spans.model_validate(tree)
    facts = _facts(story.document) | {"warnings": list(story.warnings), "chunks": story.chunks}
    if as_json:
        emit(facts | {"spans": spans.model_dump(mode="json")})
        return OK
    table(("field", "value"), [(name, _flat(value)) for name, value in facts.items() if value])
    out.print()
    table(("stage", "status", "ms", "error"), _lines(spans.trace))
    return OK


async def change(
    verb: DocumentVerb, ids: Sequence[str], *, fresh: bool = False, as_json: bool = False
) -> int:
    """Do something to documents, and say what became of each."""
    done = await _act(verb, ids, fresh=fresh)
    return _tell(verb, done, as_json)


async def delete(ids: Sequence[str], *, yes: bool, limit: float, as_json: bool) -> int:
    """Delete documents; work until they are gone, at most `limit` seconds."""
    named = list(dict.fromkeys(ids))
    what = f"document {named[0]}" if len(named) == 1 else f"{len(named)} documents"
    if not await agreed(f"Delete {what} with all that was made of them?", yes=yes):
        out.print(UNCHANGED)
        return FAILED
    done = await _act(DocumentVerb.DELETE, named)
    going = [one.id for one in done if one.ok]
    if limit and going:
        from consumers.commands.session import session  # here: all that works loads slowly

        async with session(work=True) as opened:
            left = await _gone(opened.services.database, going, limit)
        if left:
            say(f"not gone yet: {' '.join(left)}; any worker goes on with it")
            return FAILED
    return _tell(DocumentVerb.DELETE, done, as_json, gone=bool(limit))


async def _gone(database: Database, ids: Sequence[str], limit: float) -> list[str]:
    """Wait until documents are gone; return those that are there at the end, or whose removal was given up."""
    from consumers.knowledge.progress.fates import fates

    left = list(ids)
    try:
        async with asyncio.timeout(limit):
            while True:
                async with database.read() as sql:
                    found = await fates(sql, left)
                if not any(fate.status is ParseStatus.DELETING for fate in found.values()):
                    return list(found)
                left = list(found)
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        return left


async def _act(verb: DocumentVerb, ids: Sequence[str], *, fresh: bool = False) -> list[Done]:
    done: list[Done] = []
    async with by_hand(f"documents {verb.removesuffix('-parse')}") as call:
        for start in range(0, len(ids), AT_ONCE):
            done += await act(call, verb, ids[start : start + AT_ONCE], fresh=fresh)
    return done


def _tell(verb: DocumentVerb, done: Sequence[Done], as_json: bool, *, gone: bool = False) -> int:
    ok, delivered = all(one.ok for one in done), all(one.delivered for one in done)
    if as_json:
        results = [{"id": one.id, "effect": one.effect, "status_before": one.status or None} for one in done]
        counts = Counter(one.effect for one in done)
        emit(
            {
                "action": verb,
                "success": ok,
                "results": results,
                "counts": counts,
                "delivery": "done" if delivered else "pending",
            }
        )
        return OK if ok else FAILED
    for one in done:
        out.print(f"{one.id}: {'is deleted' if gone and one.ok else _sentence(verb, one)}", markup=False)
    if not delivered:
        say(UNDELIVERED)
    return OK if ok else FAILED


def _sentence(verb: DocumentVerb, one: Done) -> str:
    if one.effect is DocumentEffect.NOT_FOUND:
        return "there is no such document (any more)"
    if one.effect is DocumentEffect.REFUSED:
        return f"is {one.status}, which does not allow this"
    return SENTENCES[verb][one.effect]


def _standing(row: DocumentRow) -> str:
    return f"{row.status} ({row.stall})" if row.stall else row.status


def _facts(row: DocumentRow) -> dict[str, Any]:
    said = asdict(row)
    return said | {name: moment(said[name]) for name in ("created_at", "moved_at")}


def _flat(value: object) -> object:
    return "; ".join(value) if isinstance(value, list) else value


def _lines(span: Span, depth: int = 0) -> list[tuple[object, ...]]:
    """Return a tree as lines, what is within a span below it and farther right."""
    row = ("  " * depth + span.name, span.status, span.duration_ms, shown(span.error_message, 80))
    return [row, *(line for part in span.children for line in _lines(part, depth + 1))]
