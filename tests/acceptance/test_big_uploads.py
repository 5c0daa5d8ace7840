"""Uploads to a real server: a big one comes in without being held in memory, and one that is too big is cut."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.commands import start_streamlane, streamlane
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MB = 1 << 20
LIMIT_MB = 200
GROWTH = 48 * MB
"""What a server of this kind may take in memory for an upload of any size."""
HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
LINE = b"All work and no play makes Jack a dull boy. " * 64


class Server:
    """The API in a process of its own, with a base."""

    def __init__(self, process: psutil.Process, url: str, key: str) -> None:
        self.process, self.key = process, key
        self.client = httpx.Client(base_url=f"{url}/api/v1", timeout=120)
        made = self.client.post(
            "/knowledge-bases", json={"name": "b"}, params={"tenant_id": 1}, headers={"X-API-Key": key}
        )
        self.url = f"/knowledge-bases/{made.json()['id']}/knowledge"

    def send(self, megabytes: int, key: str | None = None) -> tuple[httpx.Response, int]:
        """Send a text of so many megabytes in small parts; return the answer and by how much the server grew, in bytes."""
        before = grown = self.process.memory_info().rss

        def form() -> Iterator[bytes]:
            nonlocal grown
            yield HEAD
            for part in range(megabytes * MB // len(LINE)):
                yield LINE
                if part % 4096 == 0:
                    grown = max(grown, self.process.memory_info().rss)
            yield b"\r\n--x--\r\n"

        said = {"content-type": "multipart/form-data; boundary=x", "X-API-Key": key or self.key}
        answer = self.client.post(self.url, content=form(), headers=said)
        return answer, max(grown, self.process.memory_info().rss) - before


@pytest.fixture
async def server(tmp_path: Path):
    data, log = tmp_path / "data", tmp_path / "log"
    made = streamlane("keys", "create", "--name=a", "--json", "--capability=knowledge_write", data_dir=data)
    process = start_streamlane(
        "api", "--port=0", data_dir=data, log=log, env={"STREAMLANE_MAX_FILE_MB": str(LIMIT_MB)}
    )
    try:
        found = await wait_until(
            lambda: re.search(r"http://[\d.:]+", log.read_text()), describe="the API listens", timeout=60
        )
        serving = Server(psutil.Process(process.pid), found.group(), made.json["key"])
        yield serving
        serving.client.close()
    finally:
        process.terminate()
        process.wait(20)


async def test_an_upload_takes_no_memory_for_its_size(server: Server, tmp_path: Path) -> None:
    server.send(1)
    answer, growth = server.send(LIMIT_MB - 10)
    assert answer.status_code == 202
    assert growth < GROWTH
    (stored,) = (path for path in (tmp_path / "data" / "files").rglob("*") if path.stat().st_size > 100 * MB)
    assert stored.parent.name == "originals"

    for key in (None, "slk_nobody_knows"):
        answer, growth = server.send(LIMIT_MB + 100, key)
        assert (
            (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            if key
            else (413, "too_large")
        )
        assert growth < GROWTH
    left = [path for path in (tmp_path / "data" / "files").rglob("*") if path.is_file()]
    assert len(left) == 2
