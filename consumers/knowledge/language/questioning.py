"""Which questions a piece of a document answers: made of its headings and sentences, or none when none reads well."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from consumers.knowledge.language.question_forms import GERUNDS, GRAMMARS, Form, Grammar
from consumers.knowledge.language.sentences import sentences
from consumers.knowledge.language.words import is_dense, language_of, stem, terms
from consumers.knowledge.reading.markdown import Kind

MOST: Final = 10  # questions of a piece
LONGEST: Final = 140  # characters of a question
SHORTEST: Final = 10
MAX_TEXT: Final = 10_000  # characters of a piece that are read


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of a document and the headings it stands under, outermost first."""

    text: str
    heading: tuple[str, ...] = ()


def generate_questions(
    sources: Sequence[Source],
    *,
    count: int,
    language: str | None = None,
    before: Source | None = None,
    after: Source | None = None,
) -> tuple[tuple[str, ...], ...]:
    """For each source the questions it answers, best first, at most `count`, in the language of its text.

    The sources follow each other; `before` and `after` are their neighbours. A heading asks of the first piece under
    it, and a sentence that ends with a colon asks of the piece where its list stands. No question is asked twice.
    `language` is that of the document, for pieces too short to tell.
    """
    seen: set[str] = set()
    asked: list[tuple[str, ...]] = []
    row = [before, *sources, after]
    for previous, source, following in zip(row, row[1:], row[2:], strict=False):
        if source is None:
            continue
        questions: list[str] = []
        for question in _questions(source, previous, following, language):
            if len(questions) < min(count, MOST) and question.casefold() not in seen:
                seen.add(question.casefold())
                questions.append(question)
        asked.append(tuple(questions))
    return tuple(asked)


def _questions(
    source: Source, previous: Source | None, following: Source | None, language: str | None
) -> Iterator[str]:
    text = source.text[:MAX_TEXT]
    grammar = GRAMMARS.get(_language(text, language))
    if grammar is None:
        return
    said = [sentence.text for sentence in sentences(text, kinds=(Kind.PROSE, Kind.ITEM))]
    if not said:
        return
    if following is not None and said[-1].endswith(_COLONS) and _is_list(following):
        said.pop()
    if previous is not None and _is_list(source) and (last := _last_sentence(previous)).endswith(_COLONS):
        said.insert(0, last)
    titles = [title for title in source.heading if previous is None or title not in previous.heading]
    for title in reversed(titles):
        yield from _ask(grammar, grammar.headings, title, text)
    found = [
        (rank, place, question)
        for place, sentence in enumerate(said)
        for rank, question in enumerate(_ask_each(grammar, sentence, text))
        if question
    ]
    yield from (question for _, _, question in sorted(found))


_COLONS: Final = (":", "：")


def _language(text: str, language: str | None) -> str:
    short = len(text) < 80 and language in GRAMMARS
    return language or "" if short and not is_dense(text) else language_of(text)


def _is_list(source: Source) -> bool:
    first = next(iter(sentences(source.text[:MAX_TEXT], kinds=set(Kind))), None)
    return first is not None and first.kind in (Kind.ITEM, Kind.COLUMNS, Kind.ROW, Kind.CODE)


def _last_sentence(source: Source) -> str:
    said = sentences(source.text[-MAX_TEXT:], kinds=set(Kind))
    return said[-1].text if said else ""


def _ask_each(grammar: Grammar, sentence: str, text: str) -> Iterator[str]:
    """For every form in order its question, empty where it does not match; only the first match is kept."""
    found = False
    for form in grammar.sentences:
        question = "" if found else _question(form, grammar, sentence, text)
        found = found or bool(question)
        yield question


def _ask(grammar: Grammar, forms: Sequence[Form], title: str, text: str) -> Iterator[str]:
    for form in forms:
        if question := _question(form, grammar, title, text):
            yield question
            return


def _question(form: Form, grammar: Grammar, said: str, text: str) -> str:
    match = form.pattern.fullmatch(said.strip())
    if match is None:
        return ""
    parts = {name: _within(name, part.strip(), text) for name, part in match.groupdict(default="").items()}
    question = form.question.format(**parts)
    if not _WIDE.search(question):
        question = question[0].upper() + question[1:]
    return question if _reads_well(question, grammar) else ""


_WIDE = re.compile("[\u3400-\u9fff]")
_CAPITALISED = re.compile(r"[A-ZА-ЯЁ][a-zа-яё]*(?![\w./@-])")
_PAIR = re.compile(r"\w+ [A-ZА-ЯЁ]")


def _within(name: str, part: str, text: str) -> str:
    """A part as it stands within a sentence: its first word small, unless it is a name."""
    word = _CAPITALISED.match(part)
    if name == "doing":
        return GERUNDS[part.lower()]
    if word is None or (name != "small" and _is_name(word[0], part, text)):
        return part
    return part[0].lower() + part[1:]


def _is_name(word: str, part: str, text: str) -> bool:
    if word in _ARTICLES:
        return False
    if _PAIR.match(part) or re.search(rf"[a-zа-яё,] {word}\b", text):
        return True
    if not word.isascii():
        return False
    small = stem(word.lower()) if len(word) > 4 else word.lower()
    return re.search(rf"(?<![\w./@:#-]){re.escape(small)}", text) is None


_ARTICLES: Final = frozenset({"A", "An", "The"})


def _reads_well(question: str, grammar: Grammar) -> bool:
    shortest = SHORTEST // 2 if is_dense(question) else SHORTEST
    return (
        shortest <= len(question) <= LONGEST
        and not grammar.vague.search(question)
        and all(question.count(a) == question.count(b) for a, b in ("()", "[]", "（）", "«»", "“”", "「」"))
        and question.count('"') % 2 == 0
        and not re.search(r"[|*#{}<>→]|://|\.\.\.", question)
        and len(terms(question)) > is_dense(question)
    )
