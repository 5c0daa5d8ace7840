"""Settings stored for all processes: over the environment if they can be used, refused in words if not, shown with their source."""

import pytest
from consumers.database import open_database
from consumers.settings import share
from pipeline import Pipeline
from pipeline.config import Settings
from pipeline.errors import ConfigurationError
from pipeline.store import settings as kept

from tests.support.commands import streamlane
from tests.support.redis_server import free_port


def test_a_stored_setting_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("STREAMLANE_POOL_CORE_CONCURRENCY", "5")
    settings, problems = Settings.read().resolved({"pool_core_concurrency": "3"})
    assert (settings.slots("core"), problems) == (3, {})


@pytest.mark.parametrize("bad", ["0", "-1", "many", "1.5", ""])
def test_a_stored_setting_that_cannot_be_used_falls_through_to_the_environment(monkeypatch, bad):
    monkeypatch.setenv("STREAMLANE_POOL_CORE_CONCURRENCY", "5")
    settings, problems = Settings.read().resolved(
        {"pool_core_concurrency": bad, "pool_wiki_concurrency": "2"}
    )
    assert (settings.slots("core"), settings.slots("wiki")) == (5, 2)
    assert "POOL_CORE_CONCURRENCY" in problems["pool_core_concurrency"]


@pytest.mark.parametrize(
    "name", ["redis_url", "data_dir", "namespace", "database_url", "pool_cor_concurrency"]
)
def test_what_a_process_has_to_know_before_it_finds_the_database_is_never_stored(name):
    settings, problems = Settings.read().resolved({name: "x"})
    assert (settings, list(problems)) == (Settings.read(), [name])


async def test_a_process_that_opens_the_database_has_them(tmp_path):
    async with Pipeline.open(data_dir=tmp_path) as pipeline, open_database(pipeline.settings) as database:
        async with database.transaction() as sql:
            await kept.put(sql, "pool_core_concurrency", "3")
            await kept.put(sql, "pool_wiki_concurrency", "none")
        await share(pipeline, database)
        assert pipeline.settings.slots("core") == 3
        pools = {pool.name: pool for pool in await pipeline.inspector.pools()}
        assert (pools["core"].concurrency, pools["wiki"].concurrency) == (3, 8)
        assert pipeline.settings.data_dir == tmp_path


def test_they_are_set_shown_and_unset_by_hand(tmp_path):
    bad = streamlane("settings", "set", "pool_core_concurrency", "0", "--json", data_dir=tmp_path)
    assert (bad.code, "greater than or equal to 1" in bad.json["error"]) == (2, True)
    near = streamlane("settings", "set", "pool_cor_concurrency", "1", "--json", data_dir=tmp_path)
    assert "did you mean pool_core_concurrency" in near.json["error"]
    assert streamlane("settings", "set", "pool_core_concurrency", "3", data_dir=tmp_path).code == 0
    env = {"STREAMLANE_POOL_WIKI_CONCURRENCY": "4"}
    said = streamlane("settings", "list", "--json", data_dir=tmp_path, env=env).json["settings"]
    shown = {one["name"]: (one["value"], one["source"]) for one in said}
    assert shown["pool_core_concurrency"] == ("3", "stored")
    assert shown["pool_wiki_concurrency"] == ("4", "environment")
    assert shown["pool_shared_concurrency"] == ("6", "default")
    assert streamlane("settings", "unset", "pool_core_concurrency", data_dir=tmp_path).code == 0
    assert streamlane("settings", "unset", "pool_core_concurrency", data_dir=tmp_path).code == 1


def test_the_error_of_a_bad_value_is_a_sentence():
    with pytest.raises(ConfigurationError, match="STREAMLANE_POOL_CORE_CONCURRENCY: Input should be"):
        Settings.checked("pool_core_concurrency", "0")


def test_a_setting_may_be_written_as_its_variable_and_one_that_is_none_is_unknown(tmp_path):
    assert streamlane("settings", "set", "STREAMLANE_MAX_CRASHES", "4", data_dir=tmp_path).code == 0
    doctor = streamlane("doctor", "--json", data_dir=tmp_path).json
    assert doctor["settings"]["max_crashes"] == "4"
    assert streamlane("settings", "unset", "streamlane_max_crashes", data_dir=tmp_path).code == 0
    for act in (("set", "STREAMLANE_MAX_CRASHS", "4"), ("unset", "STREAMLANE_MAX_CRASHS")):
        wrong = streamlane("settings", *act, "--json", data_dir=tmp_path)
        assert (wrong.code, "did you mean max_crashes" in wrong.json["error"]) == (2, True), wrong
    assert "unknown" in streamlane("settings", "unset", "nothing", data_dir=tmp_path).err


def test_a_negative_number_is_a_value(tmp_path):
    wrong = streamlane("settings", "set", "lease_s", "-5", "--json", data_dir=tmp_path)
    assert (wrong.code, "greater than or equal to 0.2" in wrong.json["error"]) == (2, True), wrong


@pytest.mark.parametrize("command", [("doctor",), ("settings", "list")])
def test_the_settings_are_shown_though_the_database_lets_nobody_in(tmp_path, command):
    url = f"postgresql://app:geheim@127.0.0.1:{free_port()}/app"
    env = {"STREAMLANE_DATABASE_URL": url, "STREAMLANE_LEASE_S": "7"}
    done = streamlane(*command, data_dir=tmp_path, env=env)
    assert done.code == 1
    assert "geheim" not in done.out + done.err
    assert "does not let us in" in done.out + done.err
    assert "7.0" in done.out
    if command == ("doctor",):
        findings = [one for one in done.out.splitlines() if one.startswith(("ok", "not ok"))]
        assert len(findings) == 6
        assert [one.split(": ")[0] for one in findings if one.startswith("not")] == ["not ok  database"]
