"""Settings come from the environment, are checked at once, and never show a secret."""

from typing import Any

import pytest
from contracts.topology import POOLS
from pipeline.config import Settings, load
from pipeline.errors import ConfigurationError
from pydantic import ValidationError


def test_nothing_has_to_be_set() -> None:
    settings = load()
    assert (settings.lease_s, settings.grace_s, settings.max_crashes) == (8, 8, 3)


def test_the_environment_is_read_and_arguments_win_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLANE_LEASE_S", "5")
    monkeypatch.setenv("STREAMLANE_GRACE_S", "3")
    settings = load(grace_s=4)
    assert (settings.lease_s, settings.grace_s) == (5, 4)


def test_an_unknown_variable_is_refused_naming_the_nearest_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLANE_LEASES_S", "5")
    with pytest.raises(ConfigurationError, match=r"LEASES_S; did you mean STREAMLANE_LEASE_S\?"):
        load()


@pytest.mark.parametrize("name", ["STREAMLANE_DATA_DIR", "STREAMLANE_DATABASE_URL", "STREAMLANE_LEASE_S"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_variable_is_a_mistake(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name} is empty: give it a value, or unset it"):
        load()


@pytest.mark.parametrize("value", ["0", "false", "OFF", "no", "No"])
def test_housekeeping_is_switched_off_in_any_case(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("STREAMLANE_HOUSEKEEPING_ENABLED", value)
    assert not load().housekeeping_enabled


@pytest.mark.parametrize("value", ["", " ", "1", "on"])
def test_housekeeping_is_on_unless_it_is_switched_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("STREAMLANE_HOUSEKEEPING_ENABLED", value)
    assert load().housekeeping_enabled


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 2 * 3600 + 600),
        ({"document_process_timeout": 60}, 3600 + 600),
        ({"document_process_timeout": 9000}, 9000 + 600),
        ({"housekeeping_threshold_s": 30}, 30),
    ],
)
def test_stuck_is_what_makes_no_progress_for_longer_than_any_document_may_take(
    settings: dict[str, Any], seconds: float
) -> None:
    assert load(**settings).stuck_after_s == seconds


def test_variables_that_are_for_tests_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLANE_TEST_REDIS_URL", "x")
    load()


def test_an_unknown_argument_is_refused_naming_the_nearest_known_one() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown setting 'grace'; did you mean grace_s\?"):
        load(grace=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_s", 0),
        ("lease_s", "nan"),
        ("grace_s", -1),
        ("max_crashes", 101),
        ("pool_core_concurrency", 0),
        ("max_payload_kb", 0),
        ("retry_backoff", "cubic"),
        ("log_level", "loud"),
        ("default_timeout_s", 0),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_naming_the_setting(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"STREAMLANE_{name.upper()}: "):
        load(**{name: value})


def test_settings_do_not_change() -> None:
    settings = load()
    with pytest.raises(ValidationError, match="frozen"):
        settings.lease_s = 1  # type: ignore[misc]


def test_a_secret_is_shown_by_its_length_only() -> None:
    settings = load(database_url="sqlite:///hidden.db")
    assert settings.shown()["database_url"] == "set (19 chars)"
    assert "hidden" not in repr(settings)


@pytest.mark.parametrize("pool", POOLS)
def test_every_pool_has_its_slots(pool: str) -> None:
    assert load().slots(pool) == POOLS[pool].slots
    assert load(**{f"pool_{pool}_concurrency": 3}).slots(pool) == 3


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_says_what_it_is_and_can_be_shown(name: str) -> None:
    assert Settings.model_fields[name].description
    assert load().shown()[name]
