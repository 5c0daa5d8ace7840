"""Functions for child processes. A module of its own, so that a child imports the standard library only."""

import collections
import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


class NeedsTwoError(Exception):
    """Pickles, and cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


class MuteError(Exception):
    def __init__(self) -> None:
        super().__init__(lambda: None)

    def __str__(self) -> str:
        raise RuntimeError("nothing to say")


def add(one: int, two: int) -> int:
    return one + two


def pid() -> int:
    return os.getpid()


def announce(path: Path) -> None:
    path.write_text(str(os.getpid()))


def spin(path: Path | None = None) -> None:
    """A loop in C that never lets go of the GIL and looks at no signal."""
    if path is not None:
        announce(path)
    collections.deque(itertools.repeat(0), maxlen=0)


def spin_with_a_grandchild(path: Path) -> None:
    path.write_text(str(subprocess.Popen(["/bin/sleep", "600"]).pid))
    spin()


def hoard(mebibytes: int) -> int:
    return len([bytearray(b"x" * (1 << 20)) for _ in range(mebibytes)])


def take_at_once(mebibytes: int) -> int:
    return len(bytes(mebibytes << 20))  # promised by the kernel, and never touched


def fail(error: BaseException) -> None:
    raise error


def fail_with_two() -> None:
    raise NeedsTwoError("one", "two")


def fail_mutely() -> None:
    raise MuteError


def leave(code: int) -> None:
    os._exit(code)


def crash() -> None:
    ctypes.string_at(0)


def interrupt_itself() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"


def unpicklable() -> object:
    return lambda: None


def talk(word: str, seconds: float = 0) -> None:
    print(f"{word} to stdout")
    print(f"{word} to stderr", file=sys.stderr)
    threading.Event().wait(seconds)


def repeat(text: bytes, times: int) -> bytes:
    return text * times
