"""How far a run reads: which messages, cut into stretches of one conversation, and where it stands after each of them.

What a person said is numbered over all their conversations, and one cursor says what was read. A run therefore takes
the messages behind it in their order until a limit is met, and stops there: nothing behind the cursor is ever skipped,
however many conversations are interleaved.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contracts.memory import TurnRole

MOST_OF_SESSION: Final = 40
"""Messages of one conversation that a run reads."""
MOST_SEGMENTS: Final = 3
PAUSE_MS: Final = 3_600_000
"""A pause from which on a conversation begins anew."""
WINDOW: Final = MOST_OF_SESSION * MOST_SEGMENTS
CONTEXT: Final = 4
"""Lines before a stretch that whoever reads it may see."""
LONGEST_LINE: Final = 1_000  # characters


@dataclass(frozen=True, slots=True)
class Line:
    """A message as it is read: cut to `LONGEST_LINE`."""

    id: str
    session_id: str
    role: TurnRole
    text: str
    position: int
    at: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one conversation without a long pause. `cursor` is what is read of all once this one is."""

    lines: tuple[Line, ...]
    cursor: int
    context: tuple[Line, ...] = ()

    @property
    def session_id(self) -> str:
        """Which conversation it is of."""
        return self.lines[0].session_id


def segments(unread: Sequence[Line], cursor: int) -> tuple[list[Segment], bool]:
    """Cut what is unread behind a cursor, in its order, into stretches; also say whether something is left for another run."""
    taken, counts = list[list[Line]](), Counter[str]()
    open_ones: dict[str, list[Line]] = {}
    left = False
    for line in unread:
        stretch = open_ones.get(line.session_id)
        begins = stretch is None or line.at - stretch[-1].at > PAUSE_MS
        if counts[line.session_id] == MOST_OF_SESSION or (begins and len(taken) == MOST_SEGMENTS):
            left = True
            break
        if begins or stretch is None:
            stretch = open_ones[line.session_id] = []
            taken.append(stretch)
        stretch.append(line)
        counts[line.session_id] += 1
    return [Segment(tuple(one), _after(taken, at, cursor)) for at, one in enumerate(taken)], left


def _after(taken: Sequence[Sequence[Line]], at: int, cursor: int) -> int:
    """The last number up to which everything is read once the stretches up to `at` are: none of the later ones is behind it."""
    later = [stretch[0].position for stretch in taken[at + 1 :]]
    read = max(stretch[-1].position for stretch in taken[: at + 1])
    return max(cursor, min([read, *(first - 1 for first in later)]))
