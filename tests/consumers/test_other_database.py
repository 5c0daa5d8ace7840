"""One queue and two databases: whoever has not the one with the documents is refused, with the ways out."""

import os
from pathlib import Path
from typing import Any

import pytest
from consumers.database import open_database, refuse_another
from consumers.services import open_services
from contracts.payloads.documents import DocumentProcess
from pipeline import Pipeline, Settings
from pipeline.errors import ConfigurationError

from tests.support.commands import Said, streamlane
from tests.support.databases import migrated
from tests.support.redis_server import forget, shared


@pytest.fixture
def env(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("STREAMLANE_REDIS_URL", redis_url)
    return {"STREAMLANE_REDIS_URL": redis_url}


@pytest.fixture
async def first(env: dict[str, str], tmp_path: Path) -> Path:
    """The data folder whose database came first; a job about a document there waits."""
    folder = tmp_path / "one"
    async with Pipeline.open(data_dir=folder) as pipeline, open_services(pipeline):
        await pipeline.enqueue(DocumentProcess(tenant_id=1, knowledge_base_id="b", knowledge_id="k"))
    return folder


def refused(done: Said, folder: Path) -> str:
    """Return the one sentence."""
    assert done.code == 2, done
    (line,) = done.err.splitlines()
    assert f"in another database than {folder / 'streamlane.db'}" in line
    return line


def test_a_worker_with_another_database_is_refused_and_told_the_ways_out(
    first: Path, env: dict[str, str], tmp_path: Path
) -> None:
    said = refused(streamlane("worker", "core", data_dir=tmp_path / "two", env=env), tmp_path / "two")
    assert f"one that was {first / 'streamlane.db'} on {os.uname().nodename}" in said
    for way in ("STREAMLANE_DATA_DIR", "STREAMLANE_DATABASE_URL", "STREAMLANE_NAMESPACE", "doctor --adopt"):
        assert way in said


def test_the_api_with_another_database_is_refused(first: Path, env: dict[str, str], tmp_path: Path) -> None:
    refused(streamlane("api", "--port", "0", data_dir=tmp_path / "two", env=env), tmp_path / "two")


def test_jobs_can_be_listed_from_anywhere(first: Path, env: dict[str, str], tmp_path: Path) -> None:
    done = streamlane("jobs", "list", "--json", data_dir=tmp_path / "two", env=env)
    assert done.code == 0, done
    (job,) = done.json["jobs"]
    assert (job["type"], job["document"]) == ("document:process", None)


async def test_each_way_out_leads_out(first: Path, env: dict[str, str], tmp_path: Path) -> None:
    database = f"sqlite:///{first / 'streamlane.db'}"
    ways: tuple[dict[str, Any], ...] = (
        {"data_dir": first},
        {"database_url": database},
        {"namespace": f"t{os.getpid()}-two"},
    )
    for way in ways:
        async with (
            Pipeline.open(**{"data_dir": tmp_path / "two", **way}) as pipeline,
            open_services(pipeline),
        ):
            pass
    forget(shared(), f"t{os.getpid()}-two")


def test_the_doctor_lets_the_queue_belong_to_another_database(
    first: Path, env: dict[str, str], tmp_path: Path
) -> None:
    done = streamlane("doctor", "--adopt", data_dir=tmp_path / "two", env=env)
    assert done.code == 0, done
    assert f"the queue belongs to {tmp_path / 'two' / 'streamlane.db'} now" in done.out
    refused(streamlane("doctor", data_dir=first, env=env), first)


async def test_in_lite_another_database_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Pipeline.open() as pipeline:
        async with open_database(pipeline.settings) as database:
            await refuse_another(pipeline, database)
        monkeypatch.setenv("STREAMLANE_DATABASE_URL", f"sqlite:///{tmp_path / 'other.db'}")
        async with open_database(Settings.read()) as other:
            with pytest.raises(ConfigurationError, match=r"doctor --adopt") as refused:
                await refuse_another(pipeline, other)
        assert "NAMESPACE" not in str(refused.value)


async def test_a_database_that_was_moved_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Pipeline.open() as pipeline:
        async with open_database(pipeline.settings) as database:
            await refuse_another(pipeline, database)
        (tmp_path / "data" / "streamlane.db").rename(tmp_path / "moved.db")
        monkeypatch.setenv("STREAMLANE_DATABASE_URL", f"sqlite:///{tmp_path / 'moved.db'}")
        async with open_database(Settings.read()) as moved:
            await refuse_another(pipeline, moved)


@pytest.mark.postgres
def test_a_database_on_a_server_is_named_without_its_password(tmp_path: Path) -> None:
    with migrated("postgres", tmp_path) as one, migrated("postgres", tmp_path) as two:
        first, second = (
            streamlane(
                "doctor", data_dir=tmp_path, env={"STREAMLANE_DATABASE_URL": url.render_as_string(False)}
            )
            for url in (one, two)
        )
    assert first.code == 0, first
    place = f"postgresql://{one.username}@{one.host}:{one.port}"
    assert f"database: {place}/{one.database};" in first.out
    assert second.code == 2, second
    assert f"another database than {place}/{two.database}, one that was {place}/{one.database}:" in second.err
    assert str(one.password) not in first.out + second.err
