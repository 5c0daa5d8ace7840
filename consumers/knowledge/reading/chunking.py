"""How a document is cut into the pieces that are searched and embedded.

The pieces follow the Markdown (headings, paragraphs, sentences) and are short enough for a sentence encoder:
`SIZE` characters of an alphabet are about 200 tokens, and a text written in ideographs, which take two to three
times as many tokens, gets pieces as much shorter. A piece that begins within a table begins with the names of its
columns, without which its rows say nothing.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from consumers.knowledge.reading.markdown import Line, headings, plain
from contracts.knowledge import SpanCode

SIZE: Final = 800  # characters
OVERLAP: Final = 0  # characters
MAX_CHUNKS: Final = 20_000
DENSE_SHRINK: Final = 0.6  # of the size, for a text of ideographs only
BLOCK: Final = 8_000  # characters that the splitter sees at once
UNBROKEN: Final = 2_000  # the same in a run without any break, in whose length the splitter is quadratic

_DENSE = re.compile("[\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_WORD = re.compile(r"[^\W_]")
_SAYS = re.compile(r"^(?![ \t>]*[`~]{3}).*[^\W_]", re.MULTILINE)
"""A line that is no fence and has a letter or digit."""
_TABLE = re.compile(r"^(\|.*\n\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t\r]*\n)(?:\|.*(?:\n|\Z))+", re.MULTILINE)
_BREAKS: Final = ("\n\n", "\n", "。", ". ", " ")


class TooManyChunks(ValueError):  # noqa: N818 - named by what happened
    """A text would give more than `MAX_CHUNKS` pieces."""

    code: Final = SpanCode.DOCREADER_UNREADABLE

    def __init__(self, chars: int) -> None:
        super().__init__(
            f"The text ({chars:,} characters) gives more than {MAX_CHUNKS:,} pieces: split the document into smaller files"
        )


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows of a table, from `start` to `end`, and the lines above them that name its columns."""

    columns: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TextChunk:
    """One piece: `text[start:end]` of the whole below the `columns` of the table in which it begins, and the
    headings it stands under, outermost first.
    """

    index: int
    text: str
    start: int
    end: int
    heading: tuple[str, ...]
    columns: str = ""

    def context(self) -> str:
        """What to embed: the headings that the piece does not show itself, then its words without their marks."""
        return context(self.text, self.heading)


def context(text: str, heading: Sequence[str]) -> str:
    """What is embedded of a piece: see `TextChunk.context`."""
    words = "\n".join(plain(line) for line in text.splitlines() if _WORD.search(line))
    above = " › ".join(title for title in heading if title not in words)
    return f"{above}\n{words}" if above else words


def split(text: str, *, size: int = SIZE, overlap: int = OVERLAP) -> tuple[TextChunk, ...]:
    """Cut a Markdown or plain text into pieces of at most `size` characters, half as many more where a table has
    wide columns; white space at their ends is left out, and so is a piece without a letter or digit.

    Raises TooManyChunks.
    """
    if size < 1 or not 0 <= overlap < size:
        raise ValueError(f"A piece needs size > overlap >= 0, not size={size} and overlap={overlap}")
    titles = list(headings(text))
    starts = [line.start for line in titles]
    paths = _paths(text, titles)
    tables = _tables(text, size)
    begins, ends = [table.start for table in tables], [table.end for table in tables]
    chunks: list[TextChunk] = []
    for start, end in _blocks(text, starts):
        within = tables[bisect_right(ends, start) : bisect_left(begins, end)]
        for offset, piece in _pieces(text[start:end], size, overlap, within):
            if not (said := _SAYS.search(piece)):
                continue
            if len(chunks) == MAX_CHUNKS:
                raise TooManyChunks(len(text))
            at = start + offset
            heading = paths[bisect_right(starts, at + said.start())]
            columns = next((table.columns for table in within if table.start <= at < table.end), "")
            chunks.append(TextChunk(len(chunks), columns + piece, at, at + len(piece), heading, columns))
    return tuple(chunks)


def _tables(text: str, size: int) -> list[_Table]:
    found = (_Table(match[1], match.end(1), match.end()) for match in _TABLE.finditer(text))
    return [table for table in found if len(table.columns) <= size]


def _pieces(block: str, size: int, overlap: int, tables: Sequence[_Table]) -> list[tuple[int, str]]:
    from semantic_text_splitter import MarkdownSplitter

    shrink = 1 - DENSE_SHRINK * len(_DENSE.findall(block)) / max(1, len(block))
    capacity = max(1, round(size * shrink))
    repeated = (len(t.columns) for t in tables if len(t.columns) + t.end - t.start > capacity)
    capacity -= min(max(repeated, default=0), capacity // 2)
    pieces: list[tuple[int, str]] = MarkdownSplitter(
        capacity, min(round(overlap * shrink), capacity - 1)
    ).chunk_indices(block)
    return pieces


def _blocks(text: str, titles: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Cut a long text in front of a heading, or else at the best break; no block is longer than `BLOCK`."""
    start = 0
    while len(text) - start > BLOCK:
        nearest = titles[bisect_right(titles, start + BLOCK) - 1] if titles else 0
        end = nearest if nearest > start + BLOCK // 2 else _best_break(text, start, start + BLOCK)
        yield start, end
        start = end
    yield start, len(text)


def _best_break(text: str, start: int, end: int) -> int:
    for mark in _BREAKS:
        at = text.rfind(mark, (start + end) // 2, end)
        if at >= 0:
            return at + len(mark)
    return start + UNBROKEN


def _paths(text: str, titles: Sequence[Line]) -> list[tuple[str, ...]]:
    """The heading path in front of the first heading, and from each heading on.

    A heading with nothing but a deeper one below it has the path of that one: what is said stands under both.
    """
    paths: list[tuple[str, ...]] = [()]
    above: list[Line] = []
    for line in titles:
        above = [outer for outer in above if outer.level < line.level] + [line]
        paths.append(tuple(outer.text for outer in above))
    for at in range(len(titles) - 2, -1, -1):
        line, below = titles[at], titles[at + 1]
        body = text[line.start : below.start].partition("\n")[2]
        if below.level > line.level and not body.strip():
            paths[at + 1] = paths[at + 2]
    return paths
