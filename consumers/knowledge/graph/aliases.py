"""Names that mean the same thing, and how that is known: by their spelling, or by a text that says so."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

SHORTEST: Final = 4  # letters of a name whose spelling alone tells that it is another's
ROOT: Final = 3  # letters that an ending leaves
ALIKE: Final = 0.75  # of the letters of a name in two alphabets
MOST_OF_A_KIND: Final = 200  # names that are compared one by one


class Why(StrEnum):
    """How it is known."""

    SPELLING = "spelling"
    NUMBER = "number"
    ACRONYM = "acronym"
    ALPHABET = "alphabet"


SAID: Final = frozenset({Why.ACRONYM, Why.ALPHABET})
"""What no spelling tells: a text has to say so."""


@dataclass(frozen=True, slots=True)
class Thing:
    """An entity, and how often it is named."""

    id: str
    name: str
    kind: str
    mentions: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two names that may mean the same."""

    one: Thing
    other: Thing
    why: Why


@dataclass(frozen=True, slots=True)
class Group:
    """Names of one thing: what it is called from now on, and what else, with the reasons."""

    into: Thing
    others: tuple[tuple[Thing, Why], ...]


def pairs(things: Sequence[Thing]) -> Iterator[Pair]:
    """Names that are spelled alike, and those of which a text may say that they mean the same (`SAID`)."""
    yield from _alike(things, lambda thing: folded(thing.name), Why.SPELLING)
    numbered = [thing for thing in things if thing.kind != "code"]
    for pair in _alike(numbered, lambda thing: folded(singular(thing.name)), Why.NUMBER):
        both = (pair.one, pair.other)
        if any(thing.kind == "term" or len(re.split(r"[\s-]+", thing.name)) > 1 for thing in both):
            yield pair  # a single capital word may be a name of its own: Window and Windows
    yield from _acronyms(things)
    yield from _alphabets(things)


def groups(found: Iterable[Pair]) -> list[Group]:
    """Each thing with all its names; it is called as it is most often, an acronym by what it stands for."""
    parent: dict[str, str] = {}
    things: dict[str, Thing] = {}
    why: dict[str, Why] = {}
    short: set[str] = set()

    def root(ident: str) -> str:
        while parent.setdefault(ident, ident) != ident:
            ident = parent[ident]
        return ident

    for pair in found:
        for thing in (pair.one, pair.other):
            things[thing.id] = thing
            why.setdefault(thing.id, pair.why)
        if pair.why is Why.ACRONYM:
            short.add(min(pair.one, pair.other, key=lambda thing: len(thing.name)).id)
        parent[root(pair.one.id)] = root(pair.other.id)
    members: defaultdict[str, list[Thing]] = defaultdict(list)
    for ident, thing in things.items():
        members[root(ident)].append(thing)
    return [_group(some, why, short) for _, some in sorted(members.items()) if len(some) > 1]


def _group(some: Sequence[Thing], why: Mapping[str, Why], short: set[str]) -> Group:
    into, *others = sorted(some, key=lambda one: (one.id in short, -one.mentions, -len(one.name), one.id))
    return Group(into, tuple((one, why[one.id]) for one in others))


def say_so(text: str, one: str, other: str) -> bool:
    """Whether a text gives two names for the same: `one (other)`, `one, also known as other`, in either order."""
    words = " ".join(text.split())
    for first, second in ((one, other), (other, one)):
        ours, theirs = (r"\s+".join(map(re.escape, name.split())) for name in (first, second))
        if re.search(rf"(?<!\w){ours}s?[»”\"]?{_LINK}[«“\"]?{theirs}(?!\w)", words, re.IGNORECASE):
            return True
    return False


_LINK: Final = (
    r"(?:\s*[(（]\s*(?:(?:англ|анг|рус|eng)\.?\s*|далее\s*[—–-]?\s*|сокр\.?\s*)?|,?\s+(?:also\s+known\s+as|a\.?k\.?a\.?"
    r"|abbreviated(?:\s+as)?|или|сокращ[её]нно|также\s+известн\w+\s+как|简称|又称)\s*)"
)


def folded(name: str) -> str:
    """Return a name without case, accents, spaces and marks between its words."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    letters = "".join(char for char in plain if not unicodedata.combining(char) or char == "\u0306")
    return _MARKS.sub("", letters)


_MARKS: Final = re.compile(r"[\s\-_‐-―·.'’`\"“”«»/]+")


def singular(name: str) -> str:
    """Return a name of several as that of one, as far as its spelling tells."""
    *first, last = name.split() or [""]
    if _CYRILLIC.search(last):
        return " ".join(_RUSSIAN_NOUN.sub("", word) for word in (*first, last))
    for ending, one in _PLURALS:
        if last.endswith(ending) and len(last) - len(ending) + len(one) >= ROOT:
            return " ".join((*first, last[: -len(ending)] + one))
    return name


_CYRILLIC: Final = re.compile("[а-яё]", re.IGNORECASE)
_PLURALS: Final = (
    ("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("ss", "ss"), ("us", "us"),
    ("is", "is"), ("s", ""),
)  # fmt: skip
_RUSSIAN_NOUN: Final = re.compile(
    rf"(?<=\w{{{ROOT}}})(?:ами|ями|ого|его|ому|ему|ыми|ими|ов|ев|ей|ах|ях|ам|ям|ом|ем|ая|яя|ую|юю|ое|ее|ые|ие|ый|ий|ых|их"
    r"|ой|а|я|у|ю|ы|и|е|о|ь|й)$"
)


def initials(name: str) -> str:
    """Return the first letters of the words of a name, without those that join them."""
    words = [word for word in re.split(r"[\s\-]+", name) if word and word.lower() not in _JOINING]
    return "".join(word[0] for word in words).upper() if len(words) > 1 else ""


_JOINING: Final = frozenset(
    ["of", "the", "and", "for", "in", "on", "to", "a", "an", "de", "la", "и", "в", "на", "по", "для"]
)
_ACRONYM: Final = re.compile(r"[A-ZА-ЯЁ][A-ZА-ЯЁ0-9]{1,7}")


def romanised(name: str) -> str:
    """Return a Russian name in Latin letters, folded; a Latin one only folded, its letters written as those of the other."""
    told = "".join(_LATIN.get(char, char) for char in folded(name))
    for letters, one in (
        ("kh", "h"),
        ("zh", "j"),
        ("ts", "c"),
        ("ks", "x"),
        ("y", "i"),
        ("w", "v"),
        ("ph", "f"),
    ):
        told = told.replace(letters, one)
    return told


_LATIN: Final = dict(
    zip(
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
        "a b v g d e e zh z i i k l m n o p r s t u f kh ts ch sh sch _ y _ e yu ya".replace("_", "").split(
            " "
        ),
        strict=True,
    )
)


def _alike(things: Sequence[Thing], key: Callable[[Thing], str], why: Why) -> Iterator[Pair]:
    same: defaultdict[str, list[Thing]] = defaultdict(list)
    for thing in things:
        if len(told := key(thing)) >= SHORTEST:
            same[told].append(thing)
    for some in same.values():
        for other in some[1:]:
            yield Pair(some[0], other, why)


def _acronyms(things: Sequence[Thing]) -> Iterator[Pair]:
    whole: defaultdict[str, list[Thing]] = defaultdict(list)
    for thing in things:
        if letters := initials(thing.name):
            whole[letters].append(thing)
    for thing in things:
        if _ACRONYM.fullmatch(thing.name):
            for other in whole[thing.name.upper()][:MOST_OF_A_KIND]:
                yield Pair(thing, other, Why.ACRONYM)


def _alphabets(things: Sequence[Thing]) -> Iterator[Pair]:
    near: defaultdict[str, list[tuple[Thing, str]]] = defaultdict(list)
    for thing in things:
        if len(told := romanised(thing.name)) >= SHORTEST:
            near[told[0]].append((thing, told))
    for some in near.values():
        russian = [one for one in some if _CYRILLIC.search(one[0].name)][:MOST_OF_A_KIND]
        latin = [one for one in some if not _CYRILLIC.search(one[0].name)]
        for (one, told), (other, said) in ((a, b) for a in russian for b in latin):
            if abs(len(told) - len(said)) < 4 and SequenceMatcher(None, told, said).ratio() >= ALIKE:
                yield Pair(one, other, Why.ALPHABET)
