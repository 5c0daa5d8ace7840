"""`streamlane sources`, as a person or a script runs it."""

import pytest
from consumers.commands.terminal import moment

from tests.support.commands import streamlane
from tests.support.harvest import write

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def sources(tmp_path):
    write(tmp_path / "papers", {"a.md": "# A paper", "b.md": "# Another one", "c.bin": "x"})

    def run(*args, **env):
        env = {"STREAMLANE_SOURCE_FOLDERS": str(tmp_path), **env}
        return streamlane("sources", *args, data_dir=tmp_path / "data", env=env)

    return run


def test_a_folder_is_named_run_looked_at_and_removed(sources, tmp_path):
    papers = tmp_path / "papers"
    made = sources(
        "add", "papers", "folder", f"--set=path={papers}", "--set=include=*.md", "--cron=@daily", "--json"
    )
    assert (made.code, made.json["status"], made.json["cron"]) == (0, "active", "@daily")
    assert made.json["config"] == {"path": str(papers), "include": ["*.md"]}
    run = sources("sync", "papers", "--json")
    assert (run.code, run.json["state"], run.json["created"]) == (0, "success", 2)
    (papers / "a.md").unlink()
    assert sources("sync", "papers").out.strip() == "success: 1 unchanged, 1 deleted"
    told = sources("show", "papers", "--json").json
    assert (told["items"]["synced"], told["last_run"]["deleted"], told["health"]["ok"]) == (1, 1, True)
    dated = sources("show", "papers").out
    assert f"last_success_at\t{moment(told['last_success_at'])}\n" in dated
    assert f'"finished_at": "{moment(told["last_run"]["finished_at"])}"' in dated
    assert "papers\tfolder\tactive\t@daily UTC" in sources("list").out
    assert [one["created"] for one in sources("logs", "papers", "--json").json["logs"]] == [0, 2]
    assert sources("set", "papers", "--cron=", "--json").json["next_run_at"] is None
    assert sources("pause", "papers", "--json").json["status"] == "paused"
    assert "resume papers" in sources("sync", "papers").err
    looked = sources("sync", "papers", "--mode=health", "--json")
    assert (looked.code, looked.json["message"]) == (0, "it can be read")
    assert sources("delete", "papers", "--yes").out.strip() == "removed"


def test_what_cannot_be_is_said_with_what_to_do(sources):
    for args, said in (
        (("add", "a", "attic"), "there are folder, web, s3, git"),
        (("add", "a", "folder", "--set=path=/"), "STREAMLANE_SOURCE_FOLDERS"),
        (("add", "a", "s3", "--secret=secret_key=UNHEARD_OF"), "name of a variable that is set"),
    ):
        refused = sources(*args)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    assert [line.split("\t")[0] for line in sources("kinds").out.splitlines()[1:]] == [
        "folder",
        "web",
        "s3",
        "git",
    ]


def test_a_secret_comes_from_the_environment_and_is_not_shown(sources):
    sets = ("--set=endpoint=https://s3.example.org", "--set=bucket=papers")
    secrets = ("--secret=access_key=MY_KEY", "--secret=secret_key=MY_SECRET")
    made = sources("add", "b", "s3", *sets, *secrets, "--json", MY_KEY="reader", MY_SECRET="hunter2")
    assert made.json["credentials"] == {"access_key": "set (6 chars)", "secret_key": "set (7 chars)"}
    assert not any("hunter2" in said.out + said.err for said in (made, sources("show", "b")))


def test_one_word_changes_while_nothing_works_with_it(sources, tmp_path):
    papers = tmp_path / "papers"
    sources("add", "papers", "folder", f"--set=path={papers}", "--set=include=*.md")
    changed = sources("set", "papers", "--set=exclude=b*", "--json")
    assert changed.json["config"] == {"path": str(papers), "include": ["*.md"], "exclude": ["b*"]}
    assert "no folder source" in sources("set", "papers", "--secret=token=HOME").err
    sources("sync", "papers", "--no-wait")
    for change in ("--set=include=*", "--secret=token=HOME"):
        assert sources("set", "papers", change).code != 0
    assert "under way" in sources("set", "papers", "--set=include=*").err
    assert sources("set", "papers", "--cron=@daily").code == 0


def test_another_tenant_has_sources_of_its_own(sources, tmp_path):
    made = sources("add", "theirs", "folder", f"--set=path={tmp_path / 'papers'}", "--tenant=2", "--json")
    assert made.json["name"] == "theirs"
    assert sources("sync", "theirs", "--tenant=2", "--json").json["created"] == 3
    assert "no knowledge base 'default'" in sources("show", "theirs").err
    assert sources("pause", "theirs", "--tenant=2", "--json").json["status"] == "paused"
