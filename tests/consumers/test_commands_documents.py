"""`streamlane documents` as its users run it."""

import pytest

from tests.support.commands import streamlane

pytestmark = pytest.mark.timeout(300)
GUIDE = "# Ponds\n\nDucks swim in the pond. Geese fly over the pond. Swans sleep beside the pond.\n"


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE)

    def command(*args, **options):
        return streamlane(*args, data_dir=tmp_path / "data", **options)

    return command


def test_a_document_is_seen_parsed_again_and_deleted_and_comes_back_when_it_is_brought_in_again(
    run, tmp_path
):
    assert run("ingest", str(tmp_path / "in"), "--json").code == 0
    [row] = run("documents", "list", "--json").json["documents"]
    assert (row["name"], row["status"], row["attempt"]) == ("Ponds", "completed", 1)
    ident = row["id"]
    said = run("documents", "show", ident, "--json").json
    assert [stage["status"] for stage in said["spans"]["trace"]["children"]].count("done") >= 3

    refused = run("documents", "cancel", ident)
    assert (refused.code, "completed, which does not allow this" in refused.out) == (1, True)
    again = run("documents", "reparse", ident, "--json")
    assert (again.code, again.json["counts"], again.json["delivery"]) == (0, {"done": 1}, "done")
    stopped = run("documents", "cancel", ident)
    assert (stopped.code, stopped.out) == (0, f"{ident}: stopped\n")

    unsure = run("documents", "delete", ident)
    assert (unsure.code, "--yes" in unsure.err) == (2, True)
    gone = run("documents", "delete", ident, "--yes")
    assert (gone.code, gone.out) == (0, f"{ident}: is deleted\n")
    assert run("documents", "list", "--json").json == {"documents": []}

    back = run("ingest", str(tmp_path / "in"), "--json")
    assert back.code == 0
    [new] = run("documents", "list", "--json").json["documents"]
    assert new["id"] != ident
    assert new["status"] == "completed"


def test_a_document_that_is_not_there_is_said_to_be_none(run):
    said = run("documents", "show", "nobody")
    assert (said.code, "streamlane documents list" in said.err) == (2, True)
    unknown = run("documents", "delete", "nobody", "--yes", "--json")
    assert (unknown.code, unknown.json["counts"]) == (1, {"not_found": 1})


def test_a_deletion_can_be_left_to_the_workers(run, tmp_path):
    assert run("ingest", str(tmp_path / "in"), "--no-wait", "--json").code == 0
    [row] = run("documents", "list", "--json").json["documents"]
    said = run("documents", "delete", row["id"], "--yes", "--no-wait")
    assert (said.code, said.out) == (0, f"{row['id']}: is being deleted\n")
    [left] = run("documents", "list", "--json").json["documents"]
    assert left["status"] == "deleting"
