"""The phrases a text keeps coming back to: runs of telling words, weighed by how often and where they stand.

Works on one text alone and in any language: words are cut at spaces, ideographs at the characters that only bind.
A phrase within a longer one counts for what it is used beyond it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from consumers.knowledge.language.sentences import sentences
from consumers.knowledge.language.words import FUNCTION_CHARS, STOP_WORDS, stem
from consumers.knowledge.reading.markdown import Kind

MAX_TEXT: Final = 100_000  # characters that are read
LONGEST_PHRASE: Final = 4  # words
LONGEST_TERM: Final = 6  # ideographs
HEADING_WEIGHT: Final = 3  # of a mention
WORD_BONUS: Final = 0.8  # for each further word of a phrase

_HAN = "\u3400-\u9fff"
_KATAKANA = "\u30a1-\u30fa\u30fc"
_OTHER_DENSE = "\u0e00-\u0eff\u3040-\u30ff\uff00-\uffef"
_PIECE = re.compile(
    rf"[{_HAN}]+|[{_KATAKANA}]+|[^\W{_HAN}{_OTHER_DENSE}]+(?:[-.'’/][^\W{_HAN}{_OTHER_DENSE}]+)*|[^\s]"
)
_IS_HAN = re.compile(f"[{_HAN}{_KATAKANA}]")
_ADDRESS = re.compile(r"\w{1,20}://\S+|[\w.+-]{1,64}@\S+")
_NAME = re.compile(r"[A-ZА-ЯЁ]{2,}|\w[a-zа-яё\d]*[A-ZА-ЯЁ_]|\w+[._]\w")


@dataclass(frozen=True, slots=True)
class Keyphrase:
    """A phrase as the text most often writes it. The best has weight 1."""

    text: str
    weight: float


def keyphrases(text: str, *, limit: int = 10) -> tuple[Keyphrase, ...]:
    """At most `limit` phrases, best first. A text without a telling word has none."""
    counts: Counter[tuple[str, ...]] = Counter()
    forms: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    titled: set[tuple[str, ...]] = set()
    for sentence in sentences(text[:MAX_TEXT], kinds=set(Kind) - {Kind.CODE}):
        heading = sentence.kind is Kind.HEADING
        for phrase in _phrases(_ADDRESS.sub(" , ", sentence.text)):
            key = tuple(stem(word.casefold()) for word in phrase)
            counts[key] += HEADING_WEIGHT if heading else 1
            forms[key][" ".join(phrase)] += 1
            if heading:
                titled.add(key)
    good = [
        key for key, count in counts.items() if key in titled or count > 1 or _NAME.match(min(forms[key]))
    ]
    weights = _weigh({key: counts[key] for key in good} or dict(counts))
    best = sorted(weights, key=lambda key: -weights[key])[:limit]
    return tuple(Keyphrase(forms[key].most_common(1)[0][0], weights[key] / weights[best[0]]) for key in best)


def _phrases(sentence: str) -> Iterator[Sequence[str]]:
    for run in _runs(sentence):
        for start in range(len(run)):
            for end in range(start + 1, min(start + LONGEST_PHRASE, len(run)) + 1):
                yield run[start:end]
        for word in run:
            if len(word) > 3 and _IS_HAN.match(word):
                yield from _terms_within(word)


def _terms_within(word: str) -> Iterator[tuple[str, ...]]:
    for length in range(2, min(LONGEST_TERM, len(word) - 1) + 1):
        for start in range(len(word) - length + 1):
            yield (word[start : start + length],)


def _runs(sentence: str) -> Iterator[list[str]]:
    """Telling words side by side; whatever binds or separates them ends a run."""
    run: list[str] = []
    for piece in _pieces(sentence):
        if piece:
            run.append(piece)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _pieces(sentence: str) -> Iterator[str]:
    """Telling words, and an empty string for each that is none."""
    for match in _PIECE.finditer(sentence):
        piece = match[0]
        if _IS_HAN.match(piece):
            word = ""
            for char in piece:
                if char in FUNCTION_CHARS:
                    yield from (word, "")
                    word = ""
                else:
                    word += char
            yield word if len(word) > 1 else ""
        else:
            telling = len(piece) > 1 and piece.casefold() not in STOP_WORDS and not piece[0].isdecimal()
            yield piece if telling else ""


def _weigh(counts: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], float]:
    """More words weigh more, and what a longer phrase already says is taken off."""
    within: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for key, count in counts.items():
        for part in _parts(key):
            within[part] = max(within[part], count)
    weights = {
        key: (count - within[key]) * (1 + WORD_BONUS * (len(key) - 1)) for key, count in counts.items()
    }
    return {key: weight for key, weight in weights.items() if weight > 0}


def _parts(key: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    if len(key) == 1:
        return set(_terms_within(key[0])) if _IS_HAN.match(key[0]) else ()
    return {key[a:b] for a in range(len(key)) for b in range(a + 1, len(key) + 1)} - {key}
