"""`streamlane faq`: ready answers, imported, listed, searched and deleted."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, cast

from rich.markup import escape

from consumers.commands.ask import base_named
from consumers.commands.session import Session, session
from consumers.commands.terminal import FAILED, OK, agreed, emit, out, say, shown
from consumers.knowledge.answers.faq_asking import fitting
from consumers.knowledge.bases.knowledge_bases import ensure_base
from consumers.knowledge.faq import storing
from consumers.knowledge.faq.importing import Plan, Start, begin, stored_file
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.faq import FAQEntry
from consumers.knowledge.tables.tasks import Task
from consumers.operator import operator
from contracts.identity import new_id
from contracts.tasks import TASK_OPEN, TaskStatus
from pipeline.errors import ConfigurationError

LOOK_S: Final = 0.2
LIMIT_S: Final = 6 * 3600


async def import_file(
    file: Path, kb_name: str, mode: str, as_json: bool, *, tenant: int, dry: bool, wait: bool
) -> int:
    """Import a file; return the exit code."""
    task_id = new_id()
    async with session(work=wait, tenant=tenant) as opened:
        services = opened.services
        async with services.outbox.transaction() as sql:
            kb = await ensure_base(sql, tenant, kb_name)
        source = await stored_file(services.files, task_id, file, file.name)
        plan = Plan(
            task_id=task_id, mode=cast("Literal['append', 'replace']", mode), dry_run=dry, user=operator()
        )
        started, _ = await begin(services.outbox, services.files, kb, plan, source)
        if started is not Start.STARTED:
            raise ConfigurationError(f"another import of {kb_name!r} is running: wait for it, or cancel it")
        if not wait:
            _say({"task_id": task_id, "kb": kb_name}, f"task {task_id}; any worker does it", as_json)
            return OK
        task = await _ended(opened, task_id)
    return _tell(task, as_json)


async def _ended(opened: Session, task_id: str) -> Task:
    async with asyncio.timeout(LIMIT_S):
        while True:
            async with opened.services.database.read() as sql:
                found = await tasks.find(sql, opened.tenant, task_id)
            if found is None:
                raise ConfigurationError(f"the task {task_id} is gone")
            if found.status not in TASK_OPEN:
                return found
            await asyncio.sleep(LOOK_S)


def _tell(task: Task, as_json: bool) -> int:
    faults = task.detail.get("failed_entries", [])
    if as_json:
        emit({"task_id": task.id, "status": task.status, "message": task.message, "error": task.error,
              "total": task.total, "failed": task.failed, "failed_entries": faults})  # fmt: skip
    else:
        out.print(escape(task.message or task.error))
        for fault in faults:
            out.print(f"  row {fault['row']}: {escape(shown(fault['reason'], 200))}")
        if task.failed > len(faults):
            say(f"{task.failed - len(faults)} more rows could not be taken")
    return OK if task.status is TaskStatus.COMPLETED and not task.failed else FAILED


async def list_entries(kb_name: str, contains: str, limit: int, as_json: bool, *, tenant: int) -> int:
    """Print entries of a base; return the exit code."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.database.read() as sql:
            rows = await storing.entries_of(sql, kb.id, limit=limit, contains=contains)
    _list([(row, None) for row in rows], kb_name, as_json)
    return OK


async def search_entries(query: str, kb_name: str, limit: int, as_json: bool, *, tenant: int) -> int:
    """Print the entries that fit a question; return the exit code."""
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        found = await fitting(opened.services, kb, query, limit)
    _list(found, kb_name, as_json)
    return OK if found else FAILED


async def delete_some(ids: Sequence[str], kb_name: str, as_json: bool, *, tenant: int, yes: bool) -> int:
    """Delete entries; return the exit code."""
    if not await agreed(f"Delete {len(ids)} questions of {kb_name!r}?", yes=yes):
        return FAILED
    async with session(tenant=tenant) as opened:
        kb = await base_named(opened, kb_name)
        async with opened.services.outbox.transaction() as sql:
            gone = await storing.delete_entries(sql, opened.services.search, kb.id, ids)
    _say({"kb": kb_name, "deleted": gone}, f"{gone} deleted", as_json)
    return OK if gone == len(set(ids)) else FAILED


def _list(rows: Sequence[tuple[FAQEntry, float | None]], kb_name: str, as_json: bool) -> None:
    if as_json:
        names = ("id", "question", "answers", "similar_questions", "negative_questions", "enabled")
        entries = [
            {name: getattr(row, name) for name in names}
            | ({} if score is None else {"score": round(score, 4)})
            for row, score in rows
        ]
        emit({"kb": kb_name, "entries": entries})
        return
    for row, score in rows:
        fit = "" if score is None else f"{score:.2f}  "
        off = "" if row.enabled else " (off)"
        out.print(f"{fit}[bold]{escape(shown(row.question, 200))}[/bold]{off}  {row.id}")
        for answer in row.answers:
            out.print(f"  {escape(shown(answer, 400))}")
    if not rows:
        out.print("no question with a ready answer; `streamlane faq import FILE` brings some")


def _say(value: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        emit(value)
    else:
        out.print(escape(text))
