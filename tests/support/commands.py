"""The command line as its users run it: a process of its own, with its own environment."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


def streamlane(
    *args: str,
    data_dir: Path,
    timeout: float = 100,
    env: Mapping[str, str] = {},
    flags: Sequence[str] = (),
    under: Sequence[str] = (),
) -> Said:
    """Run a command to its end, with these flags of the interpreter, `under` a program that starts others."""
    done = subprocess.run(
        [*under, *_command(args, flags)],
        check=False,
        cwd=ROOT,
        env=_environment(data_dir, env),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def start_streamlane(
    *args: str, data_dir: Path, env: Mapping[str, str] = {}, log: Path = Path(os.devnull)
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own, so that a kill takes all of it. What it says goes to `log`."""
    with log.open("wb") as said:
        return subprocess.Popen(
            _command(args),
            cwd=ROOT,
            env=_environment(data_dir, env),
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def dying_streamlane(
    step: int, *args: str, data_dir: Path, env: Mapping[str, str] = {}, timeout: float = 100
) -> bool:
    """Run a command that kills itself at a step of its event loop; whether it did, for it may have ended before."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.dying", str(step), *args],
        check=False,
        cwd=ROOT,
        env=_environment(data_dir, env),
        capture_output=True,
        timeout=timeout,
        start_new_session=True,
    )
    return ended.returncode == -signal.SIGKILL


class Terminal:
    """What a command draws, and where one types."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self._process, self._screen, self.said = process, screen, ""

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def read(self) -> str:
        """All that it has drawn so far."""
        while select.select([self._screen], [], [], 0)[0]:
            try:
                self.said += os.read(self._screen, 65_536).decode(errors="replace")
            except OSError:  # it has ended
                break
        return self.said

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def ended(self) -> bool:
        """Whether it has ended; what it still draws is read meanwhile."""
        self.read()
        return self.code is not None


@contextmanager
def on_a_terminal(*args: str, data_dir: Path) -> Iterator[Terminal]:
    """Run a command on a terminal of its own, which ends with the block."""
    screen, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *_command(args)],
        cwd=ROOT,
        env=_environment(data_dir, {"TERM": "xterm", "COLUMNS": "100", "LINES": "60"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def _command(args: tuple[str, ...], flags: Sequence[str] = ()) -> list[str]:
    return [sys.executable, *flags, "-c", "from consumers.cli import main; main()", *args]


def _environment(data_dir: Path, env: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLANE_")}
    return {**kept, "STREAMLANE_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT), **env}
