"""`streamlane backup` and `streamlane restore`."""

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from rich.markup import escape

from consumers.commands.ask import base_named
from consumers.commands.long_work import watched
from consumers.commands.session import TENANT, session
from consumers.commands.terminal import FAILED, OK, UNCHANGED, agreed, emit, err, moment, out, shown, table
from consumers.knowledge.backups import backing_up, recovering
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.backups import Backup
from consumers.knowledge.tables.knowledge import KnowledgeBase
from pipeline.errors import ConfigurationError

MOST = 1_000


async def create(kb_name: str, *, limit: float, as_json: bool) -> int:
    """Make a backup; return the exit code."""
    async with session(work=limit > 0) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.outbox.transaction() as sql:
            backup_id = await backing_up.ask_for(sql, kb.id)
        code = await watched(opened.services, backup_id, limit, as_json=as_json)
        async with opened.services.database.read() as sql:
            task = await tasks.find(sql, None, backup_id)
    if not as_json and task is not None:
        out.print(escape(f"backup {backup_id}: {shown(task.message)}"))
    return code


async def list_backups(kb_name: str | None, as_json: bool) -> int:
    """Print the backups that are kept."""
    async with session() as opened:
        kb_id = (await base_named(opened, kb_name)).id if kb_name else None
        async with opened.services.database.read() as sql:
            found = await backing_up.list_backups(sql, TENANT, kb_id, MOST)
    if as_json:
        emit({"backups": [_facts(one) for one in found]})
        return OK
    table(
        ("id", "base", "documents", "bytes", "made", "sha256"),
        [(one.id, one.name, one.documents, one.size, moment(one.created_at), one.sha256) for one in found],
    )
    return OK


async def save(ident: str, path: Path, as_json: bool) -> int:
    """Write an archive to a file, which is there whole or not at all."""
    async with session() as opened, recovering.archive_of(opened.services, ident) as archive:
        part = path.with_name(f"{path.name}.part")
        await asyncio.to_thread(shutil.copyfile, archive, part)
        part.replace(path)
    if as_json:
        emit({"backup": ident, "file": str(path)})
    else:
        out.print(escape(shown(f"written to {path}")))
    return OK


async def delete(ident: str, *, yes: bool, as_json: bool) -> int:
    """Remove a backup; return the exit code."""
    async with session() as opened:
        services = opened.services
        async with services.database.read() as sql:
            found = await backing_up.find(sql, TENANT, ident)
        if found is None:
            raise ConfigurationError(f"no backup is called {ident[:128]}; see streamlane backup list")
        if not await agreed(f"Delete backup {ident} of {found.name}?", yes=yes):
            out.print(UNCHANGED)
            return FAILED
        await backing_up.remove(services.database, services.files, found)
    if as_json:
        emit({"deleted": _facts(found)})
    else:
        out.print("deleted")
    return OK


async def restore(source: str, name: str | None, as_json: bool) -> int:
    """Make a base of an archive or a backup; return the exit code."""

    async def note(what: str, count: int) -> None:
        if err.is_terminal:
            err.print(f"{what}: {count:,}", markup=False)

    async with session() as opened, AsyncExitStack() as held:
        path = Path(source)
        if not await asyncio.to_thread(path.is_file):
            path = await held.enter_async_context(recovering.archive_of(opened.services, source))
        goal = await recovering.from_file(opened.services, path, TENANT, name, note)
        async with opened.services.database.read() as sql:
            kb = await sql.get_one(KnowledgeBase, goal.kb_id)
    if as_json:
        emit({"knowledge_base_id": goal.kb_id, "name": goal.name, "embedding_model": kb.embedding_model})
    else:
        out.print(escape(f"restored as {shown(goal.name)}"))
    return OK


def _facts(one: Backup) -> dict[str, Any]:
    names = ("id", "name", "base_id", "documents", "size", "sha256", "created_at")
    return {name: getattr(one, name) for name in names}
