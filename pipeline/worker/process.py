"""A child process that answers calls: how it is started, spoken to and killed, and what may happen to it."""

import asyncio
import contextlib
import fcntl
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

HEADER_BYTES: Final = 8
GONE_S: Final = 5
STDERR_TAIL: Final = 2048
STDERR_LIMIT: Final = 16 << 20


class ChildFailure(Exception):  # noqa: N818 - named by what happened
    """The call has no answer of its own: something happened to the process that ran it.

    Each kind is one of the standard library too, so that a caller needs no other name than `run_in_child`.
    """


class ChildTimeout(ChildFailure, TimeoutError):  # noqa: N818
    """The call took longer than `seconds` and its process was killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the call took longer than {self.seconds:g} s and its process was killed"


class ChildOutOfMemory(ChildFailure, MemoryError):  # noqa: N818
    """The process wanted more than `memory_mb` and was stopped."""

    def __init__(self, memory_mb: int) -> None:
        super().__init__(memory_mb)
        self.memory_mb = memory_mb

    def __str__(self) -> str:
        return f"the call needed more than {self.memory_mb} MiB of memory and its process was stopped"


class ChildDied(ChildFailure, ChildProcessError):  # noqa: N818
    """The process ended by itself: `code` is its exit code, or minus the signal that killed it."""

    def __init__(self, code: int, stderr: str = "") -> None:
        super().__init__(code, stderr)
        self.code, self.stderr = code, stderr

    @property
    def signal(self) -> int | None:
        return -self.code if self.code < 0 else None

    def __str__(self) -> str:
        how = f"was killed by signal {-self.code}" if self.code < 0 else f"exited with code {self.code}"
        return f"the process of the call {how}" + (f": {self.stderr}" if self.stderr else "")


class ChildError(ChildFailure):
    """The function raised something that cannot travel: its type's name and its text instead."""

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(type_name, text)
        self.type_name, self.text = type_name, text

    def __str__(self) -> str:
        return f"{self.type_name}: {self.text}"


class Child:
    """One process, its socket and its stderr. Holds nothing of an event loop, so that any loop may use it.

    What it writes is kept for its last words; `aloud`, it also goes where this process writes.
    """

    def __init__(self, *, aloud: bool = False) -> None:
        self.calls = 0
        self._aloud, self._passed_on = aloud, 0
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        fcntl.fcntl(self._stderr, fcntl.F_SETFL, os.O_APPEND)  # so that cutting it back leaves no hole
        # The kernel ties a child to the thread that started it: only the main thread lives as long as the process.
        parent = os.getpid() if threading.current_thread() is threading.main_thread() else 0
        script = str(Path(__file__).with_name("child.py"))
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-P", "-X", "faulthandler", script, str(theirs.fileno()), str(parent)],
                stdin=subprocess.DEVNULL,
                stdout=None if aloud else self._stderr,
                stderr=self._stderr,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process and whatever it started. It may take a moment to be gone."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: macOS, of a zombie
            os.killpg(self._process.pid, signal.SIGKILL)

    async def send(self, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):  # a dead child is noticed by receive, which knows why
            await loop.sock_sendall(self._socket, len(body).to_bytes(HEADER_BYTES))
            await loop.sock_sendall(self._socket, body)

    async def receive(self) -> Any:
        """The next message. Raises ChildDied when there will be none."""
        header = await self._read(HEADER_BYTES)
        return pickle.loads(await self._read(int.from_bytes(header)))  # noqa: S301 - from our own process

    async def _read(self, size: int) -> bytearray:
        loop, read = asyncio.get_running_loop(), bytearray(size)
        left = memoryview(read)
        while left:
            try:
                got = await loop.sock_recv_into(self._socket, left)
            except ConnectionError:
                got = 0
            if not got:
                self.kill()
                raise ChildDied(await self.gone(), self._last_words())
            left = left[got:]
        return read

    async def gone(self) -> int:
        """Wait until the killed process is gone and return its code. The socket ends just before it does."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(GONE_S):
                while await loop.sock_recv(self._socket, 1 << 20):
                    pass
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1)
        return self._process.poll() or 0

    def reap(self) -> None:
        """Let go of a killed process, from whatever thread, without an event loop."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GONE_S)
        self._socket.close()
        self._stderr.close()

    def pass_on(self) -> None:
        """Write to our stderr, if it is to, what the child has written to its own since; cut back what is kept."""
        kept = self._stderr.fileno()
        size = os.fstat(kept).st_size
        if self._aloud and size > self._passed_on:
            said = os.pread(kept, size - self._passed_on, self._passed_on)
            self._passed_on = size
            with contextlib.suppress(OSError, ValueError):  # nobody listens
                sys.stderr.flush()
                os.write(2, said)
        if size > STDERR_LIMIT:
            os.ftruncate(kept, 0)
            self._passed_on = 0

    def used_mb(self) -> float:
        """Memory in use, MiB; 0 when the process is gone."""
        import psutil

        try:
            return float(psutil.Process(self._process.pid).memory_info().rss) / (1 << 20)
        except psutil.Error:
            return 0

    def _last_words(self) -> str:
        size = os.fstat(self._stderr.fileno()).st_size
        return (
            os.pread(self._stderr.fileno(), STDERR_TAIL, max(0, size - STDERR_TAIL))
            .decode(errors="replace")
            .strip()
        )
