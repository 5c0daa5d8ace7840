"""The command line on bad input: exit code 2 and the nearest valid name, before anything starts."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from contracts.topology import POOLS, QUEUES
from pipeline import Context, Enqueue, Pipeline, Skip

from tests.support.commands import ROOT, streamlane
from tests.support.jobs import Work, handles, working
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    ("args", "env", "said"),
    [
        (["ingst", "x"], {}, "ingest"),
        (["ingest"], {}, "PATH"),
        (["ingest", "nowhere.pdf"], {}, "no such file or folder: nowhere.pdf"),
        (["ingest", ""], {}, "a path is empty"),
        (["queues"], {"STREAMLANE_DATA_DIR": ""}, "STREAMLANE_DATA_DIR is empty"),
        (["search", "x", "--kbb", "y"], {}, "--kb"),
        (["search", "x", "--kb", "never-made"], {}, "streamlane ingest PATH"),
        (["jobs", "list", "--queue", "defualt"], {}, "did you mean 'default'?"),
        (["jobs", "list", "--state", "dead"], {}, "archived"),
        (["worker", "backgroud"], {}, "did you mean 'background'?"),
        (["worker", "default"], {}, "queue 'default' is in pool 'core'"),
        (["worker", "zzz"], {}, "known: interactive, background, agents, core, postprocess,"),
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


async def test_the_table_of_queues_is_whole_on_a_terminal_of_80_columns(tmp_path: Path) -> None:
    async with Pipeline.open(data_dir=tmp_path) as pipeline:
        await pipeline.enqueue_many([Work(n=n) for n in range(1000)])
        await pipeline.enqueue_many([Enqueue(Work(), delay=60), Enqueue(Work(n=-1), queue="chat_attachment")])
        await pipeline.inspector.pause("chat_attachment")
        async with working(pipeline, handles(refuse)):
            await wait_until(partial(all_archived, pipeline), describe="all have failed", timeout=60)
    done = streamlane("queues", data_dir=tmp_path, env={"TTY_COMPATIBLE": "1", "COLUMNS": "80"})
    lines = re.sub("\x1b\\[[0-9;]*m", "", done.out).splitlines()
    assert max(map(len, lines)) <= 80
    columns = lines[0].split()  # the pool's name is there where it fits
    rows = {line.split()[0]: dict(zip(columns, line.split(), strict=False)) for line in lines[1:] if line}
    found = [rows["default"][name] for name in ("pending", "active", "scheduled", "archived")]
    assert found == ["0", "0", "1", "1000"]
    assert rows["chat_attachment*"]["pending"] == "1"
    assert set(QUEUES) - {"chat_attachment"} <= set(rows)
    assert "* paused" in lines
    assert "Queue chat_attachment is paused; 1 job waits in it." in lines


async def refuse(_job: Work, _ctx: Context) -> None:
    raise Skip("no")


async def all_archived(pipeline: Pipeline) -> bool:
    return (await pipeline.inspector.queues())[0].archived == 1000


def test_the_table_of_queues_names_its_columns_where_nobody_draws_it(tmp_path: Path) -> None:
    said, _, pools = streamlane("queues", data_dir=tmp_path).out.partition("\n\n")
    first, *lines = said.splitlines()
    assert first.split("\t")[:4] == ["queue", "pool", "weight", "pending"]
    assert [line.split("\t")[0] for line in lines] == list(QUEUES)
    assert [line.split("\t")[0] for line in pools.splitlines()] == ["pool", *POOLS]


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("consumers.commands.app", {"pydantic", "structlog", "sqlalchemy", "numpy", "redis", "pipeline"}),
        ("consumers.commands.queues", {"sqlalchemy", "numpy", "redis"}),
        ("consumers.commands.doctor", {"sqlalchemy", "numpy", "redis"}),
    ],
)
def test_a_command_loads_only_what_it_needs(module: str, heavy: set[str]) -> None:
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert loaded.stdout == "[]\n"


def test_the_help_of_a_worker_names_what_it_can_work_on(tmp_path: Path) -> None:
    said = streamlane("worker", "--help", data_dir=tmp_path).out
    assert not {"background", "interactive", *POOLS} - set(re.findall(r"\w+", said))


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    done = streamlane("--version", data_dir=tmp_path)
    assert (done.code, done.out) == (0, f"streamlane {importlib.metadata.version('streamlane')}\n")


def test_doctor_names_each_setting_as_it_is_set_and_says_nothing_twice(tmp_path: Path) -> None:
    done = streamlane("doctor", data_dir=tmp_path)
    assert "STREAMLANE_LEASE_S\t8.0" in done.out.splitlines()
    findings = done.out.partition("\n\n")[2].splitlines()
    assert len(findings) == len(set(findings)) >= 6
    pictures = next(line for line in findings if line.startswith("ok  pictures: "))
    assert pictures.count("pictures") == 1


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


UNREAD = "import os, sys; mine, theirs = os.pipe(); os.close(mine); os.dup2(theirs, 1); os.execv(sys.argv[1], sys.argv[1:])"


def test_whoever_reads_may_stop_reading_and_is_told_nothing(tmp_path: Path) -> None:
    cut = streamlane("sources", "kinds", data_dir=tmp_path, under=[sys.executable, "-c", UNREAD])
    assert (cut.code, cut.err) == (1, "")
