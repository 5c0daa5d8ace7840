"""`knowledge:list_reparse`: another parse of each of some documents; every one is tried."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.documents import lifecycle
from consumers.knowledge.documents.lifecycle import Step
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.upkeep.several import ProcessConfig
from consumers.services import Services
from contracts.knowledge import DocumentEffect as Effect
from contracts.payloads.maintenance import KnowledgeListReparse
from contracts.tasks import TaskStatus
from pipeline import Context, DeadLetter, Skip, on

DONE: Final = "done"
REFUSED: Final = "refused"
"""The details of a task that say which documents are through: what runs again goes on behind them."""


async def reparse_documents(job: KnowledgeListReparse, ctx: Context[Services]) -> None:
    """Open a new parse of each document. Killed anywhere and run again, each is parsed again once."""
    services = ctx.services
    outbox, total = services.outbox, len(job.knowledge_ids)
    try:
        config = ProcessConfig.model_validate(job.process_config or {})
    except ValidationError as error:
        said = f"its process_config cannot be used: {error.errors()[0]['msg']}"
        await _end(services, ctx.id, TaskStatus.FAILED, {}, said)
        raise Skip(said) from None
    async with services.database.transaction() as session:
        await tasks.register(session, ctx.id, job, tenant_id=job.tenant_id, kb_id="", total=total)
        task = await tasks.find(session, None, ctx.id)
    through = dict(task.detail) if task else {}
    done, refused = list(through.get(DONE, ())), dict(through.get(REFUSED, {}))
    for ident in job.knowledge_ids:
        if ident in done or ident in refused:
            continue
        cut = await outbox.choose_cut()
        async with (
            outbox.transaction() as session
        ):  # a root: the cancel of the old parse is not to cover the new one
            if not await _advance(session, ctx.id, done, refused):
                ctx.log.info("nothing to do", reason="the task has ended")
                return
            step = await _reparse(
                session, job, ident, cut, config, services.settings.document_process_timeout
            )
            if step.ok:
                done.append(ident)
            else:
                refused[ident] = _why(step)
            await _advance(session, ctx.id, done, refused)
        await ctx.progress(len(done) + len(refused), total, "parsing again")
    await _finish(ctx, done, refused)


async def _advance(
    session: AsyncSession, task_id: str, done: Sequence[str], refused: Mapping[str, str]
) -> bool:
    return await tasks.advance(
        session,
        task_id,
        processed=len(done) + len(refused),
        failed=len(refused),
        message="parsing again",
        detail={DONE: list(done), REFUSED: dict(refused)},
    )


async def _reparse(
    session: AsyncSession,
    job: KnowledgeListReparse,
    ident: str,
    cut: int,
    config: ProcessConfig,
    timeout: float | None,
) -> Step:
    row = await session.get(Knowledge, ident)
    kb = await session.get(KnowledgeBase, row.knowledge_base_id) if row else None
    options = config.over(kb, timeout) if kb and job.process_config else None
    return await lifecycle.reparse(session, job.tenant_id, ident, cut, timeout, options=options)


def _why(step: Step) -> str:
    return (
        "there is no such document (any more)" if step.effect is Effect.NOT_FOUND else f"it is {step.status}"
    )


async def _finish(ctx: Context[Services], done: Sequence[str], refused: dict[str, str]) -> None:
    """End the task; of documents that could not be parsed again there is no second pass over the others."""
    detail = {DONE: list(done), REFUSED: refused}
    if not refused:
        await _end(ctx.services, ctx.id, TaskStatus.COMPLETED, detail)
        return
    named = "; ".join(f"{ident}: {why}" for ident, why in refused.items())
    said = f"{len(refused)} of {len(done) + len(refused)} documents were not parsed again: {named}"
    await _end(ctx.services, ctx.id, TaskStatus.FAILED, detail, said)
    raise Skip(said)


async def _end(
    services: Services, task_id: str, status: TaskStatus, detail: dict[str, Any], error: str = ""
) -> None:
    async with services.database.transaction() as session:
        await tasks.finish(session, task_id, status, error=error, detail=detail)


async def reparse_lost(job: KnowledgeListReparse, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: what was opened is parsed all the same."""
    error = f"{job.spec.type} {PHRASES[letter.reason]}: {letter.error}"
    async with services.database.transaction() as session:
        await tasks.finish(session, letter.job_id, TaskStatus.FAILED, error=error)


HANDLERS: Final = (on(KnowledgeListReparse, reparse_documents, on_archived=reparse_lost),)
