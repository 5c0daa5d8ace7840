"""Runs a function in a child process that can be killed, whatever it is doing.

For work that may hold the GIL for long, grow without measure or crash: parsers, regular expressions, model
inference. A child is a protection against accidents, not a sandbox: it has all rights of its parent.
Children are fresh interpreters (never a fork of this threaded one), kept warm between calls.
"""

import asyncio
import contextlib
import functools
import math
import os
import pickle
import sys
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import ConfigurationError
from pipeline.worker.process import Child, ChildDied, ChildError, ChildOutOfMemory, ChildTimeout

R = TypeVar("R")

START_S = 60
WATCH_S = 0.05
CALLS_PER_CHILD = 200
WARM_MB = 512
OUT_OF_MEMORY = ("memory allocation of", "std::bad_alloc", "MemoryError")  # how native code says it


class ChildPool:
    """At most `size` children, started when needed and kept for the next call.

    A child serves `calls_per_child` calls, and no further one after a call that left it above `warm_mb`.
    `aloud`, what they print is heard. May be used from several event loops and threads; `close` it from one of them.
    """

    def __init__(
        self,
        size: int,
        *,
        aloud: bool = False,
        calls_per_child: int = CALLS_PER_CHILD,
        warm_mb: float = WARM_MB,
    ) -> None:
        if size < 1:
            raise ValueError(f"a pool of {size} children can run nothing; give a size of at least 1")
        self._free, self._aloud = size, aloud
        self._calls_per_child, self._warm_mb = calls_per_child, warm_mb
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._idle: list[Child] = []
        self._children: set[Child] = set()
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
        refuse_while_read()
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

    async def _ready_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            await self._retire(child)
        if self._closed:
            raise RuntimeError("the pool of child processes is closed; open a new one")
        child = Child(aloud=self._aloud)
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

    async def _retire(self, child: Child) -> None:
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


def refuse_while_read() -> None:
    """Refuse to work in a child process that only reads the main module: it would do all over again what started it.

    Raises ConfigurationError naming what is missing there.
    """
    if name := getattr(sys.modules["__main__"], "being_read_by_a_child", None):
        raise ConfigurationError(
            f"{name} is read by each child process that runs one of its functions, so what it starts belongs under"
            ' `if __name__ == "__main__":`'
        )


def _end_all(children: set[Child], owner: int) -> None:
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


async def _answer(child: Child, request: bytes, timeout: float, memory_mb: int | None) -> tuple[str, Any]:
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
        child.pass_on()


async def _watch(child: Child, memory_mb: int | None) -> None:
    """Pass on what the child says. Kill it when it uses too much, and return; the answer then never comes."""
    while child.used_mb() <= (memory_mb or math.inf):
        child.pass_on()
        await asyncio.sleep(WATCH_S)
    child.kill()
