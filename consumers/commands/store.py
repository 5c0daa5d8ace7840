"""`streamlane reembed` and `curate`: heavy work on the store of a base, followed to its end."""

from typing import Literal

from rich.markup import escape

from consumers.commands.ask import base_named
from consumers.commands.long_work import watched
from consumers.commands.session import session
from consumers.commands.terminal import out, shown
from consumers.knowledge.embedding.embedder import ModelUnavailable
from consumers.knowledge.graph import curating
from consumers.knowledge.long_work import tasks
from consumers.knowledge.upkeep import reembedding
from pipeline.errors import ConfigurationError


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
        return await watched(services, task_id, limit, as_json=as_json)


async def curate(
    kb_name: str, action: Literal["merge", "prune", "all"], *, dry_run: bool, limit: float, as_json: bool
) -> int:
    """Put a graph into order, or only say what would be done. Returns the exit code."""
    async with session(work=limit > 0) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.outbox.transaction() as sql:
            task_id = await curating.ask_for(sql, kb.id, action, dry_run=dry_run)
        code = await watched(opened.services, task_id, limit, as_json=as_json)
        async with opened.services.database.read() as sql:
            task = await tasks.find(sql, None, task_id)
    if task is not None and not as_json:
        out.print(escape(shown(task.message)))
        for group in task.detail.get("merged", ()):
            out.print(
                escape(shown(f"  {group['into']} ← {', '.join(group['names'])} ({', '.join(group['why'])})"))
            )
    return code
