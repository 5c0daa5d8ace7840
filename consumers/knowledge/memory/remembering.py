"""What people say of themselves: the sentences in which they do, told by how such sentences begin.

This is also the seam where a model may read a conversation: what it is given and what it gives back is the same.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from consumers.knowledge.language.sentences import sentences
from consumers.knowledge.memory.forms import FORMS, NOT_SAID, REMEMBER
from consumers.knowledge.memory.reading import LONGEST_LINE, Segment
from contracts.knowledge import EXTRACTIVE
from contracts.memory import MemoryKind, TurnRole

MOST: Final = 8
"""Things that one stretch of conversation adds."""
LONGEST: Final = 300
"""Characters of a sentence that is remembered; who says more in one tells a story."""


@dataclass(frozen=True, slots=True)
class Noted:
    """Something to remember, and the message that says it. Of an `only` topic there is one thing at a time: what is newer takes
    the place of what is older.
    """

    kind: MemoryKind
    topic: str
    text: str
    only: bool = False
    message_id: str = ""


class MemoryReader(Protocol):
    """Reads stretches of conversation."""

    @property
    def method(self) -> str:
        """Names how it reads; stored with everything that it notes."""

    async def read(self, segment: Segment, known: Sequence[str]) -> Sequence[Noted]:
        """Return what a stretch adds to what is `known` of the person, the newest first."""


class ExtractiveReader:
    """Takes the sentences themselves, without a language model."""

    method: Final = EXTRACTIVE

    async def read(self, segment: Segment, known: Sequence[str]) -> Sequence[Noted]:
        """See `MemoryReader`; what is known is told apart by whoever stores it."""
        del known
        found: dict[object, Noted] = {}
        for line in segment.lines:
            if line.role is TurnRole.USER:
                for noted in said_of_oneself(line.text, line.id):
                    key = noted.topic if noted.only else noted.text.casefold()
                    found.pop(key, None)
                    found[key] = noted
        return list(found.values())[-MOST:]


def said_of_oneself(text: str, message_id: str = "") -> Iterator[Noted]:
    """What a message says of whoever wrote it."""
    for said in _clauses(text[:LONGEST_LINE]):
        if len(said) > LONGEST or NOT_SAID.search(said):
            continue
        asked, plain = _told(said)
        for form in FORMS:
            if match := form.pattern.search(plain):
                yield Noted(form.kind, _topic(form.topic, match), plain, form.only, message_id)
                break
        else:
            if asked:
                yield Noted(MemoryKind.FACT, "note", plain, message_id=message_id)


def _clauses(text: str) -> Iterator[str]:
    """Sentences, and of one that says several things of oneself each."""
    for sentence in sentences(text):
        if sentence.text.endswith(("?", "？")):
            continue
        for clause in _BOTH.split(sentence.text):
            yield clause[:1].upper() + clause[1:]


_BOTH: Final = re.compile(
    r",?\s+(?:and|but)\s+(?=I\b|my\b)|,\s+(?:и\s+|а\s+|но\s+)?(?=(?:я|мо[йяеи]|мне|меня|у меня)\b)|[，,；](?=我)",
    re.IGNORECASE,
)


def _told(said: str) -> tuple[bool, str]:
    """Whether a sentence asks to be remembered, and what it says without asking so."""
    match = REMEMBER.match(said)
    rest = said[match.end() :].strip() if match else said
    return (True, rest[:1].upper() + rest[1:]) if match and len(rest) > 3 else (False, said)


def _topic(topic: str, match: re.Match[str]) -> str:
    named = next(filter(None, match.groups()), "")
    return f"{topic} {named.casefold()}"[:64].strip()
