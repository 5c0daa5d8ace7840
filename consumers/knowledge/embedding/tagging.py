"""Which of the given tags a text is about, and how surely.

Three things speak for a tag: its words and description mean what the text means, they mean what one of its keyphrases
means, and its name stands in a heading or keyphrase. They were weighed on documents in three languages so that from
`SURE` on a tag is clearly right; a doubtful one stays below.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from consumers.knowledge.embedding.embedder import Embedder
from consumers.knowledge.language.keyphrases import keyphrases
from consumers.knowledge.language.words import terms
from consumers.knowledge.reading.chunking import split
from consumers.knowledge.reading.markdown import headings

SURE: Final = 0.75
"""A tag is given from this confidence on (facts 1.12)."""
MAX_TAGS: Final = 500
MAX_TEXT: Final = 16_000  # characters
PHRASES: Final = 15

MEANING: Final = 13.0  # weight of the likeness of text and tag, in log-odds
PHRASE: Final = 4.0  # of the likeness of the nearest keyphrase
NAMED: Final = 3.0  # of the name standing where the subject is said
DOUBT: Final = -6.0  # a tag is wrong unless something speaks for it
OFTEN: Final = 50  # one word in so many is the name: said often enough without standing in a heading


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag that may be given. The description says in a few words what belongs under it; it may be empty."""

    id: str
    name: str
    description: str = ""

    @property
    def meaning(self) -> str:
        return f"{self.name}. {self.description}" if self.description else self.name


@dataclass(frozen=True, slots=True)
class TagMatch:
    """How surely a tag fits, 0 to 1."""

    tag: Tag
    confidence: float


async def match_tags(text: str, tags: Sequence[Tag], embedder: Embedder) -> tuple[TagMatch, ...]:
    """The given tags, the surest first. Of the text the first `MAX_TEXT` characters are read, of the tags `MAX_TAGS`."""
    text, tags = text[:MAX_TEXT], tags[:MAX_TAGS]
    pieces, phrases, named = await asyncio.to_thread(_read, text, tags)
    if not pieces or not tags:
        return ()
    rows = await embedder.embed([*pieces, *phrases, *(tag.meaning for tag in tags)])
    near = rows[: len(pieces)] @ rows[-len(tags) :].T
    whole = rows[: len(pieces)].mean(axis=0)
    meaning = (near.max(axis=0) + rows[-len(tags) :] @ (whole / np.linalg.norm(whole))) / 2
    by_phrase = rows[len(pieces) : -len(tags)] @ rows[-len(tags) :].T
    phrase = by_phrase.max(axis=0, initial=0)
    odds = DOUBT + MEANING * meaning + PHRASE * phrase + NAMED * np.array(named)
    matches = [
        TagMatch(tag, round(float(sure), 4)) for tag, sure in zip(tags, 1 / (1 + np.exp(-odds)), strict=True)
    ]
    return tuple(sorted(matches, key=lambda match: -match.confidence))


def _read(text: str, tags: Sequence[Tag]) -> tuple[list[str], list[str], list[float]]:
    """The pieces and keyphrases of the text, and how much each tag is named in it, 0 to 1."""
    pieces = [chunk.context() for chunk in split(text)]
    phrases = [phrase.text for phrase in keyphrases(text, limit=PHRASES)]
    titles = {term for line in headings(text) for term in terms(line.text)}
    subjects = [titles, *(set(terms(phrase)) for phrase in phrases)]
    counts = Counter(terms(text))
    return pieces, phrases, [_named(set(terms(tag.name)), subjects, counts) for tag in tags]


def _named(name: set[str], subjects: Sequence[set[str]], counts: Counter[str]) -> float:
    if not name:
        return 0.0
    if any(name <= subject for subject in subjects):
        return 1.0
    share = min(counts[term] for term in name) / max(1, counts.total())
    return 0.6 * min(1.0, share * OFTEN)
