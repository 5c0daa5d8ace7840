"""`streamlane reembed` and `curate`: heavy work on the store of a base, followed to its end."""

import asyncio
from typing import Any, Final, Literal

from rich.markup import escape

from consumers.commands.ask import base_named
from consumers.commands.session import Session, session
from consumers.commands.terminal import FAILED, OK, emit, err, out, say, shown
from consumers.knowledge import curating, reembedding, tasks
from consumers.knowledge.embedding import ModelUnavailable
from consumers.knowledge.tables_tasks import Task
from contracts.tasks import TASK_OPEN, TaskStatus
from pipeline.errors import ConfigurationError

LOOK_S: Final = 0.3


async def reembed(
    kb_name: str, model: str, dimension: int | None, *, again: bool, limit: float, as_json: bool
) -> int:
    """Begin to embed a base anew; work until it is done, at most `limit` seconds. Returns the exit code."""
    async with session(work=limit > 0) as opened:
        services, kb = opened.services, await base_named(opened, kb_name)
        try:
            numbers = dimension or services.embedders.dimension_of(model)
            async with services.outbox.transaction() as sql:
                task_id = await reembedding.ask_for(
                    sql, services.embedders, kb.id, model, numbers, again=again
                )
        except ModelUnavailable as lack:
            raise ConfigurationError(str(lack)) from None
        return await follow(opened, task_id, limit, as_json=as_json)


async def curate(
    kb_name: str, action: Literal["merge", "prune", "all"], *, dry_run: bool, limit: float, as_json: bool
) -> int:
    """Put a graph into order, or only say what would be done. Returns the exit code."""
    async with session(work=limit > 0) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.outbox.transaction() as sql:
            task_id = await curating.ask_for(sql, kb.id, action, dry_run=dry_run)
        code = await follow(opened, task_id, limit, as_json=as_json)
        task = await _look(opened, task_id)
    if not as_json:
        for group in task.detail.get("merged", ()):
            out.print(
                escape(shown(f"  {group['into']} ← {', '.join(group['names'])} ({', '.join(group['why'])})"))
            )
    return code


async def follow(opened: Session, task_id: str, limit: float, *, as_json: bool) -> int:
    """Say how far a task is until it ends, at most `limit` seconds; return the exit code."""
    said = ""
    try:
        async with asyncio.timeout(limit):
            while (task := await _look(opened, task_id)).status in TASK_OPEN:
                if task.message != said:
                    said = task.message
                    err.print(escape(shown(said)))
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        task = await _look(opened, task_id)
    return tell(task, as_json=as_json)


def tell(task: Task, *, as_json: bool) -> int:
    """Say what became of a task; return the exit code."""
    if as_json:
        emit(facts(task))
    elif task.status is TaskStatus.FAILED:
        say(task.error)
    elif task.status in TASK_OPEN:
        out.print(f"asked for: task {task.id}; any worker of pool ks does it")
    else:
        out.print(escape(shown(task.message or str(task.status))))
    return OK if task.status in {TaskStatus.COMPLETED, *TASK_OPEN} else FAILED


def facts(task: Task) -> dict[str, Any]:
    """Return what scripts are told of a task."""
    told = {
        name: getattr(task, name) for name in ("total", "processed", "failed", "message", "error", "detail")
    }
    return {"task_id": task.id, "kind": task.kind, "status": str(task.status), **told}


async def _look(opened: Session, task_id: str) -> Task:
    async with opened.services.database.read() as sql:
        task = await tasks.find(sql, None, task_id)
    if task is None:
        raise ConfigurationError(f"no task {task_id} (any more)")
    return task
