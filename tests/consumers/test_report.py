"""What `ingest` says in the end, of documents and of what is none."""

from pathlib import Path
from typing import Any

import pytest
from consumers.commands.report import Outcome, report
from consumers.knowledge.documents.documents import Entry
from consumers.knowledge.progress.fates import Fate
from contracts.knowledge import ParseStatus, SpanCode

from tests.support.commands import Said, streamlane

PICKLED = b"\x80\x04\x95\x00\x00\xff\xfe\x00\x01" * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one document, one that is damaged and many files that are none."""
    folder = tmp_path / "in"
    (folder / "cache").mkdir(parents=True)
    (folder / "guide.md").write_text("# Pools\n\nA pool is a set of queues.\n")
    (folder / "empty.md").touch()
    for number in range(6):
        (folder / "cache" / f"{number}.pyc").write_bytes(PICKLED)
    return folder


def statuses(said: Said) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for one in said.json["documents"]:
        found.setdefault(one["status"], []).append((Path(one["path"]).name, one["outcome"]))
    return found


def archived(data_dir: Path) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = streamlane(
        "jobs", "list", "--state", "archived", "--json", data_dir=data_dir
    ).json["jobs"]
    return jobs


def test_what_is_no_document_is_skipped_in_a_folder_and_fails_where_it_was_named(
    folder: Path, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    first = streamlane("ingest", str(folder), "--json", data_dir=data_dir)
    assert first.code == 1, "one document is empty"
    assert statuses(first) == {
        "skipped": [(f"{number}.pyc", "created") for number in range(6)],
        "failed": [("empty.md", "created")],
        "completed": [("guide.md", "created")],
    }
    totals = first.json["totals"]
    assert (totals["documents"], totals["failed"], totals["skipped"]) == (2, 1, 6)
    assert len(archived(data_dir)) == 7

    (folder / "empty.md").unlink()
    again = streamlane("ingest", str(folder), data_dir=data_dir)
    assert again.code == 0
    *lines, last = again.out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        *(f"skipped  {folder}/cache/{number}.pyc" for number in range(3)),
        "skipped  … and 3 more of type .pyc",
    ]
    assert "type that is not supported" in lines[-1]
    assert last.startswith(
        "1 documents in 'default': 1 completed (1 unchanged since last time); 6 other files skipped;"
    )

    named = streamlane(
        "ingest", str(folder / "cache"), str(folder / "cache" / "3.pyc"), "--json", data_dir=data_dir
    )
    assert named.code == 1
    assert statuses(named)["failed"] == [("3.pyc", "hopeless")]
    assert len(archived(data_dir)) == 7, "nothing was tried again"


def test_a_file_that_cannot_be_read_is_tried_again_when_it_changes_or_when_a_person_says_so(
    folder: Path, tmp_path: Path
) -> None:
    data_dir, path = tmp_path / "data", folder / "empty.md"
    streamlane("ingest", str(path), data_dir=data_dir)
    (job,) = archived(data_dir)
    assert job["document"] == str(path)
    assert streamlane("jobs", "show", job["id"], "--json", data_dir=data_dir).json["document"] == str(path)
    assert str(path) in streamlane("jobs", "list", data_dir=data_dir).out

    repeated = streamlane("ingest", str(path), data_dir=data_dir)
    assert repeated.code == 1
    assert "the file is empty" in repeated.out
    assert "--retry tries again" in repeated.out
    assert len(archived(data_dir)) == 1

    assert streamlane("ingest", str(path), "--retry", data_dir=data_dir).code == 1
    assert len(archived(data_dir)) == 2
    path.write_text("A pool is a set of queues.")
    assert streamlane("ingest", str(path), data_dir=data_dir).code == 0


def outcome(name: str, status: ParseStatus, error: str = "", *warnings: str, named: bool = True) -> Outcome:
    code = SpanCode.DOCREADER_UNSUPPORTED if "supported" in error else ""
    return Outcome(f"/in/{name}", Fate(status, error, code, 0, warnings), Entry.CREATED, named)


def test_alike_files_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    failed = [
        outcome(f"{n}.{kind}", ParseStatus.FAILED, "damaged")
        for kind in ("a", "b", "c", "d")
        for n in range(40)
    ]
    queued = [outcome(f"{n}.md", ParseStatus.PENDING) for n in range(4)]
    warned = [outcome(f"{n}.pdf", ParseStatus.COMPLETED, "", "3 pictures were not read") for n in range(5)]
    report(
        "x",
        [*failed, *queued, *warned, outcome("z.o", ParseStatus.FAILED, "not supported", named=False)],
        1,
        as_json=False,
    )
    assert capsys.readouterr().out.splitlines() == [
        "failed  /in/0.a: damaged",
        "failed  /in/1.a: damaged",
        "failed  /in/2.a: damaged",
        "failed  … and 157 more of type .b, .c, .d, …: damaged",
        *(f"queued  /in/{n}.md" for n in range(4)),
        *(f"warning  /in/{n}.pdf: 3 pictures were not read" for n in range(3)),
        "warning  … and 2 more of type .pdf: 3 pictures were not read",
        "skipped  /in/z.o: not supported",
        "169 documents in 'x': 4 pending, 5 completed, 160 failed; 1 other files skipped; 0 chunks, 1.0 s",
    ]
