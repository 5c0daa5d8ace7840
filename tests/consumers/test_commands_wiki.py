"""`streamlane ingest --wiki` and `streamlane wiki`: pages within seconds, and files that anyone can read."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.commands import streamlane
from tests.support.platform import write

GUIDE = """# Worker pools

The Core Pool is a set of queues with its own slots. The Core Pool never takes the slots of the Wiki Pool.
The Wiki Pool writes pages. Every page of the Wiki Pool has its sources.
"""
NOTE = """# Заметка

Core Pool — это набор очередей со своими слотами. Если Core Pool занят, задачи ждут.
"""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a base with a wiki was made by the command."""
    folder = tmp_path_factory.mktemp("wiki")
    write(folder / "in", guide_md=GUIDE, note_md=NOTE)
    done = streamlane("ingest", str(folder / "in"), "--wiki", "--json", data_dir=folder / "data")
    assert done.json["totals"]["completed"] == 2, done
    return folder / "data"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.md")}


def test_the_command_waits_for_the_pages_and_the_index_and_for_no_burst(data_dir: Path) -> None:
    pages = streamlane("wiki", "list", "--json", data_dir=data_dir).json["pages"]
    assert {"core-pool", "index"} < {page["slug"] for page in pages}
    queues = streamlane("queues", "--json", data_dir=data_dir).json["queues"]
    assert not any(queue[state] for queue in queues for state in ("pending", "scheduled", "active", "retry"))


def test_a_page_is_printed_as_markdown(data_dir: Path) -> None:
    shown = streamlane("wiki", "show", "core-pool", data_dir=data_dir)
    assert shown.out.startswith("# Core Pool\n\n")
    assert "The Core Pool is a set of queues with its own slots.[^" in shown.out
    assert "Core Pool — это набор очередей со своими слотами.[^" in shown.out
    as_json = streamlane("wiki", "show", "core-pool", "--json", data_dir=data_dir).json
    assert as_json["method"] == "extractive"
    assert {Path(source["path"]).name for source in as_json["sources"]} == {"guide.md", "note.md"}
    listed = streamlane("wiki", "list", data_dir=data_dir).out.splitlines()
    assert any(line.startswith("topics/core-pool  Core Pool — ") for line in listed)
    assert streamlane("wiki", "show", "topics/core-pool", data_dir=data_dir).out == shown.out
    assert streamlane("wiki", "show", "else/core-pool", data_dir=data_dir).code == 2
    missing = streamlane("wiki", "show", "nothing", data_dir=data_dir)
    assert missing.code == 2
    assert "wiki list" in missing.err


def test_the_export_is_linked_files_with_front_matter_and_twice_the_same(
    data_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert streamlane("wiki", "export", str(out), data_dir=data_dir).code == 0
    first = files(out)
    assert {"index.md", "topics/core-pool.md"} < set(first)
    for name, content in first.items():
        text = content.decode()
        assert text.startswith('---\ntitle: "'), name
        assert "(wiki:" not in text, name
        for target in re.findall(r"\]\(([^)]+\.md)\)", text):
            assert (out / Path(name).parent / unquote(target)).resolve().is_file(), (name, target)
    assert streamlane("wiki", "export", str(out), data_dir=data_dir).code == 0
    assert files(out) == first


def test_an_export_removes_pages_that_are_gone_and_nothing_that_it_did_not_write(
    data_dir: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    streamlane("wiki", "export", str(out), data_dir=data_dir)
    gone = (out / "topics" / "core-pool.md").read_text()
    (out / "old").mkdir()
    (out / "old" / "gone.md").write_text(gone)
    (out / "mine.md").write_text("# Mine\n")
    done = streamlane("wiki", "export", str(out), "--json", data_dir=data_dir).json
    assert done["removed"] == 1
    assert not (out / "old").exists()
    assert (out / "mine.md").read_text() == "# Mine\n"


def test_the_pages_of_two_bases_are_in_folders_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "in", guide_md=GUIDE)
    data_dir, out = tmp_path / "data", tmp_path / "out"
    for kb in ("one", "two"):
        args = ("ingest", str(tmp_path / "in"), "--wiki", "--kb", kb)
        assert streamlane(*args, data_dir=data_dir).code == 0
    assert streamlane("wiki", "export", str(out), "--kb", "one", data_dir=data_dir).code == 0
    (out / "old.md").write_text((out / "index.md").read_text())
    first = files(out)
    other = streamlane("wiki", "export", str(out), "--kb", "two", data_dir=data_dir)
    assert (other.code, "another base" in other.err, files(out) == first) == (2, True, True), other
    inside = out / "two"
    assert streamlane("wiki", "export", str(inside), "--kb", "two", data_dir=data_dir).code == 0
    again = streamlane("wiki", "export", str(out), "--kb", "one", data_dir=data_dir)
    assert "1 that are none any more were removed" in again.out
    assert (inside / "index.md").exists()


def test_a_base_without_a_wiki_says_how_to_get_one(tmp_path: Path) -> None:
    write(tmp_path / "in", guide_md=GUIDE)
    data_dir = tmp_path / "data"
    streamlane("ingest", str(tmp_path / "in"), data_dir=data_dir)
    assert "wiki on" in streamlane("wiki", "list", data_dir=data_dir).out
    done = streamlane("wiki", "export", str(tmp_path / "out"), data_dir=data_dir)
    assert done.code == 1


def test_a_wiki_is_switched_on_for_documents_that_are_there_and_off_again(tmp_path: Path) -> None:
    (path,) = write(tmp_path / "in", guide_md=GUIDE)
    assert streamlane("ingest", str(path), data_dir=tmp_path / "data").code == 0
    on = streamlane("wiki", "on", "--json", data_dir=tmp_path / "data")
    assert on.json == {"kb": "default", "wiki": True, "documents": 1}
    again = streamlane("ingest", str(path), data_dir=tmp_path / "data")
    assert again.code == 0
    assert "Worker pools" in streamlane("wiki", "list", data_dir=tmp_path / "data").out
    off = streamlane("wiki", "off", "--json", data_dir=tmp_path / "data")
    assert off.json == {"kb": "default", "wiki": False, "documents": 0}
    assert "Worker pools" in streamlane("wiki", "list", data_dir=tmp_path / "data").out
    unknown = streamlane("wiki", "on", "--kb", "nope", data_dir=tmp_path / "data")
    assert (unknown.code, "there are: default" in unknown.err) == (2, True)
