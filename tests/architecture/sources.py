"""The project's own files as the rules see them."""

import ast
import subprocess
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Source:
    """One text file; `path` is relative to the repository, with slashes."""

    path: str
    text: str

    @property
    def floor(self) -> str:
        """The top folder: contracts, pipeline, consumers, tests …"""
        return self.path.partition("/")[0]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    def fault(self, line: int, what: str) -> str:
        return f"{self.path}:{line}: {what}"


@cache
def texts() -> tuple[Source, ...]:
    """Every text file that is, or is about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    ).stdout.decode()
    files = {path: ROOT / path for path in sorted(set(listed.split("\0"))) if (ROOT / path).is_file()}
    contents = {path: file.read_bytes() for path, file in files.items()}
    return tuple(Source(path, data.decode()) for path, data in contents.items() if b"\0" not in data)


@cache
def modules() -> tuple[Source, ...]:
    """Every Python file of the repository."""
    return tuple(source for source in texts() if source.path.endswith(".py"))
