"""The rows that both backends have: throughput, latency, delayed starts, idling, and the time until a killed worker's job
runs elsewhere. The environment says which backend, so that it is the same in the processes that a row starts.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.measure import Hold, Noop, Slow, percentile, report, spread
from consumers.commands.worker import new_loop
from contracts.topology import POOLS
from pipeline import Context, Enqueue, Pipeline, on
from pipeline.clock import now_ms
from pipeline.handlers import Handler
from pipeline.worker.garbage import relax

SLOTS: Final = 50
JOBS: Final = 20_000
PRODUCED: Final = 100


def in_loop(measure: Coroutine[Any, Any, None]) -> None:
    """Run as workers do: in their loop, with their garbage collection."""
    relax()
    with asyncio.Runner(loop_factory=new_loop()) as runner:
        runner.run(measure)


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


@dataclass(frozen=True)
class Rates:
    """Jobs a second, and processor seconds a processed job in the worker's process."""

    singly: float
    in_batches: float
    processed: float
    spent: float


async def throughput(folder: Path, *, jobs: int = JOBS, slots: int = SLOTS) -> Rates:
    """Enqueue from a hundred callers and in batches, then process all in this process."""
    finished = 0

    async def noop(_job: Noop, _ctx: Context) -> None:
        nonlocal finished
        finished += 1

    async with opened(folder, pool_core_concurrency=slots) as pipeline:
        singles = iter(range(jobs // 4))

        async def caller() -> None:
            for n in singles:
                await pipeline.enqueue(Noop(n=n))

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(100)))
        singly = jobs / 4 / (time.perf_counter() - began)
        batches = [[Noop(n=n) for n in range(first, first + 100)] for first in range(0, jobs * 3 // 4, 100)]
        began = time.perf_counter()
        for batch in batches:
            await pipeline.enqueue_many(batch)
        in_batches = jobs * 3 / 4 / (time.perf_counter() - began)
        began, cpu = time.perf_counter(), time.process_time()
        async with working(pipeline, on(Noop, noop)):
            await until(lambda: finished >= jobs)
            took, spent = time.perf_counter() - began, time.process_time() - cpu
    return Rates(singly, in_batches, jobs / took, spent / jobs)


async def idle_start(folder: Path, *, p50_ms: float | None, p99_ms: float) -> None:
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
        report_starts("this process", [started[n] - asked[n] for n in asked], p50_ms, p99_ms)
        started.clear()
        producer = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.rows", "produce", folder)
        await producer.wait()
        await until(lambda: len(started) == PRODUCED)
    report_starts("another process", [started[n] - sent(folder, n) for n in started], p50_ms, p99_ms)


def report_starts(where: str, waits: list[float], p50_ms: float | None, p99_ms: float) -> None:
    budget, ratio = f"p99 <= {p99_ms:g} ms", p99_ms / 1000 / percentile(waits, 0.99)
    if p50_ms is not None:
        budget = f"p50 <= {p50_ms:g}, {budget}"
        ratio = min(ratio, p50_ms / 1000 / percentile(waits, 0.5))
    report(f"enqueue to start, idle, from {where}", spread(waits), budget, ratio)


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


async def kill_to_elsewhere(folder: Path, kills: int, *, waiting: int = 0) -> None:
    """Kill the worker that runs a job; measure until another one starts it, ahead of so many that wait. The lease is the
    default one.
    """
    waits: list[float] = []
    diary = folder / "diary"
    diary.touch()
    workers = [start_worker(folder) for _ in range(2)]
    try:
        async with opened(folder) as pipeline:
            await pipeline.enqueue_many([Slow(n=n) for n in range(waiting)])
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
        f"kill -9 to running elsewhere, {waiting:,} waiting",
        spread(waits),
        "p99 <= 10 s",
        10 / percentile(waits, 0.99),
    )


def note(diary: Path, value: float) -> None:
    with diary.open("a") as file:
        file.write(f"{value}\n")


def start_worker(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.rows", "work", str(folder)])


async def work(folder: Path) -> None:
    """A worker process for `kill_to_elsewhere`."""

    async def hold(job: Hold, ctx: Context) -> None:
        note(Path(job.diary), os.getpid())
        if ctx.job.crashes == 0:
            await asyncio.sleep(60)

    async def slow(_job: Slow, _ctx: Context) -> None:
        await asyncio.sleep(0.05)

    async with opened(folder) as pipeline:
        handlers = [on(Hold, hold), on(Slow, slow)]
        await pipeline.serve(
            pools=["core"], handlers=handlers, only={one.payload.spec.type for one in handlers}
        )


if __name__ == "__main__":
    in_loop({"work": work, "produce": produce}[sys.argv[1]](Path(sys.argv[2])))
