"""What a test leaves behind: threads and child processes that were not there before it."""

import threading
from dataclasses import dataclass
from typing import Self

import psutil

GRACE_S = 3
# Started once by the standard library, by the measuring tools or by `redis_server.shared`, and meant to stay for the life of the process.
LASTING_THREADS = ("asyncio_", "execnet", "MainThread", "shared ")
LASTING_PROCESSES = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
    "streamlane-shared-",
    "postgres: ",
)
"""Of a PostgreSQL server the first process counts, not those that it starts."""


@dataclass(frozen=True)
class Running:
    """The threads and children of this process at one moment."""

    threads: frozenset[threading.Thread]
    children: frozenset[psutil.Process]

    @classmethod
    def now(cls) -> Self:
        return cls(frozenset(threading.enumerate()), frozenset(psutil.Process().children(recursive=True)))

    def leaked_since(self, grace: float = GRACE_S) -> list[str]:
        """What runs now, did not run then, and does not end within `grace` seconds; leaked children are killed."""
        now = Running.now()
        threads = [t for t in now.threads - self.threads if not t.name.startswith(LASTING_THREADS)]
        children = [child for child in now.children - self.children if not _lasting(child)]
        _, children = psutil.wait_procs(children, timeout=grace)
        named = [f"thread {thread.name}" for thread in threads if _outlasts(thread, grace)]
        for child in children:
            named.append(f"process {child.pid} {' '.join(_command(child))}")
            child.kill()
        return named


def _outlasts(thread: threading.Thread, grace: float) -> bool:
    thread.join(grace)
    return thread.is_alive()


def _lasting(child: psutil.Process) -> bool:
    command = " ".join(_command(child))
    return any(name in command for name in LASTING_PROCESSES)


def _command(child: psutil.Process) -> list[str]:
    try:
        return child.cmdline()
    except psutil.Error:
        return []
