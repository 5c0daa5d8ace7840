"""What a document says in a few of its own sentences: TextRank over sentence vectors.

A sentence is central when many others are near it, a little more so near the beginning, and is passed over when a
chosen one already says the same. The same text always has the same summary.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from consumers.knowledge.embedding.embedder import Embedder, Vectors
from consumers.knowledge.language.sentences import sentences
from consumers.knowledge.language.words import is_dense, terms
from consumers.knowledge.reading.markdown import Kind, lines
from contracts.knowledge import EXTRACTIVE

LIMIT: Final = 600  # characters of a summary; half as many ideographs say as much
FIRST_WORDS: Final = 500  # characters

MAX_TEXT: Final = 200_000  # characters; of a longer text evenly spread parts are read
PARTS: Final = 8
MAX_SENTENCES: Final = 150  # that are compared; of more the first third is kept, and evenly spread ones
FEWEST: Final = 3  # sentences from which on one can be more central than another
TELLING: Final = 4  # words of a sentence that stands on its own
LONGEST: Final = 400  # characters of a sentence

DAMPING: Final = 0.85
ROUNDS: Final = 50
NEAR: Final = 0.15  # likeness below which two sentences have nothing to do with each other
REPEATS: Final = 0.8  # how much of its rank a sentence loses that says what is already said
LEANS: Final = 0.6  # what is left of the rank of a sentence that leans on the one before


class TooLittleText(ValueError):  # noqa: N818 - named by what happened
    """A text has fewer than `FEWEST` sentences that stand on their own: take its first words instead."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary, how it was made, and of how many sentences."""

    text: str
    method: str
    sentences: int


async def summarise(text: str, embedder: Embedder, *, limit_chars: int = LIMIT) -> Summary:
    """The most telling sentences in the order of the text. Raises TooLittleText."""
    candidates = await asyncio.to_thread(_candidates, text)
    if (whole := sum(bool(_ENDS.search(sentence)) for sentence in candidates)) < FEWEST:
        raise TooLittleText(f"{whole} whole sentences are too few to choose from")
    rows = await embedder.embed(candidates)
    chosen = _choose(candidates, rows, limit_chars)
    words = " ".join(candidates[at] for at in sorted(chosen))
    return Summary(_WIDE_STOP.sub(r"\1", words), EXTRACTIVE, len(chosen))


def first_words(text: str) -> Summary:
    """The first words of a text, without its marks: what is there when nothing can be chosen."""
    said = (line.text for line in lines(text[: 20 * FIRST_WORDS]) if line.kind is not Kind.NOISE)
    words = " ".join(" ".join(said).split())
    if len(words) > FIRST_WORDS:
        space = words.rfind(" ", FIRST_WORDS // 2, FIRST_WORDS)
        words = words[: space if space > 0 else FIRST_WORDS].rstrip() + "…"
    return Summary(words, EXTRACTIVE, 0)


def _candidates(text: str) -> list[str]:
    """Sentences that stand on their own, each once, in order."""
    found: dict[str, None] = {}
    for part in _parts(text):
        for sentence in sentences(part, kinds=(Kind.PROSE, Kind.ITEM)):
            if len(sentence.text) <= LONGEST and _stands(sentence.text):
                found[sentence.text] = None
    candidates = list(found)
    if len(candidates) <= MAX_SENTENCES:
        return candidates
    first = MAX_SENTENCES // 3
    spread = np.linspace(first, len(candidates) - 1, MAX_SENTENCES - first).astype(int)
    return candidates[:first] + [candidates[at] for at in spread]


def _parts(text: str) -> Iterator[str]:
    if len(text) <= MAX_TEXT:
        yield text
        return
    for start in range(0, len(text), -(-len(text) // PARTS)):
        part = text[start : start + MAX_TEXT // PARTS]
        yield part[part.find("\n") + 1 :] if start else part


_WIDE_STOP = re.compile("([。！？；”）]) ")
_ENDS = re.compile(r"[.!。！…][\"'”»）)]*$")
_LEANING = re.compile(
    r"(?:it|this|that|these|those|they|he|she|however|therefore|also|but|and|so|then|in addition|moreover|see|for example"
    r"|это|этот|эта|эти|он|она|они|однако|поэтому|также|но|и|затем|кроме того|например|см"
    r"|这|那|它|他|但|因此|所以|另外|此外|然后|同时|例如|注意|其)(?![a-zа-яё])",
    re.IGNORECASE,
)


def _stands(sentence: str) -> bool:
    enough = TELLING * 2 if is_dense(sentence) else TELLING
    return not sentence.endswith((":", "：", "?", "？")) and len(terms(sentence)) >= enough


def _choose(candidates: Sequence[str], rows: Vectors, limit: int) -> list[int]:
    likeness = np.clip(rows @ rows.T, 0, 1).astype(np.float64)
    ranks = _rank(likeness) * [_stand(sentence) for sentence in candidates]
    chosen: list[int] = []
    room = limit / (2 if is_dense(candidates[int(ranks.argmax())]) else 1)
    while True:
        said = likeness[:, chosen].max(axis=1) if chosen else np.zeros(len(candidates))
        left = ranks * (1 - REPEATS * said)
        left[[at for at in range(len(candidates)) if at in chosen or len(candidates[at]) > room]] = 0
        best = int(left.argmax())
        if left[best] <= 0:
            return chosen or [int(ranks.argmax())]
        chosen.append(best)
        room -= len(candidates[best]) + 1


def _rank(likeness: NDArray[np.float64]) -> NDArray[np.float64]:
    """How central each sentence is: the share of time a reader spends who walks from like to like."""
    count = len(likeness)
    links = np.where(likeness > NEAR, likeness, 0.0)
    np.fill_diagonal(links, 0.0)
    starts = 1.0 / (1 + np.arange(count) / 10)
    starts /= starts.sum()
    totals = links.sum(axis=1, keepdims=True)
    steps = np.where(totals > 0, links / np.where(totals > 0, totals, 1), starts)
    ranks = starts
    for _ in range(ROUNDS):
        ranks = (1 - DAMPING) * starts + DAMPING * (ranks @ steps)
    return ranks


def _stand(sentence: str) -> float:
    """What is left of a rank for the form of a sentence: short ones say little, leaning ones need another."""
    length = min(1.0, len(sentence) / (30 if is_dense(sentence) else 80))
    ended = 1.0 if _ENDS.search(sentence) else 0.4
    begun = LEANS if _LEANING.match(sentence) or not (sentence[0].isalnum() or sentence[0] in '“«「‘"') else 1
    return length * ended * begun
