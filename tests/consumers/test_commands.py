"""The command line on bad input: exit code 2 and the nearest valid name, before anything starts."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.commands import streamlane


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        (["ingst", "x"], {}, "ingest"),
        (["ingest"], {}, "PATH"),
        (["ingest", "nowhere.pdf"], {}, "no such file or folder: nowhere.pdf"),
        (["search", "x", "--kbb", "y"], {}, "--kb"),
        (["search", "x", "--kb", "never-made"], {}, "streamlane ingest PATH"),
        (["jobs", "list", "--queue", "defualt"], {}, "did you mean 'default'?"),
        (["jobs", "list", "--state", "dead"], {}, "archived"),
        (["worker", "backgroud"], {}, "did you mean 'background'?"),
        (["search", "x", "--kb", " "], {}, "needs a name"),
        (["queues"], {"STREAMLANE_LEASE_SECONDS": "3"}, "did you mean STREAMLANE_LEASE_S?"),
        (["queues"], {"STREAMLANE_LEASE_S": "soon"}, "STREAMLANE_LEASE_S"),
        (["queues"], {"STREAMLANE_DATABASE_URL": "mysql://x/y"}, "sqlite:///"),
    ],
)
def test_bad_usage_exits_2_and_says_what_is_valid(
    args: list[str], env: dict[str, str], said: str, tmp_path: Path
) -> None:
    done = streamlane(*args, data_dir=tmp_path / "data", env=env)
    assert done.code == 2, done
    assert said in done.err


def test_a_script_gets_its_error_as_json(tmp_path: Path) -> None:
    done = streamlane("jobs", "show", "nobody", "--json", data_dir=tmp_path / "data")
    assert done.code == 1
    assert done.json["error"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["ingst", "x"], "ingst"),
        (["ingest"], "PATH"),
        (["ingest", "nowhere.pdf"], "nowhere.pdf"),
        (["search", "x", "--kbb", "y"], "--kbb"),
        (["jobs", "shw", "x"], "shw"),
        (["jobs", "show"], "ID"),
        (["--never"], "--never"),
    ],
)
def test_a_script_is_told_of_its_misuse_as_json(args: list[str], said: str, tmp_path: Path) -> None:
    done = streamlane(*args, "--json", data_dir=tmp_path / "data")
    assert done.code == 2, done
    assert said in done.json["error"]
    assert done.json["code"] == "usage"
    assert done.err


def test_a_file_behind_a_folder_that_may_not_be_entered_is_not_called_missing(tmp_path: Path) -> None:
    under = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if under and not shutil.which(under[0]):
        pytest.skip("root enters every folder, and there is no setpriv to take that from it")
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / "x.txt").write_text("words")
    locked.chmod(0)
    path = str(locked / "x.txt")
    done = streamlane("ingest", path, "--json", data_dir=tmp_path / "data", under=under)
    locked.chmod(0o700)
    assert done.code == 2, done
    assert "no permission" in done.json["error"]


def test_doctor_shows_the_settings_without_secrets(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/secret.db"
    done = streamlane("doctor", "--json", data_dir=tmp_path / "data", env={"STREAMLANE_DATABASE_URL": url})
    assert done.code == 0, done.err
    assert done.json["settings"]["database_url"] == f"set ({len(url)} chars)"
    assert done.json["ok"] is True


def test_a_name_that_is_no_text_is_shown_as_one_everywhere(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (Path(os.fsdecode(os.fsencode(tmp_path / "in")) + "/" + os.fsdecode(b"latin-\xe9.txt"))).write_bytes(b"")
    strict = {"PYTHONIOENCODING": "utf-8:strict"}
    done = streamlane("ingest", str(tmp_path / "in"), "--json", data_dir=tmp_path / "data", env=strict)
    (document,) = done.json["documents"]
    assert document["path"].endswith(r"latin-\xe9.txt")
    assert document["status"] == "failed"
