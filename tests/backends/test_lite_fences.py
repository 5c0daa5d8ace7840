"""How a coverage is kept in rows."""

import pytest
from contracts.fences import EVERYTHING, Coverage
from pipeline.backends.lite.fences import covers, encode

TYPES = ["document:process", "kb:delete", "index:delete", "x"]


@pytest.mark.parametrize(
    "coverage",
    [
        EVERYTHING,
        Coverage(only=frozenset({"x"})),
        Coverage(only=frozenset({"x", "kb:delete"})),
        Coverage(only=frozenset()),
        Coverage(excluding=frozenset({"kb:delete"})),
        Coverage(excluding=frozenset({"kb:delete", "index:delete"})),
    ],
    ids=["everything", "one", "two", "none", "all but one", "all but two"],
)
def test_rows_cover_what_the_coverage_covers(coverage: Coverage) -> None:
    rows = encode(coverage)
    assert [t for t in TYPES if any(covers(row, t) for row in rows)] == [
        t for t in TYPES if coverage.covers(t)
    ]


def test_equal_coverages_are_equal_rows_so_that_they_merge() -> None:
    assert encode(Coverage(excluding=frozenset({"b", "a"}))) == encode(
        Coverage(excluding=frozenset({"a", "b"}))
    )
