"""The API and a worker on machines that share no folder: a bucket, a Redis and a PostgreSQL lie between them."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.buckets import CREDENTIALS, S3Server, s3_server
from tests.support.commands import start_streamlane, streamlane
from tests.support.databases import migrated
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(300)]

TEXT = "# Leases\n\nA lease is a promise that a job stays with its worker. Whoever loses the lease loses the job.\n"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server() as server:
        yield server


@pytest.fixture
def machines(tmp_path: Path, bucket: S3Server, redis_url: str) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Where the API listens, the headers that open it, and `doctor` as the worker's machine sees it."""
    with ExitStack() as running, migrated("postgres", tmp_path) as database:
        env = CREDENTIALS | {
            "STREAMLANE_FILES_URL": bucket.url(),
            "STREAMLANE_REDIS_URL": redis_url,
            "STREAMLANE_DATABASE_URL": database.render_as_string(hide_password=False),
        }
        api, worker, log = tmp_path / "api", tmp_path / "worker", tmp_path / "log"
        rights = ["--capability=knowledge_write"]
        made = streamlane("keys", "create", "--name=a", "--json", *rights, data_dir=api, env=env)
        for place, command in ((api, ["api", "--port=0"]), (worker, ["worker", "background", "interactive"])):
            process = start_streamlane(
                *command, data_dir=place, env=env, log=log.with_suffix(f".{place.name}")
            )
            running.callback(process.wait, 20)
            running.callback(process.terminate)
        yield (
            str(log.with_suffix(".api")),
            {"X-API-Key": made.json["key"]},
            lambda: streamlane("doctor", "--json", data_dir=worker, env=env).json,
        )


async def test_what_one_machine_takes_in_another_reads_and_the_first_gives_back(
    machines: tuple[str, dict[str, str], Any], bucket: S3Server, tmp_path: Path
) -> None:
    log, headers, doctor = machines
    found = await wait_until(
        lambda: re.search(r"http://[\d.:]+", Path(log).read_text()), describe="the API listens", timeout=60
    )
    params = {"tenant_id": 1}
    async with httpx.AsyncClient(base_url=f"{found.group()}/api/v1", headers=headers, timeout=30) as client:
        kb = (await client.post("/knowledge-bases", params=params, json={"name": "b"})).json()["id"]
        sent = await client.post(f"/knowledge-bases/{kb}/knowledge", files={"file": ("leases.md", TEXT)})
        ident = sent.json()["knowledge"][0]["id"]

        async def ended() -> Any:
            said = (await client.get(f"/knowledge/{ident}")).json()
            return said if said["parse_status"] in {"completed", "failed"} else None

        document = await wait_until(ended, describe="the document has ended", timeout=120)
        assert (document["parse_status"], document["error_message"]) == ("completed", "")
        assert (await client.get(f"/knowledge/{ident}/download")).text == TEXT
        asked = {"question": "What is a lease?"}
        said = (await client.post(f"/knowledge-bases/{kb}/ask", json=asked)).json()
        assert "a promise that a job stays with its worker" in said["answer"]
    assert any(name.startswith("ours/originals/") for name in bucket.names())
    for machine in ("api", "worker"):
        assert not (tmp_path / machine / "files").exists()
    files = next(one for one in doctor()["findings"] if one["what"] == "files")
    assert files["ok"]
    assert files["said"] == f"s3://files/ours/ at {bucket.endpoint} can be written and read"
