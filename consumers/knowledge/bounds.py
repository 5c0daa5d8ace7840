"""What a very long document gets only in part, so that one file does not hold up all others; what is left out is said.

Rows of a long table are much alike, and one of them is asked for by its words: they are bounded more tightly than text.
"""

from collections.abc import Sequence
from typing import Final

from consumers.knowledge.reading.chunking import TextChunk

MOST_ROWS: Final = 500  # pieces of table rows that get vectors, and that the graph is read from
MOST_GRAPHED: Final = 2_000  # pieces that the graph is read from, of whatever kind


def embedded(chunks: Sequence[TextChunk]) -> tuple[list[int], list[str]]:
    """The positions of the pieces to embed, and what to say of the others."""
    positions = _few_rows([bool(chunk.columns) for chunk in chunks])
    return positions, _said(
        len(positions), len(chunks), "are found by their meaning too, not only by their words"
    )


def graphed(texts: Sequence[str]) -> tuple[list[int], list[str]]:
    """The positions of the pieces that the graph is read from, and what to say of the others."""
    positions = _few_rows([text.startswith("|") for text in texts])
    positions = [positions[at] for at in spread(len(positions), MOST_GRAPHED)]
    return positions, _said(len(positions), len(texts), "add to the graph")


def spread(count: int, most: int) -> Sequence[int]:
    """Every position below `count`, or `most` evenly spread ones."""
    return range(count) if count <= most else [at * count // most for at in range(most)]


def _few_rows(is_row: Sequence[bool]) -> list[int]:
    rows = [at for at, row in enumerate(is_row) if row]
    few = {rows[at] for at in spread(len(rows), MOST_ROWS)}
    return [at for at, row in enumerate(is_row) if not row or at in few]


def _said(kept: int, count: int, what: str) -> list[str]:
    return [] if kept == count else [f"it is long: {kept:,} of its {count:,} pieces, evenly spread, {what}"]
