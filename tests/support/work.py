"""A job type that does what its payload says, and leaves marks that tests, also in another process, can read."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import contracts.jobs
from contracts.jobs import JobPayload


@contextmanager
def apart() -> Iterator[dict[str, type[JobPayload]]]:
    """Job types defined inside are known to nobody, until a test makes them the known ones."""
    known = contracts.jobs._REGISTRY
    mine: dict[str, type[JobPayload]] = {}
    contracts.jobs._REGISTRY = mine
    try:
        yield mine
    finally:
        contracts.jobs._REGISTRY = known


with apart() as TYPES:

    class Work(JobPayload, type="test:work", queue="default", max_retry=1, timeout=60):
        """Do what `act` says, leaving marks in `folder`."""

        act: str = "done"
        folder: str = ""
        n: int = 0
        knowledge_id: str = ""

    class Attachment(JobPayload, type="test:attachment", queue="chat_attachment", max_retry=1, timeout=60):
        """The other queue of core."""

        n: int = 0

    class Summary(JobPayload, type="test:summary", queue="summary", max_retry=1, timeout=60):
        """A queue of enrichment, lent to the shared pool."""

        n: int = 0

    class Finish(JobPayload, type="test:finish", queue="postprocess", max_retry=1, timeout=60):
        """A queue that is lent to nobody."""

        n: int = 0

    class Page(JobPayload, type="test:page", queue="wiki", max_retry=1, timeout=60):
        """The queue of a pool with much to do."""

        n: int = 0


class Mark(NamedTuple):
    """Something that happened to a job in a process."""

    what: str
    job: str
    pid: int


def mark(folder: str, what: str, job: str) -> None:
    Path(folder, f"{what} {job} {os.getpid()} {os.urandom(4).hex()}").touch()


def marks(folder: Path, what: str = "") -> list[Mark]:
    """What was marked, in the order in which it happened."""
    files = sorted(
        (file for file in folder.iterdir() if " " in file.name), key=lambda f: f.stat().st_mtime_ns
    )
    split = [file.name.split(" ") for file in files]
    return [Mark(name, job, int(pid)) for name, job, pid, _ in split if name == what or not what]


async def work(job: Work, ctx: Any) -> None:
    """Handle `Work`: `done` at once, `hang` while this is its first delivery, `block` the loop, `spread` into `n` more,
    `exit` the process.
    """
    mark(job.folder, "started", ctx.id)
    try:
        match job.act:
            case "hang" if not ctx.job.crashes:
                await asyncio.Event().wait()
            case "block":
                threading.Event().wait(job.n / 1000)  # a handler that should not, and does
            case "spread":
                await ctx.pipeline.enqueue_many([Work(folder=job.folder) for _ in range(job.n)])
            case "exit":
                os._exit(1)
    except asyncio.CancelledError:
        mark(job.folder, "stopped", ctx.id)
        raise
    mark(job.folder, "done", ctx.id)
