"""From what documents contribute to the text of a page: Markdown in which every statement names where it comes from.

Links to other pages are written as `[title](wiki:slug)`, sources as footnotes. What a page says depends on its
contributions alone, in whatever order they come.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from consumers.knowledge.language.words import is_dense
from consumers.knowledge.wiki.reading import Section, Statement, alike
from consumers.knowledge.wiki.words import word
from contracts.knowledge import EXTRACTIVE

MOST_SOURCES: Final = 12  # documents that one page quotes
MOST_STATEMENTS: Final = 24  # of a page
LEAD: Final = 180  # characters of what is said of a page elsewhere
WORTH: Final = 0.6  # of a statement that makes a page
LEAST: Final = 0.45  # of one that may stand beside it
MOST_RELATED: Final = 12
MOST_LISTED: Final = 500  # pages of one list of the index


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one document says to one page. `page` is the slug of the document's own page."""

    knowledge_id: str
    page: str
    document: str
    language: str | None = None
    title: str
    weight: float = 0.0
    statements: tuple[Statement, ...] = ()
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a document says as a whole: what its own page is written from."""

    knowledge_id: str
    title: str
    file_name: str
    language: str | None = None
    summary: str = ""
    sections: tuple[Section, ...] = ()
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A page as it was written: `related` are slugs it should name, `lead` is its first statement without marks."""

    title: str
    body: str
    lead: str
    language: str | None = None
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A page as the index names it; `folder` of a document, None of a topic."""

    slug: str
    title: str
    folder: str | None
    lead: str = ""
    language: str | None = None


class Writer(Protocol):
    """Writes pages. A language model may do it in the place of `ExtractiveWriter`; both see the same contributions."""

    @property
    def method(self) -> str:
        """How the pages come about; stored with them."""

    async def topic(self, contributions: Sequence[Contribution]) -> Draft | None:
        """The page of a topic, None where too little is said for one."""

    async def document(self, account: Account) -> Draft:
        """The page of a document."""


class ExtractiveWriter:
    """Writes pages in the documents' own words."""

    method: Final = EXTRACTIVE

    async def topic(self, contributions: Sequence[Contribution]) -> Draft | None:
        """See `Writer`."""
        return await asyncio.to_thread(compose_topic, contributions)

    async def document(self, account: Account) -> Draft:
        """See `Writer`."""
        return await asyncio.to_thread(compose_document, account)


def compose_topic(contributions: Sequence[Contribution]) -> Draft | None:
    """See `Writer.topic`."""
    ordered = sorted(contributions, key=lambda one: (-one.weight, one.document, one.knowledge_id))[
        :MOST_SOURCES
    ]
    chosen = _chosen(ordered)
    good = [one for one, _ in chosen if one.weight >= WORTH]
    if not good or len(good) < (2 if len({source.page for _, source in chosen}) > 1 else 3):
        return None
    title = _title(ordered)
    language = Counter(one.language for one in ordered).most_common(1)[0][0]
    notes = Notes()
    lead, source = max(chosen, key=lambda pair: (pair[0].weight, -len(pair[0].text)))
    parts = [f"# {escaped(title)}", _paragraphs([(lead, source)], notes)]
    rest = [pair for pair in chosen if pair[0] is not lead]
    groups = _groups(rest)
    for heading, said in groups:
        if len(groups) > 1 and heading.casefold() != title.casefold():
            parts.append(f"## {escaped(heading)}")
        parts.append(_paragraphs(said, notes))
    related = Counter(slug for one in ordered for slug in one.related)
    best = sorted(related, key=lambda slug: (-related[slug], slug))[:MOST_RELATED]
    body = "\n\n".join([*parts, *notes.written()]) + "\n"
    return Draft(title, body, shortened(lead.text), language, tuple(best))


def compose_document(account: Account) -> Draft:
    """See `Writer.document`."""
    notes = Notes()
    parts = [f"# {escaped(account.title)}"]
    if account.summary:
        parts.append(f"{escaped(account.summary, start=True)}{notes.mark(_cited(account, ''))}")
    for section in account.sections:
        said = [one for one in section.statements if one.text not in account.summary]
        if said:
            heading = section.heading
            parts += [f"## {escaped(heading)}"] if heading and heading != account.title else []
            parts.append(_said(said, notes.mark(_cited(account, heading))))
    first = account.summary or next((one.text for part in account.sections for one in part.statements), "")
    body = "\n\n".join([*parts, *notes.written()]) + "\n"
    return Draft(account.title, body, shortened(first), account.language, account.related)


def compose_index(name: str, entries: Sequence[Entry]) -> Draft:
    """The first page: what the base speaks of, and the documents in their folders."""
    language = Counter(entry.language for entry in entries).most_common(1)[0][0]
    topics = [entry for entry in entries if entry.folder is None]
    documents: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.folder or ""):
        if entry.folder is not None:
            documents.setdefault(entry.folder, []).append(entry)
    count = len(entries) - len(topics)
    parts = [f"# {escaped(name)}", word(language, "counts", documents=count, topics=len(topics))]
    if topics:
        parts += [f"## {word(language, 'topics')}", _listed(topics, language)]
    if documents:
        parts.append(f"## {word(language, 'documents')}")
    for folder, inside in documents.items():
        parts += [f"### {escaped(folder)}", _listed(inside, language)]
    return Draft(name, "\n\n".join(parts) + "\n", parts[1], language)


def _listed(entries: Sequence[Entry], language: str | None) -> str:
    ordered = sorted(entries, key=lambda entry: (entry.title.casefold(), entry.slug))
    lines = [
        f"- [{escaped(entry.title)}](wiki:{entry.slug})" + (f" — {escaped(entry.lead)}" if entry.lead else "")
        for entry in ordered[:MOST_LISTED]
    ]
    if len(ordered) > MOST_LISTED:
        lines.append(f"- {word(language, 'more', count=len(ordered) - MOST_LISTED)}")
    return "\n".join(lines)


@dataclass(slots=True)
class Notes:
    """The footnotes of a page, numbered as they come; the same source has the same number."""

    numbers: dict[str, int] = field(default_factory=dict)

    def mark(self, source: str) -> str:
        """The mark of a source, to stand behind a statement."""
        return f"[^{self.numbers.setdefault(source, len(self.numbers) + 1)}]"

    def written(self) -> list[str]:
        """The footnotes as one block."""
        lines = (f"[^{number}]: {source}" for source, number in self.numbers.items())
        return ["\n".join(lines)] if self.numbers else []


def shortened(text: str) -> str:
    """The first words of a statement, for where a page is only named: whole sentences, if one of them fits."""
    most = LEAD // 2 if is_dense(text) else LEAD
    if len(text) <= most:
        return text
    if whole := _SENTENCES.match(text, 0, most + 1):
        return whole[0].rstrip()
    cut = max(text.rfind(" ", most // 2, most), text.rfind("，", most // 2, most))
    return text[: cut if cut > 0 else most].rstrip(" ,;:，；：") + "…"


_SENTENCES = re.compile(r".{30,}[.!?](?=\s)|.{12,}[。！？]", re.DOTALL)
_MARKS = re.compile(r"([\\`*\[\]<>~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;))")
_LINE_START = re.compile(r"^(?=[#+\-=:>]|\d{1,9}[.)]\s)")
_NUMBER_START = re.compile(r"^(\d{1,9})([.)])(?=\s)")


def escaped(text: str, *, start: bool = False) -> str:
    """Words as Markdown that says just these words; `start`: they begin a line."""
    plain = _MARKS.sub(r"\\\1", " ".join(text.split()))
    if not start:
        return plain
    numbered = _NUMBER_START.sub(r"\1\\\2", plain)
    return numbered if numbered != plain else _LINE_START.sub(r"\\", plain)


def _chosen(contributions: Sequence[Contribution]) -> list[tuple[Statement, Contribution]]:
    """The statements of a page with their sources, the best of each document first; nothing is said twice."""
    chosen: list[tuple[Statement, Contribution]] = []
    for rank in range(max((len(one.statements) for one in contributions), default=0)):
        for source in contributions:
            by_worth = sorted(source.statements, key=lambda one: (-one.weight, one.place))
            if rank < len(by_worth) and len(chosen) < MOST_STATEMENTS:
                one = by_worth[rank]
                if one.weight >= LEAST and not any(alike(one.text, other.text) for other, _ in chosen):
                    chosen.append((one, source))
    order = {source.knowledge_id: at for at, source in enumerate(contributions)}
    return sorted(chosen, key=lambda pair: (order[pair[1].knowledge_id], pair[0].place))


def _groups(
    said: Sequence[tuple[Statement, Contribution]],
) -> list[tuple[str, list[tuple[Statement, Contribution]]]]:
    """What is said, under the title of the document it comes from; of a single document under its own headings."""
    documents = {source.knowledge_id for _, source in said}
    found: dict[str, list[tuple[Statement, Contribution]]] = {}
    for one, source in said:
        heading = source.document if len(documents) > 1 else one.heading or source.document
        found.setdefault(heading, []).append((one, source))
    return list(found.items())


def _paragraphs(said: Iterable[tuple[Statement, Contribution]], notes: Notes) -> str:
    return _run([(one, notes.mark(_source(one, source))) for one, source in said])


def _said(said: Sequence[Statement], mark: str) -> str:
    return _run([(one, mark) for one in said])


def _run(marked: Sequence[tuple[Statement, str]]) -> str:
    """Sentences as paragraphs and list items as lists, each with the mark of its source."""
    blocks: list[tuple[bool, list[str]]] = []
    for one, mark in marked:
        if not blocks or blocks[-1][0] is not one.item:
            blocks.append((one.item, []))
        start = one.item or not blocks[-1][1]
        blocks[-1][1].append(f"{escaped(one.text, start=start)}{mark}")
    return "\n\n".join(
        "\n".join(f"- {line}" for line in lines) if item else _spaced(lines) for item, lines in blocks
    )


def _spaced(lines: Sequence[str]) -> str:
    return ("" if is_dense(lines[0]) else " ").join(lines)


def _source(one: Statement, source: Contribution) -> str:
    under = "" if one.heading.casefold() in {"", source.document.casefold()} else f" › {escaped(one.heading)}"
    return f"[{escaped(source.document)}](wiki:{source.page}){under}"


def _cited(account: Account, heading: str) -> str:
    return escaped(account.file_name) + (f" › {escaped(heading)}" if heading else "")


def _title(contributions: Sequence[Contribution]) -> str:
    """The title as most documents write it; a phrase of small letters begins with a large one."""
    written = Counter(one.title for one in contributions)
    best = min(written, key=lambda title: (-written[title], title.islower(), title))
    return best[:1].upper() + best[1:] if best.islower() and "_" not in best and "." not in best else best
