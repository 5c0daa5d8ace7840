"""`streamlane kb` as its users run it."""

import pytest

from tests.support.commands import streamlane

pytestmark = pytest.mark.timeout(600)
GUIDE = "# Ponds\n\nDucks swim in the Great Pond. Geese fly over the Great Pond. Swans sleep beside the Great Pond.\n"


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE)
    (folder / "other.md").write_text(GUIDE.replace("Pond", "Lake"))

    def command(*args, **options):
        return streamlane(*args, data_dir=tmp_path / "data", **options)

    assert command("ingest", str(folder), "--kb", "first", "--json").code == 0
    return command


def test_a_base_is_described_and_copied(run, tmp_path):
    unknown = run("kb", "profile", "first")
    assert (unknown.code, "--refresh" in unknown.err) == (2, True)
    said = run("kb", "profile", "first", "--refresh", "--json")
    assert (said.code, said.json["status"], said.json["stats"]["document_count"]) == (0, "ready", 2)
    assert "Great" in run("kb", "profile", "first").out

    (tmp_path / "extra.md").write_text(
        "# Extra\n\nOnly the second base has this one. It goes. It is too much.\n"
    )
    assert run("ingest", str(tmp_path / "extra.md"), "--kb", "second", "--json").code == 0
    unsure = run("kb", "copy", "first", "second")
    assert (unsure.code, "--yes" in unsure.err) == (2, True)
    copied = run("kb", "copy", "first", "second", "--yes", "--json")
    assert (copied.code, copied.json["status"], copied.json["total"]) == (0, "completed", 3)
    found = run("search", "swans sleep", "--kb", "second", "--json").json["hits"]
    assert {hit["path"].rpartition("/")[2] for hit in found} == {"guide.md", "other.md"}
    shown = run("documents", "show", found[0]["knowledge_id"], "--json")
    assert (shown.code, bool(found[0]["chunk_id"])) == (0, True)


def test_documents_move_to_another_base_and_the_old_one_is_deleted(run, tmp_path):
    (tmp_path / "extra.md").write_text(
        "# Extra\n\nOnly the second base has this one. It stays. It is enough.\n"
    )
    assert run("ingest", str(tmp_path / "extra.md"), "--kb", "second", "--json").code == 0
    rows = run("documents", "list", "--json").json["documents"]
    idents = [row["id"] for row in rows if row["base"] == "first"]
    moved = run("kb", "move", *idents, "--from", "first", "--to", "second", "--json")
    assert (moved.code, moved.json["processed"], moved.json["failed"]) == (0, 2, 0)
    again = run("kb", "move", *idents, "--from", "first", "--to", "second")
    assert (again.code, "not in 'first'" in again.err) == (2, True)
    assert len(run("search", "swans sleep", "--kb", "second", "--json").json["hits"]) >= 2
    assert run("kb", "delete", "second", "--yes").out == "completed\n"
    later = run("kb", "delete", "first", "--yes", "--no-wait")
    assert (later.code, "a worker does it" in later.out) == (0, True)
    assert run("kb", "delete", "first", "--yes").code == 2
