"""`streamlane faq`, `documents write` and `attachments`, as a person or a script of some tenant runs them."""

import pytest

from tests.support.commands import streamlane

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def theirs(tmp_path):
    """Run a command for tenant 2."""

    def theirs(*args):
        return streamlane(*args, "--tenant=2", "--json", data_dir=tmp_path / "data")

    return theirs


def test_ready_answers_are_imported_listed_found_and_deleted(theirs, tmp_path):
    table = tmp_path / "answers.csv"
    table.write_text("question,answers\nHow do I reset my password?,Use the link.\nWhy?,\n")
    said = theirs("faq", "import", str(table), "--kb=help")
    assert (said.code, said.json["status"], said.json["failed"]) == (1, "completed", 1)
    (entry,) = theirs("faq", "list", "--kb=help", "--contains=PASSWORD").json["entries"]
    assert entry["answers"] == ["Use the link."]
    (found,) = theirs("faq", "search", "I forgot my password", "--kb=help").json["entries"]
    assert found["id"] == entry["id"]
    ours = streamlane("faq", "list", "--kb=help", data_dir=tmp_path / "data")
    assert "no knowledge base 'help'" in ours.err
    assert theirs("faq", "delete", entry["id"], "--kb=help", "--yes").json["deleted"] == 1


def test_a_file_is_attached_to_a_session_of_its_tenant_alone(theirs, tmp_path):
    lease = tmp_path / "lease.md"
    lease.write_text("# Lease")
    (ident,) = theirs("attachments", "add", "s1", str(lease)).json["ids"]
    ours = streamlane("attachments", "list", "s1", "--json", data_dir=tmp_path / "data")
    assert ours.json["attachments"] == []
    (one,) = theirs("attachments", "list", "s1").json["attachments"]
    assert (one["id"], one["file_name"], one["status"]) == (ident, "lease.md", "uploaded")
    assert theirs("attachments", "remove", "s1", ident).json["removed"] == [ident]


def test_what_is_written_by_hand_is_rewritten_by_its_tenant_alone(theirs, tmp_path):
    text = tmp_path / "text.md"
    text.write_text("# Words")
    made = theirs("documents", "write", "Words", str(text)).json
    again = ("documents", "write", "Words", str(text), f"--document={made['id']}")
    assert theirs(*again).json == {"id": made["id"], "attempt": 2}
    ours = streamlane(*again, data_dir=tmp_path / "data")
    assert (ours.code, "no document" in ours.err) == (2, True)
