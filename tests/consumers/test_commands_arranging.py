"""`streamlane kb` and `streamlane tenants`: the same bases and tenants as over HTTP."""

from pathlib import Path

import pytest
from consumers.commands.setting_up import assigned
from pipeline.errors import ConfigurationError

from tests.support.commands import streamlane
from tests.support.platform import write

pytestmark = pytest.mark.timeout(600)


def test_a_base_is_made_set_up_and_shown(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = streamlane(
        "kb", "create", "law", "question_count=5", "wiki=on", "--tag", "tax=money and duties", "--json", data_dir=data
    )  # fmt: skip
    assert made.code == 0, made.err
    assert (made.json["settings"]["question_count"], made.json["settings"]["wiki"]) == (5, True)
    assert made.json["tags"] == {"tax": "money and duties"}

    again = streamlane("kb", "create", "law", "--json", data_dir=data)
    assert (again.code, "already" in again.json["error"]) == (2, True)
    wrong = streamlane("kb", "set", "law", "question_cont=3", "--json", data_dir=data)
    assert (wrong.code, "did you mean question_count?" in wrong.json["error"]) == (2, True)

    changed = streamlane(
        "kb", "set", "law", "profile.enabled=true", "extract_graph=off", "--rename", "codes", "--json", data_dir=data
    )  # fmt: skip
    assert changed.json["name"] == "codes"
    assert changed.json["settings"]["profile"]["enabled"] is True
    assert changed.json["settings"]["extract_graph"] is False
    assert changed.json["tags"] == {"tax": "money and duties"}
    shown = streamlane("kb", "show", "codes", data_dir=data)
    assert "question_count=5" in shown.out
    assert "tag tax: money and duties" in shown.out
    assert "documents  none" in shown.out
    assert "embedding_model" not in shown.out
    listed = streamlane("kb", "list", data_dir=data)
    assert [line.split("\t")[0] for line in listed.out.splitlines()] == ["name", "codes"]


def test_a_tenant_has_bases_of_its_own_and_is_put_away_with_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = streamlane("tenants", "create", "Acme", "--id", "7", "--json", data_dir=data)
    assert made.json == {"id": 7, "name": "Acme"}
    (path,) = write(
        tmp_path / "in", leases_md="# Leases\n\nA lease is a promise that a job stays with its worker.\n"
    )
    ours = ("--tenant", "7", "--json")
    done = streamlane("ingest", str(path), *ours, data_dir=data)
    assert done.json["totals"]["completed"] == 1, done
    assert "promise" in streamlane("ask", "What is a lease?", *ours, data_dir=data).json["answer"]
    others = streamlane("ask", "What is a lease?", "--json", data_dir=data)
    assert (others.code, "there is none yet" in others.json["error"]) == (2, True)

    unasked = streamlane("tenants", "delete", "7", data_dir=data)
    assert (unasked.code, "--yes" in unasked.err) == (2, True)
    assert streamlane("tenants", "delete", "7", "--yes", "--json", data_dir=data).json["already"] is False
    refused = streamlane("ask", "What is a lease?", *ours, data_dir=data)
    assert (refused.code, "streamlane tenants restore 7" in refused.json["error"]) == (2, True)
    (listed,) = streamlane("tenants", "list", "--json", data_dir=data).json["tenants"]
    assert (listed["name"], listed["knowledge_bases"], listed["deleted_at"] > 0) == ("Acme", 1, True)
    assert streamlane("tenants", "restore", "7", "--json", data_dir=data).json == {"id": 7, "reparsed": 0}
    assert "promise" in streamlane("ask", "What is a lease?", *ours, data_dir=data).json["answer"]
    assert streamlane("tenants", "restore", "7", data_dir=data).code == 1


def test_what_is_assigned_is_read_as_json_where_it_is_that() -> None:
    said = assigned(
        ["question-count=5", "wiki=yes", "profile.enabled=false", "profile.custom_instructions=Be short"]
    )
    assert said == {
        "question_count": 5,
        "wiki": True,
        "profile": {"enabled": False, "custom_instructions": "Be short"},
    }
    for wrong in (["wiki"], ["profile=x", "profile.enabled=true"]):
        with pytest.raises(ConfigurationError):
            assigned(wrong)
