"""How a handler runs: a coroutine in the event loop, a function in a thread or in a child process."""

import asyncio
import contextvars
import inspect
import math
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

from contracts.jobs import JobPayload
from pipeline.errors import ConfigurationError
from pipeline.handlers import Context, Handler
from pipeline.worker.attempt import Attempt, Told
from pipeline.worker.offload import ChildPool
from pipeline.worker.process import ChildTimeout

Place = Literal["loop", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Rooms:
    """Threads and child processes for as many handlers as there are slots, so that none waits for another."""

    threads: ThreadPoolExecutor
    children: ChildPool

    @classmethod
    def of(cls, slots: int) -> Self:
        """Make room for `slots` handlers; what is not used costs nothing."""
        slots = max(slots, 1)
        return cls(
            ThreadPoolExecutor(slots, thread_name_prefix="streamlane handler"), ChildPool(slots, aloud=True)
        )

    async def close(self) -> None:
        """End the children and the threads that are idle; a thread that is busy ends with its handler."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        await self.children.close()


def place(handler: Handler) -> Place:
    """Return where a handler runs. Raises ConfigurationError for a coroutine that is to run in a child process."""
    run = handler.run
    called = getattr(run, "__call__", run)  # noqa: B004 - an object may have an async __call__
    coroutine = inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(called)
    if handler.offload is None:
        return "loop" if coroutine else "thread"
    if coroutine:
        name = handler.payload.spec.type
        raise ConfigurationError(f"{name}: only a plain def can run in a child process, not an async def")
    return "process"


async def invoke(
    where: Place,
    handler: Handler,
    payload: JobPayload,
    context: Context[Any],
    attempt: Attempt,
    rooms: Rooms,
) -> object:
    """Run a handler and return what it returns, or raise what it raises.

    To stop means: a coroutine is cancelled, a child process killed, a thread waited for.
    """
    if where == "thread":
        answer = await _in_thread(rooms.threads, lambda: handler.run(payload, context))
        if not inspect.isawaitable(answer):
            return answer
        with attempt:
            return await answer
    with attempt:
        if where == "loop":
            return await cast("Awaitable[object]", handler.run(payload, context))
        try:
            function = cast("Callable[[JobPayload], object]", handler.run)
            return await rooms.children.run(function, payload, timeout=attempt.limit_s or math.inf)
        except ChildTimeout:
            attempt.tell(Told.TIMEOUT)
            raise


async def calmed(attempt: Attempt, said: object) -> object:
    """Return what a handler said, once no cancellation is left in its task, whoever asked for it and however late.

    One that cancelled its own task and returned before that took effect was cancelled.
    Raises CancelledError when every task is cancelled: the loop is being closed.
    """
    task = asyncio.current_task()
    own = task.cancelling() if task is not None else 0
    if task is None or not (own or attempt.told):
        return said
    if own and all(one.cancelling() for one in asyncio.all_tasks()):
        raise asyncio.CancelledError
    try:
        await asyncio.sleep(0)  # what is still to be delivered comes now, and not while the end is confirmed
    except asyncio.CancelledError as late:
        if own and not isinstance(said, BaseException):
            said = late
    while task.uncancel():
        pass
    return said


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


async def _in_thread(threads: ThreadPoolExecutor, function: Callable[[], object]) -> object:
    def call() -> object:
        try:
            return function()
        except BaseException as error:  # noqa: BLE001 - a future refuses a StopIteration
            return _Raised(error)

    inside = contextvars.copy_context()
    answer = await asyncio.get_running_loop().run_in_executor(threads, inside.run, call)
    if isinstance(answer, _Raised):
        raise answer.error
    return answer
