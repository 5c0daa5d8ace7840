"""Imports of questions with ready answers (facts 1.15)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncSession

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.bases.knowledge_bases import keep_base
from consumers.knowledge.embedding.embedder import ModelUnavailable, TextRefused
from consumers.knowledge.faq import storing
from consumers.knowledge.faq.reading import Fault, UnreadableTable, Written, faults_csv, read_table, sift
from consumers.knowledge.files.store import FileMissing, file_key
from consumers.knowledge.long_work import tasks
from consumers.knowledge.search.sides import AGAIN_S, hold
from consumers.knowledge.tables.faq import FAQEntry
from consumers.services import Services
from contracts.payloads.maintenance import FAQImport
from contracts.tasks import TASK_OPEN, TaskStatus
from pipeline import Context, DeadLetter, Skip, Snooze, on, run_in_child

AT_ONCE: Final = 100
"""Entries embedded together, and written in one transaction."""
SHOWN: Final = 100
"""Faults in the answer; the file has all of them."""


class _Refused(Exception):  # noqa: N818 - named as a person would say it
    """Nothing can be imported as things are; its text is one sentence for a person."""


class _Ended(Exception):  # noqa: N818 - a state of the task
    """The task was stopped: nothing is left to do."""


async def import_faq(job: FAQImport, ctx: Context[Services]) -> None:
    """Read, sift and write entries a hundred at a time; killed anywhere and run again, it goes on where it was."""
    services = ctx.services
    try:
        await _import(job, ctx)
    except _Ended:
        ctx.log.info("nothing to do", reason="the task has ended")
    except (UnreadableTable, _Refused, FileMissing) as problem:
        async with services.outbox.transaction(ctx.job) as session:
            await tasks.finish(session, job.task_id, TaskStatus.FAILED, error=str(problem))
        raise Skip(str(problem)) from problem


async def _import(job: FAQImport, ctx: Context[Services]) -> None:
    services = ctx.services
    async with services.database.read() as session:
        task = await tasks.find(session, None, job.task_id)
    if task is None or task.status not in TASK_OPEN:  # before a file is written that nobody would remove
        raise _Ended
    rows = await _rows(job, services)
    good, faults = await asyncio.to_thread(sift, rows)
    faulty = await _faulty(job, services, faults)
    done: dict[str, Any] = {"written": 0, "added": 0, "merged": 0} | task.detail | faulty
    for start in range(int(done["written"]), len(good), AT_ONCE):
        some = good[start : start + AT_ONCE]
        done = await _write(job, ctx, some, len(rows), len(faults), done)
        await ctx.progress(len(faults) + int(done["written"]), len(rows), "entries")
    removed = await _replace(job, services) if job.mode == "replace" and not job.dry_run and good else 0
    await _end(job, ctx, {**done, "removed": removed}, len(rows), len(faults))


async def import_lost(job: FAQImport, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: the task says why; what was written until then stays."""
    said = f"task {job.spec.type} {PHRASES[letter.reason]}: {letter.error}"
    async with services.outbox.transaction() as session:
        await tasks.finish(session, job.task_id, TaskStatus.FAILED, error=said)


HANDLERS: Final = (on(FAQImport, import_faq, on_archived=import_lost),)


async def _rows(job: FAQImport, services: Services) -> Sequence[Mapping[str, Any]]:
    if job.entries is not None:
        return job.entries
    if job.entries_url is None:
        raise UnreadableTable("the import names no entries and no file")
    settings = services.settings
    async with services.reading, services.files.local(job.entries_url) as path:
        try:
            rows: Sequence[Mapping[str, Any]] = await run_in_child(
                read_table,
                path,
                path.name,
                timeout=settings.parser_timeout_s,
                memory_mb=settings.parser_memory_mb,
            )
        except (TimeoutError, MemoryError):
            raise UnreadableTable("the file takes too long or too much memory to read: split it") from None
    return rows


async def _faulty(job: FAQImport, services: Services, faults: Sequence[Fault]) -> dict[str, Any]:
    """What the task tells of the rows that cannot be taken."""
    if not faults:
        return {"failed_entries": [], "failed_entries_url": None}
    data = await asyncio.to_thread(faults_csv, faults)
    key = file_key(tasks.folder(job.task_id), data, "failed.csv")
    await services.files.put(key, data)
    return {"failed_entries": [asdict(fault) for fault in faults[:SHOWN]], "failed_entries_url": key}


async def _write(
    job: FAQImport,
    ctx: Context[Services],
    some: Sequence[Written],
    total: int,
    failed: int,
    done: Mapping[str, Any],
) -> dict[str, Any]:
    """Write some entries, or only count them, and move the task on with them. Raises _Ended, _Refused."""
    services, place = ctx.services, storing.Place(job.tenant_id, job.kb_id, job.task_id)
    async with services.database.read() as session:
        known = await storing.known_entries(
            session, [storing.entry_id(job.kb_id, one.question) for one in some]
        )
    vectors, side = {}, None
    if not job.dry_run:  # before the transaction: nobody waits for the encoder
        try:
            side = await services.side(job.kb_id)
            vectors = await storing.embed_forms(side.embedder, [_now(job, known, one) for one in some])
        except (ModelUnavailable, TextRefused) as problem:
            raise _Refused(str(problem)) from problem
    async with services.outbox.transaction(ctx.job) as session:
        if await keep_base(session, job.kb_id) is None:
            raise _Refused("its knowledge base is gone")
        if side is not None:
            await hold(session, side)
            if job.mode == "append" and await _changed(session, job, some, known):
                raise Snooze(AGAIN_S, "somebody changed an entry that it is about to merge")
            entries = [_now(job, known, one) for one in some]
            await storing.write_entries(session, services.search, place, entries, vectors, side)
        met = sum(storing.entry_id(job.kb_id, one.question) in known for one in some)
        told = {
            **done,
            "written": int(done["written"]) + len(some),
            "merged": int(done["merged"]) + met,
            "added": int(done["added"]) + len(some) - met,
        }
        moved = await tasks.advance(
            session,
            job.task_id,
            processed=failed + told["written"],
            failed=failed,
            total=total,
            detail=told,
        )
        if not moved:
            raise _Ended
    return told


async def _changed(
    session: AsyncSession, job: FAQImport, some: Sequence[Written], known: Mapping[str, FAQEntry]
) -> bool:
    now = await storing.known_entries(session, [storing.entry_id(job.kb_id, one.question) for one in some])
    stamps = ({ident: row.updated_at for ident, row in rows.items()} for rows in (now, known))
    return next(stamps) != next(stamps)


def _now(job: FAQImport, known: Mapping[str, Any], one: Written) -> Written:
    if job.mode == "replace":
        return one
    return storing.merged(known.get(storing.entry_id(job.kb_id, one.question)), one)


async def _replace(job: FAQImport, services: Services) -> int:
    """Remove what the import did not bring."""
    removed = 0
    while True:
        async with services.outbox.transaction() as session:
            old = await storing.left_over(session, job.kb_id, job.task_id, AT_ONCE)
            removed += await storing.delete_entries(session, services.search, job.kb_id, old)
        if not old:
            return removed


async def _end(
    job: FAQImport, ctx: Context[Services], told: Mapping[str, Any], total: int, failed: int
) -> None:
    taken = int(told["written"])
    said = f"{told['added']} added, {told['merged']} merged, {told['removed']} removed, {failed} not taken"
    if job.dry_run:
        said = f"would be: {said}"
    status = TaskStatus.COMPLETED if taken or not total else TaskStatus.FAILED
    why = "no row could be taken" if status is TaskStatus.FAILED else ""
    async with ctx.services.outbox.transaction(ctx.job) as session:
        await tasks.advance(session, job.task_id, processed=total, failed=failed, total=total, detail=told)
        await tasks.finish(session, job.task_id, status, message=said, error=why)
