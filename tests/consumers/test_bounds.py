"""What very long documents get only in part, and that it is said."""

import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from consumers.knowledge import bounds
from consumers.knowledge.bounds import MOST_GRAPHED, MOST_ROWS, embedded, graphed, spread
from consumers.knowledge.reading.chunking import TextChunk
from contracts.knowledge import ParseStatus

from tests.support.platform import ingest, write


def piece(at: int, columns: str = "") -> TextChunk:
    return TextChunk(at, columns + "words", at, at + 1, (), columns)


def test_a_document_of_ordinary_length_gets_everything() -> None:
    rows = [piece(at, "| name |\n| --- |\n") for at in range(MOST_ROWS)]
    text = [piece(at) for at in range(3 * MOST_ROWS)]
    assert embedded([*text, *rows]) == (list(range(4 * MOST_ROWS)), [])
    assert graphed(["words"] * MOST_GRAPHED) == (list(range(MOST_GRAPHED)), [])


def test_of_a_long_table_evenly_spread_pieces_get_a_vector_and_all_of_the_text_around_it() -> None:
    chunks = [piece(at, "" if at in {0, 9_999} else "| name |\n| --- |\n") for at in range(10_000)]
    positions, said = embedded(chunks)
    assert {0, 9_999} <= set(positions)
    assert len(positions) == MOST_ROWS + 2
    gaps = {after - before for before, after in pairwise(positions)}
    assert gaps <= {1, 19, 20}
    assert said == [
        f"it is long: {MOST_ROWS + 2} of its 10,000 pieces, evenly spread, are found by their meaning too, not only by their words"
    ]


def test_the_graph_of_a_long_text_is_read_from_evenly_spread_pieces() -> None:
    positions, said = graphed(["words"] * (3 * MOST_GRAPHED))
    assert positions == list(range(0, 3 * MOST_GRAPHED, 3))
    assert "add to the graph" in said[0]


@pytest.mark.parametrize(("count", "most"), [(0, 3), (1, 3), (3, 3), (4, 3), (1000, 7)])
def test_positions_are_spread_over_the_whole_and_each_is_there_once(count: int, most: int) -> None:
    found = list(spread(count, most))
    assert len(set(found)) == min(count, most)
    assert all(0 <= at < count for at in found)


async def test_a_long_table_is_found_by_all_its_words_and_says_what_it_did_not_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_ROWS", 3)
    lines = [f"{n},Customer{n} Berlin,The order number {n} was shipped to Berlin" for n in range(200)]
    (outcome,) = await ingest(*write(tmp_path, big_csv="\n".join(["id,name,comment", *lines])))
    assert outcome.fate.status is ParseStatus.COMPLETED
    assert [warning.partition("spread, ")[2][:9] for warning in outcome.fate.warnings] == [
        "are found",
        "add to th",
    ]
    with closing(sqlite3.connect(tmp_path / "data" / "streamlane.db")) as sql:
        entries = sql.execute(
            "SELECT count(*), count(vector) FROM search_entries e LEFT JOIN search_vectors v ON v.id = e.id"
            " WHERE kind = 'text'"
        ).fetchone()
        words = sql.execute("SELECT count(*) FROM search_words WHERE words MATCH 'customer199'").fetchone()
        graph = sql.execute("SELECT count(DISTINCT chunk_id) FROM entity_mentions").fetchone()
    assert entries == (outcome.fate.chunks, 4)
    assert outcome.fate.chunks > 10
    assert words == (1,)
    assert 0 < graph[0] <= 4
