"""`streamlane search` and `streamlane ask`."""

from dataclasses import asdict
from typing import Any

from rich.markup import escape

from consumers.commands.session import Session, session
from consumers.commands.terminal import FAILED, OK, emit, out, shown
from consumers.knowledge.answers.answering import Answer, Citation, Passage
from consumers.knowledge.answers.asking import answer, look
from consumers.knowledge.bases.knowledge_bases import find_base, list_bases
from consumers.knowledge.tables.knowledge import KnowledgeBase
from pipeline.errors import ConfigurationError


async def search(query: str, kb_name: str, limit: int, as_json: bool, *, tenant: int) -> int:
    """Print what is found; return the exit code."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        found = await look(opened.services, kb.id, query, limit=limit)
    hits = found.passages
    if as_json:
        told = {"notice": found.notice} if found.notice else {}
        emit(
            {
                "query": query,
                "kb": kb_name,
                "hits": [{**_where(hit), "score": round(hit.score, 4)} for hit in hits],
                **told,
            }
        )
        return OK
    _tell(found.notice)
    for number, hit in enumerate(hits, 1):
        out.print(f"[bold]{number}. {escape(shown(hit.path))}[/bold]  {hit.score:.3f}")
        out.print(f"   {escape(shown(hit.text, 300))}")
    if not hits:
        out.print("nothing found")
    return OK


async def ask(question: str, kb_name: str, as_json: bool, *, tenant: int, person: str | None = None) -> int:
    """Print an answer; return the exit code."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        said = await answer(opened.services, kb, question, subject_id=person)
    if as_json:
        emit(
            {
                "question": question,
                "kb": kb_name,
                "answer": said.text,
                "method": said.method,
                "citations": [_where(citation) for citation in said.citations],
                **({"notice": said.notice} if said.notice else {}),
            }
        )
    else:
        print_answer(said)
    return OK if said.citations else FAILED


def print_answer(said: Answer) -> None:
    """Print an answer and where each of its passages comes from."""
    _tell(said.notice)
    out.print(escape(said.text))
    for number, citation in enumerate(said.citations, 1):
        out.print(f"  [{number}] {escape(shown(citation.path))}")


async def base_named(opened: Session, name: str) -> KnowledgeBase:
    """Return a knowledge base. Raises ConfigurationError naming those there are."""
    async with opened.services.database.read() as sql:
        if found := await find_base(sql, opened.tenant, name):
            return found
        known = ", ".join(base.name for base in await list_bases(sql, opened.tenant))
    hint = f"there are: {known}" if known else "there is none yet: `streamlane ingest PATH` makes one"
    raise ConfigurationError(f"no knowledge base {name!r}; {hint}")


def _tell(notice: str) -> None:
    if notice:
        out.print(f"[yellow]{escape(shown(notice))}[/yellow]")


def _where(one: Passage | Citation) -> dict[str, Any]:
    place = asdict(one.place).items() if one.place else ()
    return {"path": one.path, "text": one.text, **{name: value for name, value in place if value is not None}}
