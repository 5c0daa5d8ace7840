"""How a question is answered from passages: by their own sentences, each with a mark of where it stands.

This is also the seam where a model may write the answer: what it is given and what it gives back is the same.
"""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import numpy as np

from consumers.knowledge.embedding.embedder import Embedder, Vectors
from consumers.knowledge.language.sentences import Sentence, sentences
from consumers.knowledge.language.words import script_of, terms
from consumers.knowledge.reading.markdown import Kind
from contracts.knowledge import EXTRACTIVE

NOISE: Final = 0.12
"""Fit below which a passage has nothing to do with a query; across languages what has can be as low as 0.14."""
MAX_QUESTION: Final = 2_000  # characters
MAX_PASSAGES: Final = 12
MAX_PARTS: Final = 200  # sentences and lists that are weighed
MOST_PARTS: Final = 3  # in an answer
LONGEST_PART: Final = 500  # characters

FITS: Final = 0.38  # likeness plus half the share of words found; questions about other things stay below 0.3
RIVAL: Final = 0.9  # of the best weight: what is as good belongs to the answer
SAME: Final = 0.8  # likeness from which on two sentences say the same


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage stands: in a document, on a page of the wiki, named by its slug, or it is a ready answer, named by its
    entry, in a file attached to a chat, or it is something remembered of who asks. `position` counts chunks; it is None where
    a document was found by its summary.
    """

    knowledge_base_id: str
    title: str
    knowledge_id: str | None = None
    chunk_id: str | None = None
    position: int | None = None
    page: str | None = None
    faq_entry: str | None = None
    attachment: str | None = None
    memory_item: str | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document that was found for the question. The better it fits, the higher its score, 0 to 1."""

    path: str
    text: str
    score: float
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """What the mark [n] in an answer stands for: the n-th citation."""

    path: str
    text: str
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in words, with marks that number the citations. Without citations it says that nothing fits."""

    text: str
    citations: tuple[Citation, ...]
    method: str
    notice: str = ""
    """What a person is to know of how the passages were found."""


class AnswerWriter(Protocol):
    """Writes an answer that rests on the passages and on nothing else."""

    async def compose(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Passages come best first."""


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence, or a list or table with what introduces it, and the heading or introduction it stands under."""

    passage: int
    kind: Kind
    text: str
    under: str = ""

    @property
    def whole(self) -> str:
        return f"{self.under} {self.text}" if self.under else self.text


class ExtractiveWriter:
    """Answers with the sentences of the passages that are nearest to the question, without a language model."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def compose(self, question: str, passages: Sequence[Passage]) -> Answer:
        question = question[:MAX_QUESTION]
        parts = await asyncio.to_thread(_all_parts, passages)
        if not parts:
            return nothing_fits(question)
        texts = list(dict.fromkeys(text for part in parts for text in (part.text, part.whole)))
        rows = await self._embedder.embed([question, *texts])
        row_of = dict(zip(texts, rows[1:], strict=True))
        return await asyncio.to_thread(_write, question, rows[0], passages, parts, row_of)


def _all_parts(passages: Sequence[Passage]) -> list[Part]:
    found = (
        part for at, passage in enumerate(passages[:MAX_PASSAGES]) for part in parts_of(at, passage.text)
    )
    return list(islice(found, MAX_PARTS))


def _write(
    question: str,
    asked: Vectors,
    passages: Sequence[Passage],
    parts: Sequence[Part],
    row_of: Mapping[str, Vectors],
) -> Answer:
    alone = np.stack([row_of[part.text] for part in parts])
    within = np.stack([row_of[part.whole] for part in parts])
    near = np.maximum(alone @ asked, (alone + within) @ asked / 2)
    found = coverage(question, [part.text for part in parts]) + coverage(
        question, [part.whole for part in parts]
    )
    fits = near + found / 4
    weights = fits + [_bonus(question, part, passages[part.passage]) for part in parts]
    best = [int(at) for at in np.argsort(-weights, kind="stable") if fits[at] >= FITS]
    # Code, and what only repeats the question, answer where nothing else does.
    best = [at for at in best if parts[at].kind is not Kind.CODE] or best
    known = set(terms(question))
    best = [at for at in best if _tells_more(known, parts[at].text)] or best
    return _answer(passages, parts, _choose(best, weights, alone, parts)) if best else nothing_fits(question)


def _tells_more(known: Collection[str], text: str) -> bool:
    """Whether a part says a word that is not known; the name of a value, in `name: value`, is none."""
    value = text.partition(": ")[2] or text
    return not set(terms(value)).issubset(known)


def nothing_fits(question: str) -> Answer:
    """The plain statement, in the language of the question, that no passage answers it."""
    return Answer(_NOTHING.get(script_of(question), _NOTHING["en"]), (), EXTRACTIVE)


_NOTHING: Final = {
    "en": "No passage answers this question.",
    "ru": "Ни один фрагмент не отвечает на этот вопрос.",
    "zh": "没有找到能回答这个问题的段落。",
    "ja": "この質問に答える箇所は見つかりませんでした。",
}


def parts_of(at: int, text: str) -> Iterator[Part]:
    """What of a passage may stand in an answer. Questions and headings may not."""
    heading = intro = before = ""
    group: list[Sentence] = []
    for sentence in sentences(text, kinds=_ANSWERING):
        if group and not _goes_on(group, sentence):
            yield from _listed(at, intro, before or heading, group)
            group, intro = [], ""
        if sentence.kind in _MEMBERS:
            group.append(sentence)
        elif sentence.kind is Kind.HEADING:
            heading, intro, before = sentence.text, "", ""
        else:
            intro, before = sentence.text if sentence.text.endswith(_COLONS) else "", sentence.text
            if not sentence.text.endswith(_QUESTIONS):
                yield Part(at, sentence.kind, sentence.text, heading)
    if group:
        yield from _listed(at, intro, before or heading, group)


_ANSWERING: Final = frozenset({Kind.HEADING, Kind.PROSE, Kind.ITEM, Kind.COLUMNS, Kind.ROW, Kind.CODE})
_MEMBERS: Final = frozenset({Kind.ITEM, Kind.COLUMNS, Kind.ROW})
_COLONS: Final = (":", "：")
_QUESTIONS: Final = ("?", "？", "؟")


def _goes_on(group: Sequence[Sentence], sentence: Sentence) -> bool:
    """Whether a line belongs to the list or table before it."""
    kind = group[0].kind
    return sentence.kind is (Kind.ROW if kind is Kind.COLUMNS else kind)


def _listed(at: int, intro: str, before: str, group: Sequence[Sentence]) -> Iterator[Part]:
    """Each member under what introduces it, and the list as a whole where something does."""
    kind = group[0].kind
    members = [sentence.text.rstrip(".;；。 ") for sentence in group]
    if kind is Kind.COLUMNS and len(members) > 1:
        members = [_labelled(members[0], row) for row in members[1:]]
    for member in members:
        yield Part(at, kind, member, intro or before)
    whole = members[0] if intro else ""
    for member in members[1:] if intro else ():
        if len(intro) + len(whole) + len(member) > LONGEST_PART:
            break
        whole += f"; {member}"
    if whole and len(members) > 1:
        yield Part(at, kind, whole, intro)


def _labelled(columns: str, row: str) -> str:
    """A table row with the name of each column, where it has as many cells as there are columns; no empty cells."""
    names, cells = ([cell.strip() for cell in line.split("|")] for line in (columns, row))
    if len(names) != len(cells):
        return row
    return " · ".join(f"{name}: {cell}" for name, cell in zip(names, cells, strict=True) if cell)


def coverage(question: str, texts: Sequence[str]) -> Vectors:
    """The share of the question's words that each text has, 0 to 1; words that few texts have count more."""
    found = [set(terms(text)) for text in texts]
    spread = Counter(term for words in found for term in words)
    weights = {term: math.log(1 + len(texts) / (1 + spread[term])) for term in set(terms(question))}
    total = sum(weights.values()) or 1.0
    return np.array(
        [sum(weight for term, weight in weights.items() if term in words) / total for words in found],
        dtype=np.float32,
    )


_ASKS_WHAT_IS = re.compile(
    r"^(?:what(?:'s| is| are)|who is|что такое|кто такой|什么是)\s*(?:an? |the )?(.+?)[?？\s]*$|^(.+?)是什么[?？\s]*$",
    re.IGNORECASE,
)
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|often)\b|\bprice|\bversion|\bwhen\b|сколько|когда|верси|цен|多少|几|哪个版本|什么时候|版本",
    re.IGNORECASE,
)
_ASKS_WHY = re.compile(r"\bwhy\b|почему|зачем|为什么|为何", re.IGNORECASE)
_DEFINES = re.compile(
    r"^.{1,60}? (?:is|are) (?:an?|the|one)\b|^.{1,60}? — (?:это )?|^.{1,30}?是", re.IGNORECASE
)
_REASONS = re.compile(
    r"\bbecause\b|\bsince\b|\bso that\b|\bin order to\b|потому|чтобы|так как|поскольку|因为|由于|以便|为了",
    re.IGNORECASE,
)


def _bonus(question: str, part: Part, passage: Passage) -> float:
    """What speaks for a part beside its words: its passage, its language, and the form of an answer."""
    text = part.text
    bonus = 0.1 * passage.score + 0.05 * (script_of(text) == script_of(question))
    if (asked := _ASKS_WHAT_IS.match(question.strip())) and _DEFINES.match(text):
        bonus += 0.2 * text.casefold().startswith((asked[1] or asked[2]).casefold())
    if _ASKS_NUMBER.search(question) and any(char.isdecimal() for char in text):
        bonus += 0.1
    if _ASKS_WHY.search(question) and _REASONS.search(text):
        bonus += 0.1
    if text.endswith(_COLONS):
        bonus -= 0.2
    return bonus - 0.15 * min(1, len(text) / LONGEST_PART)


def _choose(best: Sequence[int], weights: Vectors, rows: Vectors, parts: Sequence[Part]) -> list[int]:
    chosen: list[int] = []
    for at in best:
        if len(chosen) == MOST_PARTS or weights[at] < RIVAL * weights[best[0]]:
            break
        if all(rows[at] @ rows[other] < SAME and not _overlap(parts[at], parts[other]) for other in chosen):
            chosen.append(at)
    return chosen


def _overlap(one: Part, other: Part) -> bool:
    return one.passage == other.passage and (one.text in other.text or other.text in one.text)


def _answer(passages: Sequence[Passage], parts: Sequence[Part], chosen: Sequence[int]) -> Answer:
    cited: list[int] = []
    said: list[str] = []
    for part in (parts[at] for at in chosen):
        if part.passage not in cited:
            cited.append(part.passage)
        words = part.whole if part.under.endswith(_COLONS) else part.text
        said.append(f"{words.rstrip(':：;； ')} [{1 + cited.index(part.passage)}]")
    return Answer("\n".join(said), tuple(_cited(passages[at]) for at in cited), EXTRACTIVE)


def _cited(passage: Passage) -> Citation:
    return Citation(passage.path, passage.text, passage.place)
