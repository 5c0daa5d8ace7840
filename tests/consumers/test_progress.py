"""What `ingest` shows while it works, on a terminal and elsewhere."""

import os
import re
from pathlib import Path

from tests.support.commands import start_streamlane, streamlane
from tests.support.platform import write

STAGES = ("taking in", "parse and index", "summarise", "ask questions", "link into a graph")
GUIDE = "# Pools\n\nA worker pool is a set of queues with its own concurrency. The Core Pool runs first.\n"


def test_every_stage_counts_all_documents_from_the_start_to_the_end(tmp_path: Path) -> None:
    write(tmp_path / "in", **{f"note{n}_md": f"{GUIDE}\nNumber {n}.\n" for n in range(4)})
    frames = shown_on_a_terminal("ingest", str(tmp_path / "in"), data_dir=tmp_path / "data")
    bars = [re.findall(r"([a-z][a-z ]+?) [━╸╺ ]+(\d+/\d+)", frame) for frame in frames]
    assert next(found for found in bars if found) == [("taking in", "0/4")]
    assert [found for found in bars if found][-1] == [(stage, "4/4") for stage in STAGES]
    assert {count.partition("/")[2] for found in bars for _, count in found} == {"4"}


def test_elsewhere_every_stage_is_a_line_also_when_nothing_is_left_to_do(tmp_path: Path) -> None:
    paths = [
        str(path) for path in write(tmp_path / "in", guide_md=GUIDE, note_md=GUIDE + GUIDE, bad_pdf="%PDF-")
    ]
    first = streamlane("ingest", *paths, data_dir=tmp_path / "data")
    lines = ["3 files", *(f"{stage}: 3 of 3" for stage in STAGES)]
    assert first.err.splitlines() == lines
    again = streamlane("ingest", *paths[:2], data_dir=tmp_path / "data")
    assert again.err.splitlines() == [line.replace("3", "2") for line in lines]
    queued = streamlane("ingest", *paths[:2], "--no-wait", data_dir=tmp_path / "data")
    assert queued.err.splitlines() == ["2 files", "taking in: 2 of 2"]


def shown_on_a_terminal(*args: str, data_dir: Path) -> list[str]:
    """The frames that a command draws, without their colours."""
    ours, theirs = os.openpty()
    process = start_streamlane(
        *args, data_dir=data_dir, env={"COLUMNS": "100", "TERM": "xterm"}, log=Path(os.ttyname(theirs))
    )
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 1 << 16):
            said += part
    except OSError:  # how a terminal says that nobody holds its other end any more
        pass
    os.close(ours)
    assert process.wait() == 0
    return re.split(r"\x1b\[2K", re.sub(r"\x1b\[[0-9;]*m", "", said.decode()))
