"""Long work as a command watches it: how far it is, and what it came to."""

import asyncio
from typing import Any, Final

from consumers.commands.terminal import FAILED, OK, emit, err, out, say
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.tasks import Task
from consumers.services import Services
from contracts.tasks import TASK_OPEN, TaskStatus

LOOK_S: Final = 0.2


async def watched(services: Services, task_id: str, limit: float, *, as_json: bool) -> int:
    """Wait for the end of a task, at most `limit` seconds, and print what it came to; return the exit code."""
    task = await _ended(services, task_id, limit)
    if task is None:
        raise LookupError(f"the task {task_id} is gone")
    over = task.status not in TASK_OPEN
    if as_json:
        emit(_facts(task))
    elif over:
        failed = f"; {task.failed} of {task.processed} failed" if task.failed else ""
        out.print(f"{task.status}{failed}" + (f": {task.error}" if task.error else ""), markup=False)
    else:
        out.print(
            f"task {task_id} has been started; a worker does it (`streamlane worker background`)",
            markup=False,
        )
    if over:
        return OK if task.status is TaskStatus.COMPLETED else FAILED
    if limit:
        say("it has not ended yet; any worker goes on with it")
    return FAILED if limit else OK


async def _ended(services: Services, task_id: str, limit: float) -> Task | None:
    """Return a task as it is once it has ended, or after `limit` seconds."""
    said = ""
    end = asyncio.get_running_loop().time() + limit
    while True:
        async with services.database.read() as session:
            task = await tasks.find(session, None, task_id)
        if task is None or task.status not in TASK_OPEN or asyncio.get_running_loop().time() >= end:
            return task
        now = f"{task.processed} of {task.total}" + (f": {task.message}" if task.message else "")
        if now != said and task.processed and err.is_terminal:
            err.print(now, markup=False)
            said = now
        await asyncio.sleep(LOOK_S)


def _facts(task: Task) -> dict[str, Any]:
    names = (
        "kind",
        "status",
        "total",
        "processed",
        "failed",
        "message",
        "error",
        "detail",
        "knowledge_base_id",
    )
    return {"task_id": task.id, **{name: getattr(task, name) for name in names}}
