"""The command line on a Redis of its own: where it says the queue is, and what it says of how that is set."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Said, start_streamlane, streamlane
from tests.support.redis_server import RedisServer, free_port
from tests.support.waiting import wait_until

PASSWORD = "s3cret-word"
ALL = f"app on >{PASSWORD} ~* &* +@all"
NO_INFO = f"app on >{PASSWORD} ~sl:* &sl:* +@read +@write +@scripting +@pubsub +@connection +time"
Start = Callable[..., RedisServer]


@pytest.fixture
def started() -> Iterator[Start]:
    """Start a server that wants a password; all end with the test."""
    servers: list[RedisServer] = []

    def start(user: str = ALL, **settings: Any) -> RedisServer:
        users = (user, "default off")
        servers.append(RedisServer(users=users, login=f"app:{PASSWORD}", **settings))
        return servers[-1].start()

    yield start
    for server in servers:
        server.close()


def doctor(server: RedisServer, data_dir: Path) -> tuple[Said, dict[str, Any]]:
    """What the doctor says, and what of the queue."""
    done = streamlane("doctor", "--json", data_dir=data_dir, env={"STREAMLANE_REDIS_URL": server.url})
    assert PASSWORD not in done.out + done.err
    (queue,) = [finding for finding in done.json["findings"] if finding["what"] == "queue"]
    return done, queue


@pytest.mark.parametrize(
    ("setting", "said", "advice"),
    [("yes", ", append-only file)", None), ("no", ", no append-only file)", "set appendonly yes")],
)
def test_doctor_says_where_the_queue_is_and_how_it_is_set(
    started: Start, setting: str, said: str, advice: str | None, tmp_path: Path
) -> None:
    server = started(appendonly=setting)
    done, queue = doctor(server, tmp_path / "data")
    with server.client() as client:
        info = client.info("server")
    program = (
        f"Valkey {info['valkey_version']}" if "valkey_version" in info else f"Redis {info['redis_version']}"
    )
    assert (done.code, queue["ok"]) == (0, True), done
    assert f"redis://127.0.0.1:{server.port}/0 can be read and written ({program}, " in queue["said"]
    assert f"maxmemory-policy noeviction{said}" in queue["said"]
    assert (advice in queue["advice"]) if advice else queue["advice"] is None


def test_doctor_finds_a_redis_that_throws_waiting_jobs_away(started: Start, tmp_path: Path) -> None:
    done, queue = doctor(started(maxmemory_policy="allkeys-lru"), tmp_path / "data")
    assert (done.code, queue["ok"]) == (1, False)
    assert "maxmemory-policy allkeys-lru" in queue["said"]
    assert "set maxmemory-policy noeviction" in queue["advice"]


def test_doctor_says_that_it_may_not_see_the_settings(started: Start, tmp_path: Path) -> None:
    done, queue = doctor(started(NO_INFO), tmp_path / "data")
    assert (done.code, queue["ok"]) == (0, True), queue
    assert "cannot be seen" in queue["advice"]


def test_doctor_shows_the_settings_and_what_is_well_though_redis_is_away(tmp_path: Path) -> None:
    url = f"redis://app:{PASSWORD}@127.0.0.1:{free_port()}/0"
    done = streamlane("doctor", "--json", data_dir=tmp_path / "data", env={"STREAMLANE_REDIS_URL": url})
    assert done.code == 1
    assert done.json["settings"]["redis_url"] == f"set ({len(url)} chars)"
    assert {one["what"]: one["ok"] for one in done.json["findings"]} == {
        "python": True, "disk": True, "queue": False,
    }  # fmt: skip


def test_ingest_says_that_it_took_nothing_in_because_redis_is_away(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("# A note\n\nIt says something.\n")
    env = {"STREAMLANE_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    done = streamlane("ingest", str(tmp_path / "note.md"), "--no-wait", data_dir=tmp_path / "data", env=env)
    assert (done.code, "no document was taken in" in done.err) == (1, True), done


def test_a_database_that_the_server_has_not_is_one_sentence(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    url = redis_server.url.removesuffix("/0") + "/99"
    done = streamlane("queues", data_dir=tmp_path / "data", env={"STREAMLANE_REDIS_URL": url})
    assert done.code == 1
    assert "it has no database of this number: look at STREAMLANE_REDIS_URL" in done.err
    assert len(done.err.splitlines()) == 1


async def test_a_worker_says_where_the_queue_and_the_data_lie(started: Start, tmp_path: Path) -> None:
    server, log = started(), tmp_path / "log"
    env = {"STREAMLANE_REDIS_URL": server.url}
    process = start_streamlane("worker", "core", data_dir=tmp_path / "data", env=env, log=log)
    try:
        await wait_until(lambda: "stop with Ctrl-C" in log.read_text(), describe="it has begun", timeout=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = log.read_text()
    assert f"the queue is redis://127.0.0.1:{server.port}/0, the data lies in {tmp_path / 'data'};" in said
    assert PASSWORD not in said
