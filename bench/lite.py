"""Lite against its budgets: throughput, latency, delayed starts, idling, and the time until a killed worker's job
runs elsewhere. `kills` in the arguments takes the last one's repetitions.
"""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.measure import Hold, Noop, percentile, report, report_header, spread
from contracts.topology import POOLS
from pipeline import Context, Enqueue, Pipeline, on
from pipeline.clock import now_ms
from pipeline.handlers import Handler

SLOTS: Final = 50
JOBS: Final = 20_000
PRODUCED: Final = 100


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Pipeline]:
    async with Pipeline.open(data_dir=folder, log_level="error", **settings) as pipeline:
        yield pipeline


@asynccontextmanager
async def working(
    pipeline: Pipeline, *handlers: Handler, pools: tuple[str, ...] = ("core",)
) -> AsyncIterator[None]:
    only = {handler.payload.spec.type for handler in handlers}
    async with pipeline.workers(pools=pools, handlers=handlers, only=only):
        yield


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not done():  # noqa: ASYNC110 - the look itself is what is cheap
            await asyncio.sleep(0.002)


async def throughput(folder: Path) -> None:
    """Enqueue alone and in batches, then process all, in one process."""
    finished = 0

    async def noop(_job: Noop, _ctx: Context) -> None:
        nonlocal finished
        finished += 1

    async with opened(folder, pool_core_concurrency=SLOTS) as pipeline:
        singles = iter(range(JOBS // 4))

        async def caller() -> None:
            for n in singles:
                await pipeline.enqueue(Noop(n=n))

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(100)))
        rate = JOBS / 4 / (time.perf_counter() - began)
        report("enqueue, 100 callers", f"{rate:,.0f}/s", "", None)
        began = time.perf_counter()
        for first in range(0, JOBS * 3 // 4, 100):
            await pipeline.enqueue_many([Noop(n=n) for n in range(first, first + 100)])
        rate = JOBS * 3 / 4 / (time.perf_counter() - began)
        report("enqueue, batches of 100", f"{rate:,.0f}/s", "", None)

        began, cpu = time.perf_counter(), time.process_time()
        async with working(pipeline, on(Noop, noop)):
            await until(lambda: finished == JOBS)
            took, spent = time.perf_counter() - began, time.process_time() - cpu
    bare = bare_loop(folder / "bare.db")
    rate = JOBS / took
    report(f"process no-op jobs, {SLOTS} slots", f"{rate:,.0f}/s", ">= 5,000/s", rate / 5000)
    report("… of a bare SQLite loop in batches", f"{rate / bare:.2f} of {bare:,.0f}/s", "", None)
    report("… processor time a job", f"{spent / JOBS * 1e6:.0f} µs", "", None)


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


async def idle_start(folder: Path) -> None:
    """From the call of enqueue to the first line of the handler, one job at a time."""
    asked: dict[int, float] = {}
    started: dict[int, float] = {}

    async def noop(job: Noop, _ctx: Context) -> None:
        started[job.n] = time.perf_counter()

    async with opened(folder) as pipeline, working(pipeline, on(Noop, noop)):
        for n in range(200):
            asked[n] = time.perf_counter()
            await pipeline.enqueue(Noop(n=n))
            await until(lambda: len(started) == len(asked))
            await asyncio.sleep(0.01)
        report_starts("this process", [started[n] - asked[n] for n in asked])
        started.clear()
        producer = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.lite", "produce", folder)
        await producer.wait()
        await until(lambda: len(started) == PRODUCED)
    report_starts("another process", [started[n] - sent(folder, n) for n in started])


def report_starts(where: str, waits: list[float]) -> None:
    ratio = 0.05 / percentile(waits, 0.99)
    report(f"enqueue to start, idle, from {where}", spread(waits), "p99 <= 50 ms", ratio)


def sent(folder: Path, n: int) -> float:
    return float((folder / "sent").read_text().splitlines()[n])


async def produce(folder: Path) -> None:
    """Enqueue a hundred jobs, one at a time, from a process without workers; the clock is the machine's."""
    async with opened(folder) as pipeline:
        for n in range(PRODUCED):
            note(folder / "sent", time.perf_counter())
            await pipeline.enqueue(Noop(n=n))
            await asyncio.sleep(0.02)


async def delayed_start(folder: Path) -> None:
    """How late delayed jobs start; some come while the promoter sleeps towards a later one."""
    started: dict[int, int] = {}

    async def noop(job: Noop, _ctx: Context) -> None:
        started[job.n] = now_ms()

    async with opened(folder) as pipeline, working(pipeline, on(Noop, noop)):
        due: dict[int, int] = {}
        for n in range(300):
            due[n] = now_ms() + 200 + n * 37 % 300 * 5
            await pipeline.enqueue(Noop(n=n), run_at=due[n])
            await asyncio.sleep(0.005)
        await until(lambda: len(started) == len(due))
    late = [(started[n] - due[n]) / 1000 for n in due]
    report("delayed start, error", spread(late), "p99 <= 50 ms", 0.05 / max(percentile(late, 0.99), 0.001))
    report("delayed start, too early", f"{sum(error < 0 for error in late)} of {len(late)}", "0", None)


async def idle(folder: Path) -> None:
    """The processor time of a process that has all pools and nothing to do."""
    async with opened(folder) as pipeline, working(pipeline, pools=tuple(POOLS)):
        await asyncio.sleep(3)
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(20)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
    report("idle, all pools", f"{share * 100:.2f} % of a core", "<= 1 %", 0.01 / share)


async def kill_to_elsewhere(folder: Path, kills: int) -> None:
    """Kill the worker that runs a job; measure until another one starts it. The lease is the default one."""
    waits: list[float] = []
    diary = folder / "diary"
    diary.touch()
    workers = [start_worker(folder) for _ in range(2)]
    try:
        async with opened(folder) as pipeline:
            for _ in range(kills):
                before = len(diary.read_text().splitlines())
                receipt = await pipeline.enqueue_many([Enqueue(Hold(diary=str(diary)), max_retry=0)])
                await until(lambda: len(diary.read_text().splitlines()) > before)  # noqa: B023
                victim = int(diary.read_text().splitlines()[-1])
                os.kill(victim, signal.SIGKILL)
                killed_at = time.perf_counter()
                workers = [one for one in workers if one.pid != victim or one.wait() is None]
                workers.append(start_worker(folder))
                await until(lambda: len(diary.read_text().splitlines()) > before + 1)  # noqa: B023
                waits.append(time.perf_counter() - killed_at)
                await pipeline.wait(receipt[0].id, timeout=30)
    finally:
        for one in workers:
            one.kill()
            one.wait()
    report(
        f"kill -9 to running elsewhere, {kills} kills",
        spread(waits),
        "p99 <= 10 s",
        10 / percentile(waits, 0.99),
    )


def note(diary: Path, value: float) -> None:
    with diary.open("a") as file:
        file.write(f"{value}\n")


def start_worker(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.lite", "work", str(folder)])


async def work(folder: Path) -> None:
    """A worker process for `kill_to_elsewhere`."""

    async def hold(job: Hold, ctx: Context) -> None:
        note(Path(job.diary), os.getpid())
        if ctx.job.crashes == 0:
            await asyncio.sleep(60)

    async with opened(folder) as pipeline:
        await pipeline.serve(pools=["core"], handlers=[on(Hold, hold)], only={Hold.spec.type})


def main(arguments: list[str]) -> None:
    if len(arguments) == 2 and arguments[0] in {"work", "produce"}:
        asyncio.run({"work": work, "produce": produce}[arguments[0]](Path(arguments[1])))
        return
    kills = int(arguments[0]) if arguments else 5
    report_header()
    for measure in (throughput, idle_start, delayed_start, idle):
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            asyncio.run(measure(Path(folder)))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        asyncio.run(kill_to_elsewhere(Path(folder), kills))


if __name__ == "__main__":
    main(sys.argv[1:])
