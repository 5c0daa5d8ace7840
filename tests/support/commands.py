"""The command line as its users run it: a process of its own, with its own environment."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
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


def _command(args: tuple[str, ...], flags: Sequence[str] = ()) -> list[str]:
    return [sys.executable, *flags, "-c", "from consumers.cli import main; main()", *args]


def _environment(data_dir: Path, env: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLANE_")}
    return {**kept, "STREAMLANE_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT), **env}
