"""`streamlane serve` and `streamlane api` as their users run them: processes that say where they are and how to get in."""

import asyncio
import json
import re
import signal
import socket
import urllib.error
import urllib.request
from contextlib import contextmanager

import httpx
import pytest
from consumers.api import api_of, listening

from tests.support.commands import start_streamlane, streamlane
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
SESSION = "api/v1/system/admin/session"


@contextmanager
def started(*args, tmp_path):
    log = tmp_path / "log"
    process = start_streamlane(*args, data_dir=tmp_path / "data", log=log)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


async def introduced(log):
    """Where it says that it listens, and the password if it says one."""
    found = await wait_until(
        lambda: re.search(r"(http://\S+/).*?(?:password (\S+),|$)", log.read_text(), re.MULTILINE),
        describe="it says where it listens",
        timeout=60,
    )
    return found.group(1), found.group(2)


def call(url, body=None):
    request = urllib.request.Request(url, data=json.dumps(body).encode() if body else None)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("command", [("serve", "--lite"), ("api",)], ids=" ".join)
async def test_it_says_once_how_to_sign_in_and_ends_in_peace(tmp_path, command):
    with started(*command, "--port=0", tmp_path=tmp_path) as (process, log):
        address, password = await introduced(log)
        assert call(f"{address}readyz") == (200, {"status": "ready"})
        assert call(f"{address}{SESSION}", {"name": "admin", "password": "wrong"})[0] == 401
        status, session = call(f"{address}{SESSION}", {"name": "admin", "password": password})
        assert (status, session["name"]) == (200, "admin")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    with started(*command, "--port=0", tmp_path=tmp_path) as (process, log):
        assert (await introduced(log))[1] is None
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


async def test_it_ends_in_peace_while_pages_listen(tmp_path):
    with started("api", "--port=0", tmp_path=tmp_path) as (process, log):
        address, password = await introduced(log)
        async with httpx.AsyncClient(base_url=address) as client:
            await client.post("/sign-in", data={"name": "admin", "password": password})
            async with client.stream("GET", "/live") as stream:
                assert stream.status_code == 200
                process.send_signal(signal.SIGINT)
                assert await asyncio.to_thread(process.wait, 20) == 0
        assert "Traceback" not in log.read_text()


async def test_serving_works_on_what_is_queued(tmp_path):
    paper = tmp_path / "a.txt"
    paper.write_text("Streamlane keeps every job until it is done.")
    queued = streamlane("ingest", str(paper), "--no-wait", "--json", data_dir=tmp_path / "data")
    assert queued.code == 0, queued.err
    with started("serve", "--lite", "--port=0", tmp_path=tmp_path) as (_, log):
        address, _ = await introduced(log)

        def idle():
            said = streamlane("queues", "--json", data_dir=tmp_path / "data").json["queues"]
            return not any(queue["size"] for queue in said) and any(queue["processed"] for queue in said)

        await wait_until(idle, describe="all jobs are done", timeout=90, longest_pause=1)
        assert call(f"{address}healthz")[0] == 200


def test_a_port_that_is_taken_is_said_so(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = streamlane("api", f"--port={taken.getsockname()[1]}", data_dir=tmp_path)
    assert said.code == 1
    assert "another process listens there already; choose another with --port" in said.err
    assert "Traceback" not in said.err


def test_administrators_are_added_listed_and_removed(tmp_path):
    made = streamlane("admins", "add", "ann", "--json", data_dir=tmp_path)
    assert len(made.json["password"]) >= 20
    assert streamlane("admins", "list", "--json", data_dir=tmp_path).json == {"admins": ["ann"]}
    assert streamlane("admins", "remove", "ann", data_dir=tmp_path).code == 0
    assert streamlane("admins", "remove", "ann", data_dir=tmp_path).code == 1


async def test_the_address_that_is_told_can_be_called_and_a_taken_port_is_named(pipeline, database):
    app = api_of(pipeline, database)
    async with listening(app, "0.0.0.0", 0) as address:
        assert (await asyncio.to_thread(call, f"{address}healthz"))[0] == 200
        port = int(address.rstrip("/").rpartition(":")[2])
        assert address == f"http://127.0.0.1:{port}/"
        with pytest.raises(OSError, match="another process listens there already; choose another"):
            async with listening(app, "0.0.0.0", port):
                pass
