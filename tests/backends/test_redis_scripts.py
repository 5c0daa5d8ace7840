"""Every transition says in its header what it is given, and the server takes it."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from pipeline.backends import redis
from pipeline.backends.redis.scripts import script
from redis import Redis

from tests.support.redis_server import shared

FOLDER = Path(str(files(redis)))
NAMES = sorted(path.stem for path in (FOLDER / "lua").glob("*.lua"))
PARTS = {path.stem: path.read_text("utf-8") for path in (FOLDER / "lua" / "parts").glob("*.lua")}
LONGEST, LONGEST_PART = 95, 110
SHEBANG = re.compile(r"#!lua( flags=(no-writes|allow-oom))?")
REST = re.compile(r"for \w+ = (\d+), .*#ARGV|unpack\(ARGV, (\d+)\)|ipairs\((ARGV)\)")
COMMAND = re.compile(r"\bp?call_?\('(\w+)'")


def source(name: str) -> str:
    return (FOLDER / "lua" / f"{name}.lua").read_text("utf-8")


def header(name: str) -> str:
    """The comment that a script begins with, after its first line."""
    lines = iter(source(name).splitlines()[1:])
    return "\n".join(line for line in iter(lambda: next(lines, ""), "") if line.startswith("--"))


def body(name: str) -> str:
    return source(name).split("-- parts", 1)[1].partition("\n")[2]


def parts(name: str) -> list[str]:
    (line,) = (line for line in header(name).splitlines() if line.startswith("-- parts"))
    return line.split()[2:]


def called(code: str) -> set[str]:
    """Functions that are called by a bare name."""
    return set(re.findall(r"(?<![\w.:])(\w+)\(", re.sub(r"--.*", "", code)))


def defined(code: str) -> set[str]:
    return set(re.findall(r"local function (\w+)\(", code))


def made(code: str) -> set[str]:
    """All that a part is there for."""
    names = re.findall(r"^local (?!function)([\w, ]+)", code, re.MULTILINE)
    return defined(code).union(*(re.findall(r"\w+", some) for some in names))


@pytest.fixture(scope="module")
def client() -> Iterator[Redis]:
    with shared().client() as opened:
        yield opened


@pytest.mark.parametrize("name", NAMES)
def test_the_header_names_the_one_key_and_just_the_arguments_that_are_used(name: str) -> None:
    said, code = header(name), body(name)
    assert re.findall(r"KEYS\[(.*?)\]", said) == ["1"]
    assert set(re.findall(r"KEYS\[(.*?)\]", code)) <= {"1"}
    assert set(re.findall(r"ARGV\[(\d+)\]", said)) == set(re.findall(r"ARGV\[(\d+)\]", code))
    from_where = {"1" if whole else start or other for start, other, whole in REST.findall(code)}
    assert {start or "1" for start in re.findall(r"ARGV\[(\d*)…\]", said)} == from_where
    assert "-- returns" in said


@pytest.mark.parametrize("name", NAMES)
def test_a_script_has_just_the_parts_it_needs(name: str) -> None:
    wanted = parts(name)
    assert set(wanted) <= set(PARTS)
    texts = [*(PARTS[part] for part in wanted), body(name)]
    for number, text in enumerate(texts):
        elsewhere = set().union(*(defined(code) for code in PARTS.values()))
        assert called(text) & elsewhere <= set().union(*(defined(code) for code in texts[: number + 1]))
    for number, part in enumerate(wanted):
        assert any(set(re.findall(r"\w+", text)) & made(PARTS[part]) for text in texts[number + 1 :])


@pytest.mark.parametrize("name", NAMES)
def test_what_only_reads_says_so_and_nothing_is_long(name: str, client: Redis) -> None:
    lines = source(name).splitlines()
    assert len(lines) <= LONGEST
    assert SHEBANG.fullmatch(lines[0])
    said: dict[str, dict[str, set[str]]] = client.command()
    writes = [one for one in COMMAND.findall(body(name)) if "write" in said[one.lower()]["flags"]]
    if "no-writes" in lines[0]:
        assert writes == []


@pytest.mark.parametrize("part", PARTS)
def test_no_part_is_long_or_knows_the_arguments(part: str) -> None:
    assert len(PARTS[part].splitlines()) <= LONGEST_PART
    assert "ARGV" not in PARTS[part]


@pytest.mark.parametrize("name", NAMES)
def test_the_server_takes_it(name: str, client: Redis) -> None:
    one = script(name)
    assert client.script_load(one.text) == one.digest


@pytest.mark.parametrize("name", NAMES)
def test_every_script_is_used(name: str) -> None:
    assert any(f'"{name}"' in module.read_text("utf-8") for module in FOLDER.glob("*.py"))
