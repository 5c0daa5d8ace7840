"""The command line where an optional part of the package is not installed: a project that wants the queue alone."""

import sysconfig
from pathlib import Path

import pytest
from consumers.extras import KNOWLEDGE

from tests.support.commands import ROOT, Said, streamlane


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed here, but for the libraries of the knowledge extra."""
    folder = tmp_path_factory.mktemp("bare")
    for installed in Path(sysconfig.get_path("purelib")).iterdir():
        if installed.name not in KNOWLEDGE.modules:
            (folder / installed.name).symlink_to(installed)
    return folder


def ask(*args: str, bare: Path, data_dir: Path) -> Said:
    return streamlane(*args, data_dir=data_dir, env={"PYTHONPATH": f"{ROOT}:{bare}"}, flags=("-S",))


@pytest.mark.parametrize(
    "args", [("queues",), ("jobs", "list"), ("doctor",), ("--help",), ("--version",), ("jobs", "--help")]
)
def test_what_needs_no_documents_works_without_their_libraries(
    args: tuple[str, ...], bare: Path, tmp_path: Path
) -> None:
    done = ask(*args, bare=bare, data_dir=tmp_path)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    "args", [("demo",), ("ingest", "."), ("search", "x"), ("ask", "x"), ("worker", "background")]
)
def test_what_needs_them_says_in_one_sentence_which_extra_to_install(
    args: tuple[str, ...], bare: Path, tmp_path: Path
) -> None:
    done = ask(*args, bare=bare, data_dir=tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "install the knowledge extra" in done.err
    assert "streamlane[knowledge]" in done.err


def test_the_doctor_says_it_too_and_finds_nothing_wrong(bare: Path, tmp_path: Path) -> None:
    done = ask("doctor", "--json", bare=bare, data_dir=tmp_path)
    advice = {finding["what"]: finding["advice"] for finding in done.json["findings"]}
    assert "install the knowledge extra" in advice["documents"]
    assert done.json["ok"] is True


def test_a_job_can_be_cancelled_without_them(bare: Path, tmp_path: Path) -> None:
    done = ask("jobs", "cancel", "nobody", "--json", bare=bare, data_dir=tmp_path)
    assert done.json["outcome"] == "not_found"
