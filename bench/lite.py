"""Lite against its budgets. The argument is how often a worker is killed."""

import os
import sqlite3
import tempfile
import time
from pathlib import Path

from bench.looks import cancel_many, looks
from bench.measure import report, report_header
from bench.rows import JOBS, SLOTS, delayed_start, idle, idle_start, in_loop, kill_to_elsewhere, throughput


async def rates(folder: Path) -> None:
    """What goes through, beside the least that could be called a queue."""
    found = await throughput(folder)
    bare = bare_loop(folder / "bare.db")
    report("enqueue, 100 callers", f"{found.singly:,.0f}/s", "", None)
    report("enqueue, batches of 100", f"{found.in_batches:,.0f}/s", "", None)
    report(
        f"process no-op jobs, {SLOTS} slots",
        f"{found.processed:,.0f}/s",
        ">= 5,000/s",
        found.processed / 5000,
    )
    report("… of a bare SQLite loop in batches", f"{found.processed / bare:.2f} of {bare:,.0f}/s", "", None)
    report("… processor time a job", f"{found.spent * 1e6:.0f} µs", "", None)


def bare_loop(path: Path) -> float:
    """Rows a second through the least that could be called a queue: mark fifty, commit, delete them, commit."""
    with sqlite3.connect(path, isolation_level=None) as file:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        file.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, data TEXT)")
        file.execute("CREATE INDEX waiting ON jobs (state, id)")
        file.execute("BEGIN")
        file.executemany("INSERT INTO jobs (state, data) VALUES ('pending', ?)", [("x" * 350,)] * JOBS)
        file.execute("COMMIT")
        began = time.perf_counter()
        for _ in range(0, JOBS, SLOTS):
            rows = file.execute(
                "UPDATE jobs SET state = 'active' WHERE id IN (SELECT id FROM jobs WHERE state = 'pending'"
                " ORDER BY id LIMIT ?) RETURNING id, data",
                (SLOTS,),
            ).fetchall()
            file.execute("BEGIN")
            file.executemany("DELETE FROM jobs WHERE id = ?", [(row[0],) for row in rows])
            file.execute("COMMIT")
        took = time.perf_counter() - began
    file.close()
    return JOBS / took


async def starts(folder: Path) -> None:
    await idle_start(folder, p50_ms=None, p99_ms=50)


def main(arguments: list[str]) -> None:
    kills = int(arguments[0]) if arguments else 5
    os.environ.pop("STREAMLANE_REDIS_URL", None)
    report_header()
    for measure in (rates, starts, delayed_start, looks, cancel_many, idle):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            in_loop(measure(Path(folder)))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        in_loop(kill_to_elsewhere(Path(folder), kills))
