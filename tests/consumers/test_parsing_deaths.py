"""Whom the death of the child that parses is blamed on."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from consumers.knowledge.reading import parsing
from consumers.knowledge.reading.parsed import UnreadableDocument
from pipeline.worker.offload import close_children


def kill_yourself(number: int, *_: object) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "blamed"),
    [(signal.SIGSEGV, True), (signal.SIGABRT, True), (signal.SIGKILL, False), (signal.SIGTERM, False)],
)
async def test_a_crash_is_the_file_s_fault_and_a_kill_from_outside_is_not(
    number: int, blamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.md"
    path.write_text("# A")
    monkeypatch.setattr(parsing, "parse_document", partial(kill_yourself, number))
    with pytest.raises(UnreadableDocument if blamed else ChildProcessError):
        await parsing.parse(path, path.name, timeout=30, memory_mb=512)
    await close_children()
