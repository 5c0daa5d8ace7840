"""Pin what is installed: every version in pyproject.toml, and every hash for the image in requirements.lock.

    python deploy/lock.py             add or drop pins as the dependencies ask, keep the others
    python deploy/lock.py --upgrade   take the newest of everything
    python deploy/lock.py --check     change nothing; exit 1 when a fresh resolution differs from the pins

A uv.lock would do the same, but it records the addresses it downloaded from, so it stays out of the repository.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT, REQUIREMENTS = ROOT / "pyproject.toml", ROOT / "requirements.lock"
TABLES = ("constraint-dependencies", "build-constraint-dependencies")
PLAIN = ("--no-annotate", "--no-header")


@dataclass(frozen=True)
class Resolution:
    """`tables` are the pins by the name of their table, `requirements` the hashed file."""

    tables: dict[str, list[str]]
    requirements: str


def resolve(project: str) -> Resolution:
    """Resolve `project`, the text of a pyproject.toml, anew: its pins hold, no earlier resolution does."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(project, "utf-8")
        uv("lock", folder=folder)
        export = ("export", "--frozen", "--all-extras", "--no-emit-project", *PLAIN)
        everything = uv(*export, "--all-groups", "--no-hashes", folder=folder)
        image = uv(*export, "--no-default-groups", folder=folder)
        build = tomllib.loads(project)["build-system"]["requires"]
        Path(folder, "build.in").write_text("\n".join(build), "utf-8")
        builder = uv(
            "pip", "compile", "--universal", "--python-version=3.11", *PLAIN, "build.in", folder=folder
        )
    return Resolution(dict(zip(TABLES, (pins(everything), pins(builder)), strict=True)), image)


def uv(*words: str, folder: str) -> str:
    done = subprocess.run(
        ["uv", *words, "--quiet"], cwd=folder, stdout=subprocess.PIPE, text=True, timeout=600, check=False
    )
    if done.returncode:
        sys.exit(f"uv {words[0]} failed; if a pin is in the way, run: just lock --upgrade")
    return done.stdout


def pins(exported: str) -> list[str]:
    """The `name==version ; marker` lines of an exported file, without hashes."""
    return re.findall(r"^[\w.-]+(?:\[[\w,-]+\])?==[^\\\n]*[^\\\s]", exported, re.MULTILINE)


def pinned(project: str) -> dict[str, list[str]]:
    settings = tomllib.loads(project)["tool"]["uv"]
    return {table: settings[table] for table in TABLES}


def with_pins(project: str, tables: dict[str, list[str]]) -> str:
    for table, lines in tables.items():
        body = "".join(f'    "{line}",\n' for line in lines)
        project = re.sub(
            rf"^{table} = \[\n(?:    .*\n)*\]$", f"{table} = [\n{body}]", project, flags=re.MULTILINE
        )
    return project


def differences(kept: list[str], fresh: list[str], where: str) -> list[str]:
    dropped, added = set(kept) - set(fresh), set(fresh) - set(kept)
    return [f"{where}: {'+' if line in added else '-'} {line}" for line in sorted(dropped | added)]


def check() -> int:
    """Compare versions, not hashes: a wheel added to an old release changes nothing that is installed."""
    project = PROJECT.read_text("utf-8")
    fresh = resolve(project)
    faults = differences(pins(REQUIREMENTS.read_text("utf-8")), pins(fresh.requirements), REQUIREMENTS.name)
    for table, kept in pinned(project).items():
        faults += differences(kept, fresh.tables[table], table)
    if faults:
        print(*faults, "The pins differ from a fresh resolution; run: just lock", sep="\n")
    return bool(faults)


def lock(*, upgrade: bool) -> int:
    project = PROJECT.read_text("utf-8")
    resolution = resolve(with_pins(project, {table: [] for table in TABLES}) if upgrade else project)
    PROJECT.write_text(with_pins(PROJECT.read_text("utf-8"), resolution.tables), "utf-8")
    REQUIREMENTS.write_text(resolution.requirements, "utf-8")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--upgrade", action="store_true")
    chosen = parser.parse_args()
    return check() if chosen.check else lock(upgrade=chosen.upgrade)


if __name__ == "__main__":
    sys.exit(main())
