"""`streamlane memory` and `streamlane graph`: what is remembered of people, and what documents name, by hand."""

from pathlib import Path

import pytest

from tests.support.commands import streamlane
from tests.support.platform import write

GUIDE = """# Worker pools

The Core Pool uses the Default Queue. The Core Pool never takes the slots of the Wiki Pool.
"""


@pytest.fixture
def memory(tmp_path: Path):
    """Run a command of memory; return what it said as JSON, and its exit code."""

    def memory(*args: str):
        done = streamlane("memory", *args, "--json", data_dir=tmp_path / "data")
        return done.json, done.code

    return memory


def test_what_is_remembered_of_a_person_is_added_seen_edited_deleted_and_forgotten(memory) -> None:
    added, code = memory("add", "anna", "I like  tea.", "--kind", "preference", "--topic", "drinks")
    assert (added["text"], added["method"], code) == ("I like tea.", "explicit", 0)
    edited, _ = memory("edit", "anna", added["id"], "I like green tea.")
    assert (edited["id"], edited["text"], edited["topic"]) == (added["id"], "I like green tea.", "drinks")
    shown, _ = memory("show", "anna")
    assert (shown["items"], shown["topics"], shown["block"]) == (1, {"drinks": 1}, "- I like green tea.")
    assert memory("list")[0]["subjects"][0]["subject_id"] == "anna"
    assert memory("delete", "anna", added["id"]) == (
        {"subject_id": "anna", "id": added["id"], "deleted": True},
        0,
    )
    assert memory("delete", "anna", added["id"])[1] == 1
    assert memory("forget", "anna", "--yes") == ({"subject_id": "anna", "forgotten": 0}, 0)
    assert memory("list", "anna")[0]["items"] == []


def test_memory_is_switched_and_set_and_what_cannot_be_is_told(memory) -> None:
    assert memory("on") == ({"subject_id": None, "enabled": True}, 0)
    assert memory("off", "anna") == ({"subject_id": "anna", "enabled": False}, 0)
    told, _ = memory("set", "write_mode", "auto")
    assert (told["enabled"], told["write_mode"], told["delay_s"]) == (True, "auto", 90)
    for wrong in (("set", "delay_s", "1"), ("set", "delay", "90"), ("set", "items"), ("show", "a b")):
        assert memory(*wrong)[1] == 2
    assert "did you mean delay_s?" in memory("set", "delay", "90")[0]["error"]
    assert memory("show", "nobody")[1] == 1


def test_what_is_remembered_is_that_of_a_tenant(memory) -> None:
    memory("add", "anna", "I live in Berlin.", "--tenant", "2")
    assert [memory("list", "anna", "--tenant", n)[0]["items"] == [] for n in ("1", "2")] == [True, False]


def test_the_graph_is_listed_and_shown(tmp_path: Path) -> None:
    write(tmp_path / "in", guide_md=GUIDE)
    data = tmp_path / "data"
    assert streamlane("ingest", str(tmp_path / "in"), data_dir=data).code == 0
    listed = streamlane("graph", "list", "--json", data_dir=data).json["entities"]
    assert "Core Pool" in {one["name"] for one in listed}
    shown = streamlane("graph", "show", "core pool", "--json", data_dir=data).json
    assert shown["entity"]["name"] == "Core Pool"
    assert "Default Queue" in {one["name"] for one in shown["nodes"]}
    assert streamlane("graph", "show", "nothing", data_dir=data).code == 1
