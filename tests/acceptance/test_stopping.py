"""Commands that are told to stop, again and again, at any moment of their lives: they end in order all the same."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commands import start_streamlane
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

DONE, INTERRUPTED = 0, 130
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def command(*args: str) -> subprocess.Popen[bytes]:
        talks = {"STREAMLANE_LOG_LEVEL": "info"}
        process = start_streamlane(*args, data_dir=tmp_path / "data", log=tmp_path / "log", env=talks)
        started.append(process)
        return process

    yield command
    for process in started:
        process.kill()
        process.wait()


async def ended(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """The exit code of a process that is sent a signal with every look whether it has ended."""

    def told() -> bool:
        process.send_signal(number)
        return process.poll() is not None

    await wait_until(told, describe="the command ends", timeout=60)
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc for what a process has loaded")
async def test_a_command_ends_in_order_while_it_loads_its_modules(
    tmp_path: Path, start: Start, number: signal.Signals
) -> None:
    process = start("worker", "background")
    maps = Path(f"/proc/{process.pid}/maps")
    await wait_until(lambda: "pydantic_core" in maps.read_text(), describe="it loads", timeout=60)
    assert await ended(process, number) == INTERRUPTED
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_command_ends_in_order_while_it_opens_its_files(
    tmp_path: Path, start: Start, number: signal.Signals
) -> None:
    process = start("worker", "background")
    await wait_until((tmp_path / "data").exists, describe="it opens its files", timeout=60)
    assert await ended(process, number) in {DONE, INTERRUPTED}
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_worker_ends_in_order_while_it_drains(
    tmp_path: Path, start: Start, number: signal.Signals
) -> None:
    process = start("worker", "background")
    log = tmp_path / "log"
    await wait_until(lambda: "pool starting" in log.read_text(), describe="it works", timeout=60)
    assert await ended(process, number) in {DONE, INTERRUPTED}
    assert "Traceback" not in log.read_text()


async def test_a_worker_says_what_it_works_on_and_that_it_has_stopped(tmp_path: Path, start: Start) -> None:
    process = start("worker", "interactive", "core", "shared")
    log = tmp_path / "log"
    await wait_until(lambda: log.read_text().count("pool starting") == 2, describe="it works", timeout=60)
    first = log.read_text().splitlines()[0]
    assert "works on interactive core shared, pools with slots: core (8), shared (6);" in first
    assert "the jobs of interactive wait, as nothing handles them yet;" in first
    assert f"the data lies in {tmp_path / 'data'}; stop with Ctrl-C" in first
    process.send_signal(signal.SIGINT)
    await wait_until(lambda: process.poll() is not None, describe="the command ends", timeout=60)
    assert process.returncode == DONE
    assert "no pool given here" not in log.read_text()
    assert (
        log.read_text().splitlines()[-1]
        == "streamlane: has stopped; what was not done is kept and runs again"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_ingest_ends_in_order_while_its_jobs_run(
    tmp_path: Path, start: Start, number: signal.Signals
) -> None:
    (tmp_path / "long.txt").write_text(
        "\n\n".join(f"Order {n} went to customer {n * 7}." for n in range(20_000))
    )
    process = start("ingest", str(tmp_path / "long.txt"))

    def active() -> int:
        with closing(sqlite3.connect(tmp_path / "data" / "queue.db", timeout=10)) as queue:
            return int(queue.execute("SELECT count(*) FROM jobs WHERE state = 'active'").fetchone()[0])

    def running() -> bool:
        return (tmp_path / "data" / "files" / "originals").exists() and active() > 0

    await wait_until(running, describe="a job runs", timeout=60)
    assert await ended(process, number) == INTERRUPTED
    assert "Traceback" not in (tmp_path / "log").read_text()
    assert active() == 0
