"""A worker in a process of its own, whose handlers do what their job says and write down what happens.

Run as a module: it serves the core pool until it is told to stop.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from contracts.jobs import JobPayload
from pipeline.handlers import Context, on
from pipeline.runtime import Pipeline

from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


class Act(JobPayload, type="support:act", queue="default", max_retry=3):
    """Do something for `seconds`: wait, block the event loop, or refuse to be cancelled."""

    way: Literal["wait", "block", "refuse"] = "wait"
    seconds: float = 0


@dataclass(frozen=True)
class Diary:
    """What handlers wrote down, in order: (event, job, process)."""

    path: Path

    def write(self, event: str, job: str) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps([event, job, os.getpid(), time.monotonic()]) + "\n")

    def lines(self) -> list[tuple[str, str, int, float]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [tuple(json.loads(line)) for line in text.splitlines()]

    def of(self, event: str, job: str) -> list[tuple[int, float]]:
        """The processes in which an event happened to a job, and when."""
        return [(pid, at) for what, which, pid, at in self.lines() if (what, which) == (event, job)]


async def act(job: Act, ctx: Context[Diary]) -> None:
    diary, ends = ctx.services, time.monotonic() + job.seconds
    diary.write("started", ctx.id)
    if job.way == "block":
        threading.Event().wait(job.seconds)
    while (left := ends - time.monotonic()) > 0:
        try:
            async with asyncio.timeout(left):
                await asyncio.Event().wait()
        except TimeoutError:
            break
        except asyncio.CancelledError:
            diary.write("cancelled", ctx.id)
            if job.way != "refuse":
                raise
    diary.write("ended", ctx.id)


class WorkerProcess:
    """A worker that a test may signal, freeze and kill."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def signal_all(self, number: signal.Signals) -> None:
        """As a terminal does: to the worker and its children."""
        os.killpg(self.pid, number)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def poll(self) -> int | None:
        return self._process.poll()

    async def ended(self, timeout: float = 15) -> int:
        """Its exit code, once it has ended."""
        await wait_until(
            lambda: self.poll() is not None, describe=f"process {self.pid} ends", timeout=timeout
        )
        return self._process.returncode


@contextmanager
def worker_processes(data_dir: Path, diary: Diary) -> Iterator[Any]:
    """A function that starts workers with the given settings; all are gone afterwards, with their children."""
    started: list[subprocess.Popen[bytes]] = []

    def start(
        command: Sequence[str] = (sys.executable, "-m", "tests.support.worker_process", str(diary.path)),
        cwd: Path = ROOT,
        **settings: object,
    ) -> WorkerProcess:
        own = {f"STREAMLANE_{name.upper()}": str(value) for name, value in settings.items()}
        environment = {**os.environ, "STREAMLANE_DATA_DIR": str(data_dir), **own}
        with (data_dir.parent / f"worker-{len(started)}.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    command, cwd=cwd, env=environment, stderr=log, stdout=log, start_new_session=True
                )
            )
        return WorkerProcess(started[-1])

    try:
        yield start
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


async def main(diary: Diary) -> int:
    async with Pipeline.open(log_level="info") as pipeline:
        # Tests of this process may know more types than this worker.
        return await pipeline.serve(
            pools=["core"], handlers=[on(Act, act)], services=diary, only={Act.spec.type}
        )


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Diary(Path(sys.argv[1])))))
