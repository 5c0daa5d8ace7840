"""Jobs of every fate, whose handler keeps a diary that processes share: what workers get who are killed again and again."""

import asyncio
import os
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from contracts.identity import derive_id
from contracts.jobs import JobPayload
from contracts.outcomes import Cancel, Skip, Snooze
from contracts.states import JobState

from tests.support.work import apart

KEPT_S: Final = 600
SNOOZING_MS: Final = 250
CHILDREN: Final = 2


class Fate(StrEnum):
    """What becomes of a chore in the end, and how it gets there."""

    DONE = "done"
    FAILS_TWICE = "fails twice"
    EXHAUSTED = "exhausted"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    SNOOZES = "snoozes"
    PARENT = "parent"
    UNIQUE = "unique"


ENDS: Final = {
    Fate.EXHAUSTED: (JobState.ARCHIVED, 2),
    Fate.SKIPPED: (JobState.ARCHIVED, 0),
    Fate.CANCELLED: (JobState.CANCELLED, 0),
    Fate.FAILS_TWICE: (JobState.COMPLETED, 2),
}
"""The last state and the failures that are counted, where they are not completed and none."""
GOES_ON: Final = {"failed", "snoozed"}
"""Last words after which a job runs again though nobody was killed."""

with apart() as TYPES:

    class Chore(JobPayload, type="test:chore", queue="default", max_retry=2, timeout=60):
        """Take so many milliseconds, then meet a fate."""

        diary: str
        fate: Fate
        ms: int
        name: str = ""


class Line(NamedTuple):
    """Something that happened to a chore. `at` is on the clock that all processes share."""

    word: str
    job: str
    pid: int
    at: float
    name: str


@dataclass(frozen=True)
class Diary:
    """What handlers wrote, in order; each line is written at once, whatever happens to the process."""

    path: Path

    def write(self, word: str, job: str, name: str) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{word}\t{job}\t{os.getpid()}\t{time.monotonic()}\t{name}\n".encode())
        os.close(file)

    def lines(self) -> list[Line]:
        rows = (row.split("\t") for row in self.path.read_text().splitlines())
        return [Line(word, job, int(pid), float(at), name) for word, job, pid, at, name in rows]


async def chore(job: Chore, ctx: Any) -> None:
    """Handle `Chore`."""
    diary = Diary(Path(job.diary))
    diary.write("started", ctx.id, job.name)
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.call_later(job.ms / 1000, over.set_result, None)
    await over
    match job.fate:
        case Fate.EXHAUSTED:
            diary.write("given up" if ctx.final else "failed", ctx.id, job.name)
            raise RuntimeError("no")
        case Fate.FAILS_TWICE if ctx.retried < 2:
            diary.write("failed", ctx.id, job.name)
            raise RuntimeError("not yet")
        case Fate.SKIPPED:
            diary.write("skipped", ctx.id, job.name)
            raise Skip("no")
        case Fate.CANCELLED:
            diary.write("cancelled", ctx.id, job.name)
            raise Cancel("no")
        case Fate.SNOOZES if ctx.started_at - ctx.job.enqueued_at < SNOOZING_MS:
            diary.write("snoozed", ctx.id, job.name)
            raise Snooze(0.1)
        case Fate.PARENT:
            for number in range(CHILDREN):
                name = f"{ctx.id}/{number}"
                child = Chore(diary=job.diary, fate=Fate.DONE, ms=job.ms, name=name)
                receipt = await ctx.pipeline.enqueue(child, id=derive_id(ctx.id, number), retention=KEPT_S)
                diary.write("child", receipt.id, name)
    diary.write("done", ctx.id, job.name)
