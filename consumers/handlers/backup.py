"""Backups of knowledge bases, and bases made of them. Both are made anew when their job runs again: the archive is put into
the file store whole, and the base is hidden until it is.
"""

import time
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.backups import backing_up, recovering
from consumers.knowledge.backups.archive import ArchiveRefused
from consumers.knowledge.backups.restoring import Goal, choose
from consumers.knowledge.files.store import FileMissing
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.tasks import Task
from consumers.scratch import scratch
from consumers.services import Services
from contracts.payloads.knowledge import StoreBackup, StoreRestore
from contracts.tasks import TASK_OPEN, TaskStatus
from pipeline import Context, DeadLetter, Skip, on
from pipeline.errors import ConfigurationError

SAY_S: Final = 1.0
"""Between two words on how far it is."""


class _Ended(Exception):  # noqa: N818 - a state of the task
    """The task was stopped."""


async def back_up(job: StoreBackup, ctx: Context[Services]) -> None:
    """Write the archive of a base, keep it, and remove the oldest of too many."""
    services, kb_id, backup_id = ctx.services, job.knowledge_base_id, job.backup_id
    task = await _task(services, backup_id)
    key = backing_up.key_of(kb_id, backup_id)
    if task.status not in TASK_OPEN:
        if task.status is not TaskStatus.COMPLETED:
            await services.files.delete(key)
        return
    said = _Said(ctx, backup_id)
    try:
        with scratch() as folder:
            path = folder / "backup.zip"
            made = await backing_up.write_archive(
                services.database, services.search, services.files, kb_id, path, said
            )
            await services.files.put(key, path)
    except _Ended:
        ctx.log.info("stopped", reason="the task has ended")
        return
    except ConfigurationError as problem:
        await _fail(services, backup_id, str(problem))
        raise Skip(str(problem)) from problem
    message = f"{made.documents} documents, {made.size:,} bytes, SHA-256 {made.sha256}"
    if made.missing:
        message += f"; {made.missing} files were not in the store any more"
    async with services.outbox.transaction(ctx.job) as session:
        detail = {"size": made.size, "sha256": made.sha256, "files_missing": made.missing}
        ours = await tasks.finish(session, backup_id, TaskStatus.COMPLETED, message=message, detail=detail)
        if ours:
            await backing_up.record(session, kb_id, backup_id, made)
    if not ours:
        await services.files.delete(key)
        return
    await backing_up.keep_newest(services.database, services.files, kb_id, services.settings.backups_kept)


async def backup_lost(job: StoreBackup, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook."""
    await _fail(services, job.backup_id, f"task {job.spec.type} {PHRASES[letter.reason]}: {letter.error}")
    await services.files.delete(backing_up.key_of(job.knowledge_base_id, job.backup_id))


async def restore(job: StoreRestore, ctx: Context[Services]) -> None:
    """Make a base of an archive, hidden until it is whole; one that is refused leaves nothing."""
    services = ctx.services
    task = await _task(services, job.task_id)
    if task.status not in TASK_OPEN:
        if task.status is not TaskStatus.COMPLETED:
            await recovering.abandon(services, job.knowledge_base_id)
        await _forget_sent(job, services)
        return
    try:
        async with (
            services.files.local(job.file_key) as path,
            recovering.opened(services, path) as reader,
        ):
            async with services.database.read() as session:
                goal = await choose(session, reader.manifest.base, job.tenant_id, job.name, trusted=False)
            goal = Goal(job.knowledge_base_id, job.tenant_id, goal.name)

            async def shown(session: AsyncSession) -> None:
                detail = {"knowledge_base_id": goal.kb_id, "name": goal.name}
                message, done = f"restored as {goal.name}", TaskStatus.COMPLETED
                if not await tasks.finish(session, job.task_id, done, message=message, detail=detail):
                    raise _Ended

            await recovering.recover(services, reader, goal, _Said(ctx, job.task_id), shown)
    except _Ended:
        await _leave_nothing(job, services)
        return
    except (ArchiveRefused, ConfigurationError, FileMissing) as problem:
        await _fail(services, job.task_id, str(problem))
        await _forget_sent(job, services)
        raise Skip(str(problem)) from problem
    await _forget_sent(job, services)


async def _leave_nothing(job: StoreRestore, services: Services) -> None:
    await recovering.abandon(services, job.knowledge_base_id)
    await _forget_sent(job, services)


async def _forget_sent(job: StoreRestore, services: Services) -> None:
    """Remove an archive that was sent for this restore alone, and not that of a backup."""
    if job.file_key.startswith(tasks.folder(job.task_id)):
        await services.files.delete(job.file_key)


async def restore_lost(job: StoreRestore, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: nothing of the base is left."""
    await _fail(services, job.task_id, f"task {job.spec.type} {PHRASES[letter.reason]}: {letter.error}")
    await _leave_nothing(job, services)


HANDLERS: Final = (
    on(StoreBackup, back_up, on_archived=backup_lost),
    on(StoreRestore, restore, on_archived=restore_lost),
)


class _Said:
    """Lets questions by, says how far it is, once a second, and finds out whether it is still wanted."""

    def __init__(self, ctx: Context[Services], task_id: str) -> None:
        self._ctx, self._task_id, self._at = ctx, task_id, 0.0

    async def __call__(self, what: str, count: int) -> None:
        await self._ctx.services.precedence.give_way()
        if time.monotonic() - self._at < SAY_S:
            return
        self._at = time.monotonic()
        await self._ctx.progress(count, count, what)
        async with self._ctx.services.outbox.transaction(self._ctx.job) as session:
            if not await tasks.advance(session, self._task_id, processed=count, message=f"{what}: {count:,}"):
                raise _Ended


async def _task(services: Services, task_id: str) -> Task:
    async with services.database.read() as session:
        task = await tasks.find(session, None, task_id)
    if task is None:
        raise Skip(f"there is no task {task_id} (any more): start it again")
    return task


async def _fail(services: Services, task_id: str, error: str) -> None:
    async with services.outbox.transaction() as session:
        await tasks.finish(session, task_id, TaskStatus.FAILED, error=error)
