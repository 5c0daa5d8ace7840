"""The things a piece of text names, and how its sentences relate them: names, identifiers, quoted and frequent terms.

A relation is a verb that stands between two neighbours in a sentence, or only their standing side by side. Names are
written so that the same thing is called the same in every piece.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

from consumers.knowledge.language.keyphrases import keyphrases
from consumers.knowledge.language.relation_verbs import BESIDE, between
from consumers.knowledge.language.sentences import Sentence, sentences
from consumers.knowledge.language.words import STOP_WORDS, is_dense, language_of
from consumers.knowledge.reading.markdown import Kind

MAX_TEXT: Final = 10_000  # characters of a piece that are read
MAX_NAMES: Final = 200  # that are looked for
MAX_ENTITIES: Final = 20
MAX_RELATIONS: Final = 30
LONGEST_NAME: Final = 60  # characters
LONGEST_TERM: Final = 10  # characters of ideographs
LONGEST_EVIDENCE: Final = 300
TERMS: Final = 6  # keyphrases that are taken for entities
TERM_WEIGHT: Final = 0.3  # of the best keyphrase; less is a passing word

NAME, CODE, TERM = "name", "code", "term"
_WORTH: Final = {NAME: 2.0, CODE: 1.5, TERM: 1.0}


@dataclass(frozen=True, slots=True)
class Named:
    """An entity that a piece names, what it is (`name`, `code` or `term`), and how often."""

    name: str
    kind: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Related:
    """What a sentence says of two entities, by their names, with its words."""

    source: str
    target: str
    kind: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """The entities of a piece, the most telling first, and the relations between them."""

    entities: tuple[Named, ...]
    relations: tuple[Related, ...]


def extract_graph(text: str, language: str | None = None) -> Extraction:
    """What a piece of text names and relates. `language` is that of the document, for verbs; told by the text if not given."""
    text = text[:MAX_TEXT]
    said = sentences(text, kinds=set(Kind) - {Kind.CODE})
    kinds = dict(islice((dict.fromkeys(_terms(text), TERM) | _named(said, text)).items(), MAX_NAMES))
    if not kinds:
        return Extraction((), ())
    finder, written = _finder(kinds), {_folded(name): name for name in kinds}
    places = [list(finder.finditer(sentence.text)) for sentence in said]
    found = (written.get(_folded(match[0])) for row in places for match in row)
    counts = Counter(name for name in found if name)
    counts -= Counter(name for name, count in counts.items() if count == 1 and _is_passing(name))
    best = sorted(counts, key=lambda name: (-counts[name] * _WORTH[kinds[name]], name))[:MAX_ENTITIES]
    entities = tuple(Named(name, kinds[name], counts[name]) for name in best)
    relations = _relations(
        said, places, {_folded(name): name for name in best}, language or language_of(text)
    )
    return Extraction(entities, tuple(relations)[:MAX_RELATIONS])


_IDENTIFIER: Final = (
    r"@?[A-Za-z_][A-Za-z0-9]*(?:[._][A-Za-z0-9]+)+(?![\w.@/])"  # snake_case and dotted.names
    r"|[A-Z][a-z0-9]+(?:[A-Z]+[a-z0-9]*)+|[a-z]+(?:[A-Z][a-z0-9]+)+"  # CamelCase
)
_CAPITAL: Final = r"[A-ZÀ-ÞА-ЯЁ][\wÀ-ÿ'’+-]*"
_SPAN = re.compile(
    rf"(?<![\w@./:#-])(?:(?P<code>{_IDENTIFIER})"
    rf"|(?P<name>{_CAPITAL}(?:\ (?:[A-ZА-ЯЁ]\.\ )?(?:(?:of|de|van)\ (?!The))?{_CAPITAL}){{0,3}}))(?!\w)"
)
_QUOTED = re.compile(r"[«“「《]([^«»“”「」《》。，;；:：→]{2,40})[»”」》]")
_ADDRESS = re.compile(
    r"\w{1,20}://\S+|[\w.+-]{1,64}@[\w.-]{1,100}|[\w-]{1,64}(?:\.[\w-]{1,64}){0,4}\.(?:com|org|net|io|html)\b\S*"
)
_ACRONYM = re.compile(r"[A-ZА-ЯЁ][A-ZА-ЯЁ0-9]+s?")
_VERSION = re.compile(r"v?\d[\d.x]*")
_ACTS = re.compile(  # what only a thing does: a capital in front of it is a name, even where a sentence begins
    r" (?:is|was|has|can|will|provides|supports|uses|allows|enables|offers|contains|includes|requires|runs|owns|makes|sells"
    r"|launched|announced|released|acquired|became|—|является|использует|поддерживает|предоставляет|хранит|содержит)\b"
)
_WHOLE_CLAUSE = re.compile(r"支持|使用|作为|添加|包含|如何|什么|进行|可以|需要|\d")
_NO_NAME_WORDS: Final = """
step figure fig table note notes example chapter section page part option see january february march april may june july
august september october november december monday tuesday wednesday thursday friday saturday sunday yes no true false none
null todo warning tip info id ui ok url two three four five six seven eight nine ten single
管理 配置 推荐 执行 验证 注入 文件 方式 一个 说明 情况 问题 内容 功能 简介 页面 实现 步骤 概述 名称 描述 类型
"""
_NO_NAMES: Final = frozenset(_NO_NAME_WORDS.split())


def _named(said: Sequence[Sentence], text: str) -> dict[str, str]:
    """Names and identifiers with their kinds. A word that is capital only because it begins a sentence is none."""
    kinds: dict[str, str] = {}
    for sentence in said:
        for part in sentence.text.split(" | "):
            plain = _ADDRESS.sub(" , ", part)
            for match in _SPAN.finditer(plain):
                if name := _name_of(match, plain, heading=sentence.kind is Kind.HEADING):
                    kinds[name] = CODE if f"`{name}" in text or "_" in name else NAME
            quoted = (term.strip() for term in _QUOTED.findall(plain))
            kinds |= {term: TERM for term in quoted if _is_thing(term) and len(term.split()) < 5}
    return kinds


def _name_of(match: re.Match[str], plain: str, *, heading: bool) -> str:
    name = match["code"] or _without_stop_words(match["name"])
    if not _is_thing(name):
        return ""
    if match["code"] or (" " not in name and _ACRONYM.fullmatch(name)):
        return name.removesuffix("s") if _ACRONYM.fullmatch(name) else name
    begins = match.start() == 0 and name == match["name"] and " " not in name
    if heading or (begins and not _ACTS.match(plain, match.end())):
        return ""
    return name


def _without_stop_words(name: str) -> str:
    words = name.split()
    while words and words[0].casefold() in STOP_WORDS | _NO_NAMES:
        words.pop(0)
    return " ".join(words).removesuffix("'s").removesuffix("’s").rstrip("'’+-")


def _is_thing(name: str) -> bool:
    telling = any(char.isalpha() for char in name) and not _VERSION.fullmatch(name)
    return telling and 1 < len(name) <= LONGEST_NAME and name.casefold() not in STOP_WORDS | _NO_NAMES


def _terms(text: str) -> Iterator[str]:
    """Keyphrases that can stand for a thing: short terms of ideographs, and phrases of two words and more."""
    small = text.casefold()
    for phrase in keyphrases(text, limit=TERMS):
        dense, term = is_dense(phrase.text), phrase.text.casefold()
        of_things = len(term) <= LONGEST_TERM and not _WHOLE_CLAUSE.search(term) if dense else " " in term
        if of_things and phrase.weight >= TERM_WEIGHT and _is_thing(term) and small.count(term) > 1:
            yield phrase.text if dense else term


def _is_passing(name: str) -> bool:
    """Whether one mention is too little: of two letters, which may stand for anything."""
    return len(name) == 2 and name.isupper()


def _folded(name: str) -> str:
    return name.casefold().removesuffix("s")


def _finder(kinds: dict[str, str]) -> re.Pattern[str]:
    """Finds every mention, the longest name first; an English plural is a mention too."""
    names = sorted(kinds, key=len, reverse=True)
    return re.compile("|".join(_mention(name, kinds[name]) for name in names))


def _mention(name: str, kind: str) -> str:
    if not name[0].isascii() or not name[-1].isascii():
        return re.escape(name)
    plain = rf"(?<![\w.]){re.escape(name)}(?:s)?(?!\w)"
    return f"(?i:{plain})" if kind == TERM else plain


def _relations(
    said: Sequence[Sentence], places: Sequence[Sequence[re.Match[str]]], names: dict[str, str], language: str
) -> Iterator[Related]:
    """What stands between neighbours. Verbs come first; side by side is said once a pair."""
    beside: dict[frozenset[str], Related] = {}
    seen: set[tuple[str, str, str]] = set()
    for sentence, row in zip(said, places, strict=True):
        if sentence.kind is Kind.HEADING:
            continue
        known = [match for match in row if _folded(match[0]) in names]
        for left, right in pairwise(known):
            source, target = names[_folded(left[0])], names[_folded(right[0])]
            if source == target:
                continue
            kind, turned = between(sentence.text[left.end() : right.start()], language)
            if turned:
                source, target = target, source
            evidence = sentence.text[:LONGEST_EVIDENCE]
            if kind == BESIDE:
                beside.setdefault(frozenset((source, target)), Related(source, target, kind, evidence))
            elif (source, target, kind) not in seen:
                seen.add((source, target, kind))
                yield Related(source, target, kind, evidence)
    related = {frozenset(pair[:2]) for pair in seen}
    yield from (relation for pair, relation in beside.items() if pair not in related)
