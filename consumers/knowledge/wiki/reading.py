"""What a document has to say to a wiki: its sections, the topics it speaks of, and the sentences that speak of them.

A document is read in parts, each on its own, so that a very long one that was interrupted goes on where it stopped;
what the parts found is then put together. Works in any language that sentences are told apart in.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Final

from consumers.knowledge.language.extraction import CODE, NAME, TERM, extract_graph
from consumers.knowledge.language.keyphrases import keyphrases
from consumers.knowledge.language.sentences import Sentence, sentences
from consumers.knowledge.language.words import is_dense
from consumers.knowledge.reading.markdown import Kind
from consumers.knowledge.wiki.names import is_written_dense, key_of, slug_of, stems
from consumers.knowledge.wiki.sense import is_topic, standing

PART: Final = 40
"""Passages that are read at once."""

PHRASES: Final = 20  # keyphrases of a part that are looked at
MOST_TOPICS: Final = 12  # of a document; a short one has fewer
TOPICS_OF_PART: Final = 24
STATEMENTS: Final = 5  # that a document says of one topic
PER_SECTION: Final = 2
MOST_SECTIONS: Final = 14
GOOD: Final = 0.5  # standing of a sentence that may stand in a section


@dataclass(frozen=True, slots=True)
class Text:
    """A passage as it is read: its words and the headings above it, outermost first."""

    text: str
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a document, the heading it stands under, where (only the order counts), and how well it says it."""

    text: str
    heading: str = ""
    place: int = 0
    weight: float = 0.0
    item: bool = False


@dataclass(frozen=True, slots=True)
class Topic:
    """Something that a document speaks of, what it is (`name`, `code` or `term`), and its best statements in order."""

    title: str
    kind: str
    weight: float
    statements: tuple[Statement, ...] = ()
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a document and what is said first and best under it."""

    heading: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one part says, or a whole document."""

    topics: tuple[Topic, ...]
    sections: tuple[Section, ...]


def read_part(texts: Sequence[Text], first: int = 0, language: str | None = None) -> Reading:
    """Read some passages; `first` is the place of the first of them in its document."""
    said = list(_statements(texts, first))
    titles = _titles(texts, said, language)
    found: defaultdict[str, list[Statement]] = defaultdict(list)
    beside: defaultdict[str, Counter[str]] = defaultdict(Counter)
    look = Finder(titles)
    for one in said:
        named = look.named(one.text)
        for title in named:
            found[title].append(
                replace(one, weight=standing(one.text, title, item=one.item, heading=one.heading))
            )
            beside[title].update(other for other in named if other != title)
    topics = [
        Topic(
            title,
            kind,
            weight,
            _best(found[title]),
            tuple(other for other, _ in beside[title].most_common(6)),
        )
        for title, (kind, weight) in titles.items()
        if found[title]
    ]
    topics.sort(key=lambda topic: (-topic.weight, topic.title))
    return Reading(tuple(topics[:TOPICS_OF_PART]), tuple(_sections(said)))


def combine(parts: Sequence[Reading], title: str) -> Reading:
    """Put the parts of a document together: the topics that matter most in the whole, and its main sections."""
    merged: dict[str, list[Topic]] = {}
    for topic in (topic for part in parts for topic in part.topics):
        merged.setdefault(slug_of(topic.title), []).append(topic)
    topics = sorted(
        (_joined(same) for same in merged.values()), key=lambda topic: (-topic.weight, topic.title)
    )
    passages = sum(len(part.sections) for part in parts)
    most = min(MOST_TOPICS, 5 + passages // 2)
    sections: dict[str, Section] = {}
    for section in (section for part in parts for section in part.sections):
        known = sections.get(section.heading)
        if known is None:
            sections[section.heading] = section
        elif len(known.statements) < PER_SECTION:
            more = (*known.statements, *section.statements)[:PER_SECTION]
            sections[section.heading] = replace(known, statements=more)
    same = title.casefold()
    told = [
        section for section in sections.values() if section.heading.casefold() != same or len(sections) == 1
    ]
    return Reading(tuple(topics[:most]), tuple(told[:MOST_SECTIONS]))


class Finder:
    """Finds which of some titles a sentence names."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._dense: list[tuple[str, str]] = []
        self._by_first: defaultdict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for title in titles:
            key = key_of(title)
            if is_written_dense(title):
                self._dense.append((key[0], title))
            elif key:
                self._by_first[key[0]].append((key, title))

    def named(self, sentence: str) -> list[str]:
        """The titles that a sentence names, each once."""
        found: dict[str, None] = {}
        if self._dense:
            plain = " ".join(sentence.casefold().split())
            found.update((title, None) for key, title in self._dense if key in plain)
        words = stems(sentence)
        for at, word in enumerate(words):
            for key, title in self._by_first.get(word, ()):
                if tuple(words[at : at + len(key)]) == key:
                    found[title] = None
        return list(found)


def _statements(texts: Sequence[Text], first: int) -> Iterator[Statement]:
    """The sentences of passages, with the nearest heading above each. A question says nothing."""
    place = first * 1000
    for text in texts:
        heading = _spoken(text.heading[-1]) if text.heading else ""
        for sentence in sentences(text.text, kinds=(Kind.HEADING, Kind.PROSE, Kind.ITEM)):
            if sentence.kind is Kind.HEADING:
                heading = _spoken(sentence.text)
            elif _says(sentence):
                place += 1
                yield Statement(sentence.text, heading, place, item=sentence.kind is Kind.ITEM)


def _spoken(heading: str) -> str:
    """A heading; nothing for one that a program made."""
    return "" if _MADE.fullmatch(heading) else heading


_MADE = re.compile(r"[0-9a-fA-F-]{16,}|\W*")
_ASKING: Final = ("?", "？", ":", "：")
_CODE_LIKE = re.compile(r"[{}<>=|\\]|\w\(\)|://|->|::|^\W|\s[-–]{1,2}\w|;$|\$")


def _says(sentence: Sentence) -> bool:
    text = sentence.text
    long_enough = len(text) >= (12 if is_dense(text) else 30)
    return long_enough and not text.endswith(_ASKING) and len(_CODE_LIKE.findall(text)) < 2


def _titles(
    texts: Sequence[Text], said: Sequence[Statement], language: str | None
) -> Mapping[str, tuple[str, float]]:
    """Candidates for topics with their kinds and weights: what the part keeps coming back to, and what it names."""
    whole = "\n\n".join(text.text for text in texts)
    headings = {one.heading for one in said} | {title for text in texts for title in text.heading}
    titled = Finder(phrase for phrase in headings if phrase)
    counts: Counter[str] = Counter()
    kinds: dict[str, str] = {}
    for text in texts:
        for one in extract_graph(text.text, language).entities:
            counts[one.name] += one.count
            kinds.setdefault(one.name, one.kind)
    found: dict[str, tuple[str, float]] = {}
    seen: dict[str, str] = {}

    def add(title: str, kind: str, weight: float) -> None:
        slug = slug_of(title)
        known = seen.setdefault(slug, title)
        older = found.get(known, (kind, 0.0))
        found[known] = (older[0], max(older[1], weight))

    in_headings = Counter(stem for heading in headings for stem in set(stems(heading)))
    for name, count in counts.items():
        kind = kinds[name]
        heading = any(part in in_headings for part in key_of(name)) or bool(titled.named(name))
        if is_topic(name, kind, heading=heading, count=count):
            worth = {NAME: 1.0, CODE: 0.6, TERM: 0.8}[kind]
            add(
                _as_written(name, whole) if kind == TERM else name,
                kind,
                worth * count**0.5 * (1.6 if heading else 1.0),
            )
    for phrase in keyphrases(whole, limit=PHRASES):
        heading = any(key in heading.casefold() for heading in headings for key in [phrase.text.casefold()])
        if is_topic(phrase.text, TERM, heading=heading, count=3):
            add(phrase.text, TERM, 2.2 * phrase.weight * (1.4 if heading else 1.0))
    return dict(islice(sorted(found.items(), key=lambda item: -item[1][1]), 3 * TOPICS_OF_PART))


def _as_written(term: str, text: str) -> str:
    """A term with the capitals that it most often has."""
    forms = Counter(re.findall(re.escape(term), text, re.IGNORECASE))
    return forms.most_common(1)[0][0] if forms else term


def _best(said: Sequence[Statement]) -> tuple[Statement, ...]:
    """The best statements in the order of the text, none that repeats another."""
    chosen: list[Statement] = []
    for one in sorted(said, key=lambda one: (-one.weight, one.place)):
        if one.weight > 0 and not any(alike(one.text, other.text) for other in chosen):
            chosen.append(one)
        if len(chosen) == STATEMENTS:
            break
    return tuple(sorted(chosen, key=lambda one: one.place))


def alike(one: str, other: str) -> bool:
    """Whether two sentences say the same, in nearly the same words."""
    if is_dense(one):
        left, right = set(pairwise(one)), set(pairwise(other))
        return 2 * len(left & right) > 1.5 * min(len(left), len(right))
    left_words, right_words = set(stems(one)), set(stems(other))
    return len(left_words & right_words) > 0.75 * min(len(left_words), len(right_words))


def _joined(same: Sequence[Topic]) -> Topic:
    best = max(same, key=lambda topic: topic.weight)
    beside = Counter(title for topic in same for title in topic.beside)
    return Topic(
        best.title,
        best.kind,
        sum(topic.weight for topic in same),
        _best([one for topic in same for one in topic.statements]),
        tuple(title for title, _ in beside.most_common(8)),
    )


def _sections(said: Sequence[Statement]) -> Iterator[Section]:
    under: defaultdict[str, list[Statement]] = defaultdict(list)
    for one in said:
        weighed = replace(one, weight=standing(one.text, "", item=one.item, heading=one.heading))
        if weighed.weight >= GOOD and len(under[one.heading]) < 2 * PER_SECTION:
            under[one.heading].append(weighed)
    for heading, statements in under.items():
        best = sorted(statements, key=lambda one: (-one.weight, one.place))[:PER_SECTION]
        if best:
            yield Section(heading, tuple(sorted(best, key=lambda one: one.place)))
