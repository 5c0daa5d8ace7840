"""Lines of words found in a picture: which of them to believe, and in what order a person reads them."""

import statistics
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

READABLE: Final = 0.75
"""A line read with less confidence is noise."""
SURE: Final = 0.95
FOREIGN: Final = 0.3
"""So much of the words (by width) left blank means that the picture is in a script the model does not know."""
WIDEST_LETTER: Final = 1.1  # heights of its line
MARGINS: Final = 0.5  # of a line, both together
LOOK_ALIKES: Final = frozenset("ABCEHKMOPTXYabcekmnoprtuxy")
"""As which the letters of Cyrillic and Greek are read, the italic ones too."""

FEWEST_LINES: Final = 4  # of a column
FEWEST_LETTERS: Final = 20  # of its lines, on average: shorter ones are cells of a table, and read row by row
CROSSING: Final = 0.2  # of the lines: headings over both columns


@dataclass(frozen=True, slots=True)
class Line:
    """Words on one line, in pixels. `aspect` is length by height along the line, which may slope or stand."""

    left: float
    top: float
    right: float
    bottom: float
    aspect: float
    text: str
    score: float

    @property
    def letters(self) -> int:
        """Letters and digits, an ideograph as two, since it is as wide."""
        return sum(1 + _is_wide(char) for char in self.text if char.isalnum())

    @property
    def has_gaps(self) -> bool:
        """Whether words are missing: what the model does not know, it reads as spaces or not at all."""
        blanks = self.text != self.text.strip() or "  " in self.text
        return blanks or self.letters * WIDEST_LETTER + MARGINS < self.aspect

    @property
    def is_ideographic(self) -> bool:
        return any(map(_is_wide, self.text))

    @property
    def may_be_look_alikes(self) -> bool:
        """Whether words may be those of another script, each letter taken for the Latin one of its shape."""
        words = [[char for char in word if char.isalpha()] for word in self.text.split()]
        alike = [word for word in words if LOOK_ALIKES.issuperset(word)]
        return any(len(word) >= 3 for word in alike) or len(alike) == len(words)


def is_foreign(lines: Sequence[Line]) -> bool:
    """Whether the picture is in a script that the model does not know."""
    return sum(line.aspect for line in lines if line.has_gaps) > FOREIGN * sum(line.aspect for line in lines)


def believed(lines: Sequence[Line]) -> list[Line]:
    """The lines without noise; of a picture in a foreign script, only those that are surely not."""
    if is_foreign(lines):
        return [
            line for line in lines if line.score >= SURE and not (line.has_gaps or line.may_be_look_alikes)
        ]
    return [line for line in lines if line.letters and line.score >= (SURE if line.has_gaps else READABLE)]


def in_reading_order(lines: Sequence[Line]) -> list[str]:
    """From top to bottom and from left to right, columns of prose one after the other."""
    if (gutter := _gutter(lines)) is None:
        return _rows(lines)
    texts: list[str] = []
    band: list[Line] = []

    def columns() -> list[str]:
        left = [line for line in band if line.right <= gutter]
        return in_reading_order(left) + in_reading_order([line for line in band if line.right > gutter])

    for line in sorted(lines, key=lambda line: line.top):
        if line.left < gutter < line.right:
            texts += [*columns(), *_rows([line])]
            band.clear()
        else:
            band.append(line)
    return texts + columns()


def _rows(lines: Sequence[Line]) -> list[str]:
    """Words at one height on one line, as the cells of a table are."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=_middle):
        first = rows[-1][0] if rows else line
        if rows and _middle(line) - _middle(first) < min(_height(line), _height(first)) / 2:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [
        " ".join(" ".join(line.text.split()) for line in sorted(row, key=lambda line: line.left))
        for row in rows
    ]


def _gutter(lines: Sequence[Line]) -> float | None:
    """Where the space between two columns of prose is; None where there are none."""
    if len(lines) < 2 * FEWEST_LINES:
        return None
    ends = sorted({line.right for line in lines})
    crossings = {end: sum(line.left < end < line.right for line in lines) for end in ends[:-1]}
    for end, crossing in sorted(crossings.items(), key=lambda item: item[1]):
        if crossing > CROSSING * len(lines):
            return None
        left = [line for line in lines if line.right <= end]
        right = [line for line in lines if line.left >= end]
        if _is_prose(left) and _is_prose(right) and _side_by_side(left, right):
            return end
    return None


def _is_prose(lines: Sequence[Line]) -> bool:
    return len(lines) >= FEWEST_LINES and statistics.mean(line.letters for line in lines) >= FEWEST_LETTERS


def _side_by_side(left: Sequence[Line], right: Sequence[Line]) -> bool:
    """Whether they share most of their height; a letter's address and its text do not."""
    top = max(min(line.top for line in side) for side in (left, right))
    bottom = min(max(line.bottom for line in side) for side in (left, right))
    heights = [max(line.bottom for line in side) - min(line.top for line in side) for side in (left, right)]
    return bottom - top > min(heights) / 2


def _middle(line: Line) -> float:
    return (line.top + line.bottom) / 2


def _height(line: Line) -> float:
    return line.bottom - line.top


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in "WF"
