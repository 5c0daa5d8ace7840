"""Redis against its budgets, beside a bare loop and, with `--peers FOLDER`, beside other job systems. `--long` adds the
trends with depth, slots and processes. Starts its own server.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from bench.looks import cancel_many, looks
from bench.measure import Noop, Scoped, report, report_header
from bench.rows import (
    JOBS,
    SLOTS,
    Rates,
    delayed_start,
    idle,
    idle_start,
    in_loop,
    kill_to_elsewhere,
    opened,
    throughput,
    until,
    working,
)  # fmt: skip
from bench.server import redis_server
from contracts.jobs import JobPayload
from pipeline import Context, Pipeline, on
from pipeline.backends.redis.scripts import FOLDER, script

ROUNDS: Final = 3
BARE_SHARE: Final = 0.25
PEER_FACTOR: Final = 6
DEPTHS: Final = (1_000, 100_000, 1_000_000)
SLOTS_TRIED: Final = (1, 10, 50, 200)


def url() -> str:
    return os.environ["STREAMLANE_REDIS_URL"]


async def flush() -> None:
    async with Redis.from_url(url()) as client:
        await client.flushall()


async def fill(
    pipeline: Pipeline, number: int, made: Callable[[int], JobPayload] = lambda n: Noop(n=n)
) -> None:
    """Enqueue so many (whole thousands), a thousand at a time."""
    for first in range(0, number, 1000):
        await pipeline.enqueue_many([made(n) for n in range(first, first + 1000)])


async def bare_loop() -> float:
    """Entries a second through XREADGROUP, XACK and XDEL in batches of 50."""
    client: Any
    async with Redis.from_url(url()) as client:
        await client.flushall()
        pipe = client.pipeline(transaction=False)
        for _ in range(JOBS):
            pipe.xadd("bare", {"id": "x" * 36, "type": "bench:noop", "data": "x" * 270, "opts": "{}"})
        await pipe.execute()
        await client.xgroup_create("bare", "g", "0")
        began = time.perf_counter()
        while found := await client.xreadgroup("g", "c", {"bare": ">"}, count=50):
            ids = [entry for entry, _ in found[0][1]]
            pipe = client.pipeline(transaction=False)
            pipe.xack("bare", "g", *ids)
            pipe.xdel("bare", *ids)
            await pipe.execute()
        return JOBS / (time.perf_counter() - began)


async def rates(folder: Path, peers: Path | None) -> None:
    """The best of three rounds, of the bare loop as of ours."""
    bare, tried = 0.0, []
    for _ in range(ROUNDS):
        bare = max(bare, await bare_loop())
        await flush()
        tried.append(await throughput(folder))
    found = Rates(
        max(one.singly for one in tried), max(one.in_batches for one in tried),
        max(one.processed for one in tried), min(one.spent for one in tried),
    )  # fmt: skip
    report("enqueue, 100 callers", f"{found.singly:,.0f}/s", ">= 20,000/s", found.singly / 20_000)
    report("enqueue, batches of 100", f"{found.in_batches:,.0f}/s", ">= 40,000/s", found.in_batches / 40_000)
    share = found.processed / bare
    report(
        f"process no-op jobs, {SLOTS} slots", f"{found.processed:,.0f}/s of {bare:,.0f}/s bare",
        f">= {BARE_SHARE} of bare", share / BARE_SHARE,
    )  # fmt: skip
    report("… processor time a job", f"{found.spent * 1e6:.0f} µs", "", None)
    if peers is not None:
        beside(peers, found)


def beside(peers: Path, ours: Rates) -> None:
    """The peers on the same server, one after another."""
    command = [str(peers / "run"), url(), "10000", str(SLOTS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for one in results:
        found = f"{one.get('process_per_s', 0):,}/s, starts p50 {one.get('latency_p50_ms')} ms"
        report(f"peer {one['name']}", found, "", None)
    best = max(
        (one["process_per_s"] for one in results if one["name"] != "faststream" and "process_per_s" in one),
        default=0,
    )
    if best:
        factor = ours.processed / best
        report(
            "… ours beside the best of them",
            f"{factor:.1f} times",
            f">= {PEER_FACTOR} times",
            factor / PEER_FACTOR,
        )


async def starts(folder: Path) -> None:
    await idle_start(folder, p50_ms=1.5, p99_ms=5)


async def idle_commands(folder: Path) -> None:
    """Commands and processor time of a process with all pools and nothing to do."""
    async with Redis.from_url(url()) as client:
        counted = asyncio.create_task(idle(folder))
        await asyncio.sleep(5)
        before = await sent(client)
        await asyncio.sleep(15)
        after = await sent(client)
        await counted
    rate = (after - before) / 15
    report("… commands sent", f"{rate:.1f}/s", "<= 20/s", 20 / max(rate, 0.01))


async def sent(client: Any) -> int:
    """How many commands clients have sent, the bench aside; what a script calls is counted by the server, too."""
    stats = await client.info("commandstats")
    return sum(
        stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval", "xread", "ping")
    )


async def cancel_scope(folder: Path) -> None:
    """Cancel the hundred jobs of one scope among a hundred thousand."""
    async with opened(folder) as pipeline:
        await fill(pipeline, 100_000, lambda n: Scoped(n=n, tenant_id=n % 1000, knowledge_id=f"k{n % 1000}"))
        began = time.perf_counter()
        done = await pipeline.inspector.cancel_scope("tenant", "7")
        took = time.perf_counter() - began
    report(
        f"cancel {len(done.cancelled)} jobs of a scope in 100,000",
        f"{took * 1000:.1f} ms",
        "<= 50 ms",
        0.05 / took,
    )


async def memory(folder: Path) -> None:
    """What a pending job with two scopes takes beside its payload."""
    number = 25_000

    def scoped(n: int) -> Scoped:
        return Scoped(n=n, tenant_id=n % 100, knowledge_id=f"0f8fad5b-d9cb-469f-a165-{n:012}")

    async with opened(folder) as pipeline, Redis.from_url(url()) as client:
        await client.flushall()
        before = (await client.info("memory"))["used_memory"]
        await fill(pipeline, number, scoped)
        after = (await client.info("memory"))["used_memory"]
    each = (after - before) / number - len(scoped(number).encode())
    report("a pending job with two scopes", f"payload + {each:.0f} bytes", "<= payload + 800", 800 / each)


async def stale(folder: Path) -> None:
    """How long until ten thousand deliveries of a lost worker wait again, once their lease has ended."""
    number = 10_000
    async with opened(folder, lease_s=2.0) as pipeline:
        await fill(pipeline, number)
        for _ in range(0, number, 200):
            await pipeline.broker.claim("lost/core", [("default", 200)])
        await asyncio.sleep(2)
        began = time.perf_counter()
        async with working(pipeline, pools=("core",)):
            while (await pipeline.inspector.queues())[0].active:  # noqa: ASYNC110 - the look itself is the question
                await asyncio.sleep(0.1)
        took = time.perf_counter() - began
    report("10,000 stale deliveries recovered", f"{took:.1f} s, lease 2 s", "<= 10 s", 10 / took)


async def longest_script(_folder: Path) -> None:
    async with Redis.from_url(url()) as client:
        slow = [one for one in await client.slowlog_get(10_000) if b"EVAL" in one["command"]]
    longest = max((one["duration"] for one in slow), default=0) / 1000
    report(
        "longest script of this run",
        f"{longest:.1f} ms, {len(slow)} over 2 ms",
        "<= 5 ms",
        5 / max(longest, 0.01),
    )
    digests = {script(path.stem).digest: path.stem for path in FOLDER.glob("*.lua")}
    names = Counter(digests.get(one["command"].split()[1].decode(), "new to the server") for one in slow)
    for name, number in names.most_common():
        report(f"… {name}", f"{number} over 2 ms", "", None)


async def trends(folder: Path) -> None:
    """Throughput with depth, with slots and with processes."""
    first = 0.0
    for depth in DEPTHS:
        await flush()
        rate = await at_depth(folder, depth)
        first = first or rate
        budget = ">= 0.9 of the first" if depth == DEPTHS[-1] else ""
        report(
            f"process with {depth:,} waiting",
            f"{rate:,.0f}/s",
            budget,
            rate / first / 0.9 if budget else None,
        )
    for slots in SLOTS_TRIED:
        await flush()
        found = await throughput(folder, slots=slots)
        report(f"process with {slots} slots", f"{found.processed:,.0f}/s", "", None)
    for processes in (1, 2):
        await flush()
        rate = await with_processes(folder, processes)
        report(f"process with {processes} worker processes", f"{rate:,.0f}/s", "", None)


async def at_depth(folder: Path, depth: int) -> float:
    """Jobs a second while so many wait: the first ten thousand, or rounds of all where there are fewer."""
    finished, took = 0, 0.0

    async def noop(_job: Noop, _ctx: Context) -> None:
        nonlocal finished
        finished += 1

    async with opened(folder, pool_core_concurrency=SLOTS) as pipeline:
        counted = min(depth, 10_000)
        async with working(pipeline, on(Noop, noop)):
            for _ in range(10_000 // counted):
                await pipeline.inspector.pause("default")
                await fill(pipeline, depth)
                goal, began = finished + counted, time.perf_counter()
                await pipeline.inspector.resume("default")
                await until(lambda: finished >= goal)  # noqa: B023 - it ends within the round
                took += time.perf_counter() - began
            return finished / took


async def with_processes(folder: Path, processes: int) -> float:
    """Jobs a second through so many processes of 50 slots."""
    number = 40_000
    async with opened(folder) as pipeline:
        await fill(pipeline, number)
        workers = [start_worker(folder) for _ in range(processes)]
        try:
            left = number
            while left > number * 0.95:
                left = (await pipeline.inspector.queues())[0].size
                await asyncio.sleep(0.05)
            began, start = time.perf_counter(), left
            while left > number * 0.1:
                left = (await pipeline.inspector.queues())[0].size
                await asyncio.sleep(0.05)
            return (start - left) / (time.perf_counter() - began)
        finally:
            for one in workers:
                one.kill()
                one.wait()


def start_worker(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "bench.redis", "--work", str(folder)])


async def work(folder: Path) -> None:
    async def noop(_job: Noop, _ctx: Context) -> None: ...

    async with opened(folder, pool_core_concurrency=SLOTS) as pipeline:
        await pipeline.serve(pools=["core"], handlers=[on(Noop, noop)], only={Noop.spec.type})


def run(measure: Callable[[Path], Coroutine[Any, Any, None]]) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        in_loop(flush())
        in_loop(measure(Path(folder)))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench redis")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--long", action="store_true")
    asked = parser.parse_args(arguments)
    report_header()
    with redis_server("--slowlog-log-slower-than", "2000", "--slowlog-max-len", "10000") as address:
        os.environ["STREAMLANE_REDIS_URL"] = address
        run(lambda folder: rates(folder, asked.peers))
        for measure in (
            starts,
            delayed_start,
            idle_commands,
            cancel_scope,
            looks,
            cancel_many,
            memory,
            stale,
        ):
            run(measure)
        run(lambda folder: kill_to_elsewhere(folder, asked.kills))
        run(lambda folder: kill_to_elsewhere(folder, 2, waiting=10_000))
        if asked.long:
            run(trends)
        run(longest_script)


if __name__ == "__main__" and sys.argv[1:2] == ["--work"]:
    in_loop(work(Path(sys.argv[2])))
