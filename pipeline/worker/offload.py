"""Runs a function in a child process that can be killed, whatever it is doing.

For work that may hold the GIL for long, grow without measure or crash: parsers, regular expressions, model
inference. A child is a protection against accidents, not a sandbox: it has all rights of its parent.
Children are fresh interpreters (never a fork of this threaded one), kept warm between calls.
"""

import asyncio
import contextlib
import fcntl
import functools
import math
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")

HEADER_BYTES = 8
START_S = 60
GONE_S = 5
WATCH_S = 0.05
CALLS_PER_CHILD = 200
WARM_MB = 512
STDERR_TAIL = 2048
STDERR_LIMIT = 16 << 20
OUT_OF_MEMORY = ("memory allocation of", "std::bad_alloc", "MemoryError")  # how native code says it


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


class _Child:
    """One process, its socket and its stderr. Holds nothing of an event loop, so that any loop may use it."""

    def __init__(self) -> None:
        self.calls = 0
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
                stdout=self._stderr,
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

    def used_mb(self) -> float:
        """Memory in use, MiB; 0 when the process is gone. Cuts back what it has written meanwhile."""
        import psutil

        if os.fstat(self._stderr.fileno()).st_size > STDERR_LIMIT:
            os.ftruncate(self._stderr.fileno(), 0)
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


class ChildPool:
    """At most `size` children, started when needed and kept for the next call.

    A child serves `calls_per_child` calls, and no further one after a call that left it above `warm_mb`.
    May be used from several event loops and threads; `close` it from one of them.
    """

    def __init__(
        self, size: int, *, calls_per_child: int = CALLS_PER_CHILD, warm_mb: float = WARM_MB
    ) -> None:
        if size < 1:
            raise ValueError(f"a pool of {size} children can run nothing; give a size of at least 1")
        self._free, self._calls_per_child, self._warm_mb = size, calls_per_child, warm_mb
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()
        self._closed = False
        weakref.finalize(self, _end_all, self._children, os.getpid())  # also at the interpreter's exit

    async def run(
        self, fn: Callable[..., R], /, *args: object, timeout: float, memory_mb: int | None = None
    ) -> R:
        """Call `fn(*args)` in a child and return or raise what it does. All of it must be picklable.

        `timeout`, in seconds, counts from the moment a child is ready. `memory_mb` limits the whole process, its
        interpreter and libraries included. Cancelling the caller kills the child.
        Raises ChildTimeout, ChildOutOfMemory, ChildDied, and ChildError for an exception that cannot be pickled.
        """
        request = _request(fn, args, timeout, memory_mb)
        async with self._slot():
            child = await self._ready_child()
            try:
                kind, value = await _answer(child, request, timeout, memory_mb)
                if kind == "memory" and memory_mb is not None:
                    raise ChildOutOfMemory(memory_mb)
            except BaseException:
                await self._retire(child)
                raise
            child.calls += 1
            if self._closed or child.calls >= self._calls_per_child or child.used_mb() > self._warm_mb:
                await self._retire(child)
            else:
                self._idle.append(child)
        if kind == "raised":
            raise value
        if kind == "error":
            type_name, text, trace = value
            error = ChildError(type_name, text)
            error.add_note(trace)
            raise error
        result: R = value
        return result

    @property
    def closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        """Kill every child, running or idle, and refuse further calls. A call that was running raises ChildDied."""
        self._closed = True
        for child in tuple(self._children):
            child.kill()
        while self._idle:
            await self._retire(self._idle.pop())

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """The right to use one child, in the order of asking."""
        turn: Future[None] = Future()
        with self._lock:
            self._waiting.append(turn)
        self._give_turns()
        try:
            await asyncio.wrap_future(turn)
            yield
        finally:
            if not turn.cancel():  # it had come, perhaps in the very moment of being cancelled
                with self._lock:
                    self._free += 1
            self._give_turns()

    def _give_turns(self) -> None:
        with self._lock:
            while self._free and self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    self._free -= 1
                    turn.set_result(None)

    async def _ready_child(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await self._retire(child)
        if self._closed:
            raise RuntimeError("the pool of child processes is closed; open a new one")
        child = _Child()
        self._children.add(child)
        try:
            async with asyncio.timeout(START_S):
                await child.send(pickle.dumps(sys.path))
                await child.receive()
        except TimeoutError:
            await self._retire(child)
            raise ChildTimeout(START_S) from None
        except BaseException:
            await self._retire(child)
            raise
        return child

    async def _retire(self, child: _Child) -> None:
        """Kill at once; then wait till it is gone, even when the caller is cancelled again."""
        child.kill()
        try:
            await child.gone()
        finally:
            child.reap()
            self._children.discard(child)


async def run_in_child(
    fn: Callable[..., R], /, *args: object, timeout: float, memory_mb: int | None = None
) -> R:
    """`ChildPool.run` on the pool of this process, which has as many children as the machine has processors.

    Raises what `fn` raises, and TimeoutError, MemoryError or ChildProcessError when the child was stopped or died.
    """
    return await _default_pool(os.getpid()).run(fn, *args, timeout=timeout, memory_mb=memory_mb)


async def close_children() -> None:
    """Close the pool behind `run_in_child`. A later call opens another."""
    pool = _default_pool(os.getpid())
    _default_pool.cache_clear()
    await pool.close()


@functools.cache
def _default_pool(_process: int) -> ChildPool:
    """The pool of the calling process, whose id is the key: a fork must not use its parent's children."""
    return ChildPool(os.cpu_count() or 1)


def _end_all(children: set[_Child], owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner has copies of them, and no right to them
        return
    for child in tuple(children):
        child.kill()
    while children:
        children.pop().reap()


def _request(
    fn: Callable[..., object], args: tuple[object, ...], timeout: float, memory_mb: int | None
) -> bytes:
    try:
        call = pickle.dumps((fn, args))
    except Exception as error:
        raise TypeError(
            f"{fn!r} or an argument cannot be sent to a child process ({error});"
            " give a function defined at the top of a module, and plain data"
        ) from error
    return pickle.dumps((_main_module() if b"__main__" in call else None, timeout, memory_mb, call))


def _main_module() -> tuple[str | None, str | None]:
    """Where a child finds the main module: by name when started with `-m`, else by path."""
    main = sys.modules["__main__"]
    sys.modules.setdefault("__mp_main__", main)  # so that what comes back finds its class
    if main.__spec__ is not None:
        return main.__spec__.name, None
    if path := getattr(main, "__file__", None):
        return None, str(Path(path).resolve())
    raise TypeError("a function typed at a prompt cannot be sent to a child process; define it in a file")


async def _answer(child: _Child, request: bytes, timeout: float, memory_mb: int | None) -> tuple[str, Any]:
    """Send, then wait for the answer, the end of the time or of the memory, whichever comes first."""
    watch = asyncio.create_task(_watch(child, memory_mb))
    try:
        async with asyncio.timeout(timeout):
            await child.send(request)
            answer: tuple[str, Any] = await child.receive()
            return answer
    except TimeoutError:
        raise ChildTimeout(timeout) from None
    except ChildDied as death:
        if memory_mb is not None and (watch.done() or any(words in death.stderr for words in OUT_OF_MEMORY)):
            raise ChildOutOfMemory(memory_mb) from death
        raise
    finally:
        watch.cancel()


async def _watch(child: _Child, memory_mb: int | None) -> None:
    """Kill the child when it uses too much, and return; the answer then never comes."""
    while child.used_mb() <= (memory_mb or math.inf):  # noqa: ASYNC110 - nothing announces memory
        await asyncio.sleep(WATCH_S)
    child.kill()
