"""The commands over Redis and PostgreSQL: of each family what a day brings. How they behave is tested over Lite."""

import pytest

from tests.support.commands import streamlane
from tests.support.databases import migrated

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]
GUIDE = "# Worker pools\n\nA Worker Pool is a set of queues. The Core Pool serves the Default Queue of each Worker Pool.\n"


@pytest.fixture
def run(tmp_path, redis_url):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "guide.md").write_text(GUIDE)
    (tmp_path / "in" / "empty.txt").write_text("")
    with migrated("postgres", tmp_path) as url:
        env = {
            "STREAMLANE_REDIS_URL": redis_url,
            "STREAMLANE_DATABASE_URL": url.render_as_string(hide_password=False),
        }

        def command(*args, code=0):
            said = streamlane(*args, data_dir=tmp_path / "data", env=env)
            assert said.code == code, said
            assert "Traceback" not in said.err
            return said

        yield command


def test_documents_come_in_are_found_written_about_parsed_again_and_deleted(run, tmp_path):
    totals = run("ingest", str(tmp_path / "in"), "--wiki", "--json", code=1).json["totals"]
    assert (totals["completed"], totals["failed"]) == (1, 1)
    assert "Core Pool" in run("search", "which queue does the core pool serve").out
    assert run("ask", "What is a worker pool?", "--json").json
    assert "Worker" in run("wiki", "list").out
    run("wiki", "export", str(tmp_path / "out"))
    assert (tmp_path / "out" / "index.md").exists()
    [row] = [
        one for one in run("documents", "list", "--json").json["documents"] if one["status"] == "completed"
    ]
    assert run("documents", "show", row["id"], "--json").json["spans"]["trace"]["children"]
    assert run("documents", "reparse", row["id"], "--json").json["counts"] == {"done": 1}
    run("documents", "delete", row["id"], "--yes")
    assert run("housekeeping").out.strip() == "nothing is stuck"


def test_what_was_given_up_is_listed_replayed_and_struck_off(run, tmp_path):
    run("ingest", str(tmp_path / "in" / "empty.txt"), code=1)
    [letter] = run("dead", "list", "--json").json["dead_letters"]
    assert letter["document"] == "empty.txt"
    assert run("dead", "replay", letter["job_id"], "--json").json["effects"]
    [replayed] = run("dead", "list", "--replayed", "--json").json["dead_letters"]
    assert run("dead", "purge", replayed["job_id"], "--json").json["deleted"] == 1


def test_people_keys_and_settings_are_kept(run):
    assert run("keys", "create", "--name=ci", "--capability=system_audit_read", "--json").json["key"]
    assert "ci" in run("keys", "list").out
    run("keys", "revoke", "ci")
    run("admins", "add", "ann", "--json")
    assert run("admins", "list", "--json").json == {"admins": ["ann"]}
    run("settings", "set", "pool_core_concurrency", "3")
    shown = {one["name"]: one["source"] for one in run("settings", "list", "--json").json["settings"]}
    assert shown["pool_core_concurrency"] == "stored"
    assert "geheim" not in run("doctor", "--json").out
