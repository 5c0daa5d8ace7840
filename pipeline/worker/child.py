"""The child's side of `offload`: answers one call after another over a socket, and ends when its parent does.

Run as a script by its path, so that a child imports nothing but what its calls need.
A message is eight bytes of length and a pickle. The first one in is `sys.path`, the first one out `None`.
"""

import contextlib
import ctypes
import os
import pickle
import queue
import resource
import signal
import socket
import sys
import threading
import traceback
from typing import Any

HEADER_BYTES = 8
PARENT_DIED = 1  # PR_SET_PDEATHSIG
NICE = 5
SPARE_MB = 256
"""Stacks and buffers that are reserved and never touched: the parent watches what is really used."""
CPU_SPARE_S = 60
LONGEST_CPU_S = 1e9
TRACEBACK_CHARS = 8192
TEXT_CHARS = 8192

Answer = tuple[str, Any]
"""("result", value) · ("raised", exception) · ("error", (type name, text, traceback)) · ("memory", None)"""


def main(descriptor: int, parent: int) -> None:
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    _end_with(parent)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # a kill loses no line
    calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(channel, calls), daemon=True).start()
    sys.path[:] = pickle.loads(calls.get())  # noqa: S301 - from our own parent
    _send(channel, pickle.dumps(None))
    os.nice(NICE)  # the parent's event loop goes first
    while True:
        _send(channel, _answer(calls.get()))


def _end_with(parent: int) -> None:
    """Ask the kernel to kill this process with its parent: a C loop that holds the GIL hears nothing else.

    Not with `parent` 0, when a thread that may end before its process has started this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGKILL)
        if os.getppid() != parent:
            _end()


def _end() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _receive(channel: socket.socket, calls: "queue.SimpleQueue[bytes]") -> None:
    """Read for ever beside the running call, so that the end of the parent is seen at once."""
    while (header := _read(channel, HEADER_BYTES)) and (body := _read(channel, int.from_bytes(header))):
        calls.put(body)
    _end()


def _read(channel: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes, or none at the end of the stream."""
    read = bytearray()
    with contextlib.suppress(ConnectionError):
        while len(read) < size and (chunk := channel.recv(min(size - len(read), 1 << 20))):
            read += chunk
    return bytes(read) if len(read) == size else b""


def _send(channel: socket.socket, body: bytes) -> None:
    try:
        channel.sendall(len(body).to_bytes(HEADER_BYTES))
        channel.sendall(body)
    except ConnectionError:
        _end()


def _answer(request: bytes) -> bytes:
    answer = _call(request)
    try:
        return pickle.dumps(answer)
    except MemoryError:
        return pickle.dumps(("memory", None))
    except Exception as error:  # noqa: BLE001 - whatever a __reduce__ raises
        return pickle.dumps(_raised(TypeError(f"the result cannot be sent back: {error}")))


def _call(request: bytes) -> Answer:
    main_path, seconds, memory_mb, call = pickle.loads(request)  # noqa: S301 - from our own parent
    try:
        _limit(seconds, memory_mb)
        if main_path is not None:
            _adopt(*main_path)
        function, args = pickle.loads(call)  # noqa: S301 - as above
        return "result", function(*args)
    except MemoryError as error:
        return ("memory", None) if memory_mb is not None else _raised(error)
    except BaseException as error:  # noqa: BLE001 - a SystemExit of the function must not end the child
        return _raised(error)


def _limit(seconds: float, memory_mb: int | None) -> None:
    """Limits that the kernel keeps by itself: for a parent that is frozen, and for one huge allocation."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = usage.ru_utime + usage.ru_stime + seconds * (os.cpu_count() or 1) + CPU_SPARE_S
    _set_soft(resource.RLIMIT_CPU, int(min(cpu_s, LONGEST_CPU_S)))
    _set_soft(resource.RLIMIT_DATA, -1 if memory_mb is None else (memory_mb + SPARE_MB) << 20)


def _set_soft(kind: int, soft: int) -> None:
    hard = resource.getrlimit(kind)[1]
    with contextlib.suppress(ValueError, OSError):  # macOS knows the names and refuses some values
        resource.setrlimit(kind, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _adopt(module: str | None, path: str | None) -> None:
    """Give the parent's main module to functions and classes defined in it, without running its main part."""
    if "__mp_main__" in sys.modules:
        return
    import runpy

    adopted = type(sys)("__mp_main__")
    vars(adopted)["being_read_by_a_child"] = module or path  # a pipeline that it opens meanwhile is refused
    sys.modules["__mp_main__"] = sys.modules["__main__"] = adopted
    try:
        if module is not None:
            names = runpy.run_module(module, run_name="__mp_main__", alter_sys=False)
        else:
            names = runpy.run_path(str(path), run_name="__mp_main__")
    except BaseException:
        del sys.modules["__mp_main__"]  # the next call reads it again, and says the same
        raise
    finally:
        del vars(adopted)["being_read_by_a_child"]
    vars(adopted).update(names)


def _raised(error: BaseException) -> Answer:
    """The exception itself where it survives the way, its name and text where it does not."""
    trace = "In the child process:\n" + "".join(traceback.format_exception(error))[-TRACEBACK_CHARS:]
    if isinstance(error, Exception):
        with contextlib.suppress(Exception):  # whatever a __reduce__ or a constructor raises
            error.add_note(trace)
            pickle.loads(pickle.dumps(error))  # noqa: S301 - as above
            return "raised", error
    return "error", (type(error).__qualname__, _text(error), trace)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:TEXT_CHARS]
    except Exception as broken:  # noqa: BLE001 - whatever a __str__ raises
        return f"its text cannot be read: {type(broken).__name__}"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
