"""Every statement is used, and finds what it needs by an index."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest
from pipeline.backends import lite
from pipeline.backends.lite.connection import connect, prepare
from pipeline.backends.lite.statements import sql

FOLDER = Path(str(files(lite)))
STATEMENTS = sorted(path.stem for path in (FOLDER / "queries").glob("*.sql"))

# What has no more rows than there are queues or workers may be read whole, and so may the results of other steps.
SMALL = re.compile(r"(paused|stats|workers|json_each|ids)\b|\(subquery-")
ACTIVE = "jobs USING INDEX jobs_active"  # as many as there are slots
COUNTING = re.compile("jobs USING COVERING INDEX jobs_(pending|waiting|ended)$")


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "queue.db"
    with closing(connect(path, busy_s=1)) as opened:
        prepare(opened, path)
        yield opened


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    text = sql(statement)
    numbers = re.findall(r"\?(\d*)", text)
    named: defaultdict[str, None] = defaultdict(lambda: None)
    positional = [None] * (len(numbers) if "" in numbers else len(set(numbers)))
    steps = connection.execute(f"EXPLAIN QUERY PLAN {text}", positional or named)
    return [row["detail"] for row in steps]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_statement_reads_a_whole_table(connection: sqlite3.Connection, statement: str) -> None:
    scans = [step.removeprefix("SCAN ") for step in plan(connection, statement) if step.startswith("SCAN ")]
    whole = [one for one in scans if one != ACTIVE and not SMALL.match(one)]
    if statement == "count_jobs":
        assert len(whole) == sum(COUNTING.match(one) is not None for one in whole) == 3
    else:
        assert whole == []


@pytest.mark.parametrize(
    "statement", ["select_pending", "select_due", *(name for name in STATEMENTS if name.startswith("list_"))]
)
def test_pages_and_heads_come_in_the_order_of_an_index(
    connection: sqlite3.Connection, statement: str
) -> None:
    assert [step for step in plan(connection, statement) if "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("statement", STATEMENTS)
def test_every_statement_is_used(statement: str) -> None:
    assert any(f'"{statement}"' in module.read_text("utf-8") for module in FOLDER.glob("*.py"))


def test_an_unknown_statement_is_a_bug_that_shows_at_once() -> None:
    with pytest.raises(FileNotFoundError):
        sql("select_nothing")
