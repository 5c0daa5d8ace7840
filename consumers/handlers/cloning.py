"""`kb:clone`: one knowledge base is made equal to another. What is missing is copied as it is, what is too much removed."""

import asyncio
from collections.abc import Sequence
from typing import Final

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.documents import lifecycle
from consumers.knowledge.documents.removal import remove
from consumers.knowledge.long_work import tasks
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.upkeep import transfers
from consumers.knowledge.upkeep.carrying import copy_document, copy_files
from consumers.knowledge.upkeep.carrying_answers import copy_answers, difference_of_answers, remove_answers
from consumers.knowledge.upkeep.transfers import Conflict, Difference, NoKnowledgeBase
from consumers.services import Services
from contracts.payloads.maintenance import KnowledgeBaseClone
from contracts.tasks import TaskStatus
from pipeline import Context, DeadLetter, Skip, on

TOGETHER: Final = 10
"""Documents removed in one go, and copied at once (facts 1.16)."""


class NotCopied(Exception):  # noqa: N818 - named by what happened
    """Some documents could not be copied; the next run tries what is still missing."""


async def clone_base(job: KnowledgeBaseClone, ctx: Context[Services]) -> None:
    """Copy and remove what differs. Each run begins with what differs now, so it may be killed anywhere and run again."""
    services = ctx.services
    async with services.database.transaction() as session:
        detail = {tasks.SOURCE: job.source_id}
        await tasks.register(
            session, job.task_id, job, tenant_id=job.tenant_id, kb_id=job.target_id, detail=detail
        )
    bases, refusal = await _bases(services, job)
    if bases is None:
        await _end(services, job, TaskStatus.FAILED, error=refusal)
        raise Skip(refusal)
    async with services.database.read() as session:
        due = await transfers.difference(session, job.source_id, job.target_id)
    answers = await difference_of_answers(services.database, job.source_id, job.target_id)
    pass_ = Pass(job, ctx, bases, due, answers)
    if not await pass_.advance("comparing"):
        ctx.log.info("nothing to do", reason="the task has ended")
        return
    await pass_.remove()
    await pass_.copy()
    await pass_.carry_answers()
    if pass_.failed:
        first, why = next(iter(pass_.failed.items()))
        raise NotCopied(f"{len(pass_.failed)} documents were not copied, such as {first}: {why}")
    left_out = f"; {due.left_out} documents that are not complete were left out" if due.left_out else ""
    await _end(services, job, TaskStatus.COMPLETED, message=f"the bases are equal{left_out}")


async def _bases(
    services: Services, job: KnowledgeBaseClone
) -> tuple[tuple[KnowledgeBase, KnowledgeBase] | None, str]:
    """Return source and target; or None, and why that cannot be."""
    try:
        async with services.database.transaction() as session:
            return await transfers.still_possible(session, job.tenant_id, job.source_id, job.target_id), ""
    except NoKnowledgeBase as gone:
        return None, f"the knowledge base {gone.args[0]} is gone"
    except Conflict as conflict:
        return None, str(conflict)


class Pass:
    """One run over what differs."""

    def __init__(
        self,
        job: KnowledgeBaseClone,
        ctx: Context[Services],
        bases: tuple[KnowledgeBase, KnowledgeBase],
        due: Difference,
        answers: Difference,
    ) -> None:
        self._job, self._ctx, self._bases = job, ctx, bases
        self._due, self._answers = due, answers
        self._services = ctx.services
        self._left = self._count = due.count + answers.count
        self.failed: dict[str, str] = {}

    async def advance(self, message: str, done: int = 0) -> bool:
        """Say how far the whole task is; False if it has ended meanwhile."""
        self._left -= done
        async with self._services.database.transaction() as session:
            task = await tasks.find(session, None, self._job.task_id)
            total = max(task.total if task else 0, self._count)
            processed = total - self._left
            await self._ctx.progress(processed, total, message)
            return await tasks.advance(
                session,
                self._job.task_id,
                processed=processed,
                failed=len(self.failed),
                total=total,
                message=message,
            )

    async def remove(self) -> None:
        """Remove what is too much, ten at a time."""
        services, extra = self._services, self._due.extra
        for start in range(0, len(extra), TOGETHER):
            some = extra[start : start + TOGETHER]
            cut = await services.outbox.choose_cut()
            async with services.outbox.transaction(self._ctx.job) as session:
                await lifecycle.condemn(session, self._job.tenant_id, some, cut)
            for ident in some:
                async for _ in remove(services.database, services.search, services.files, ident):
                    pass
            await self._go_on("removing", len(some))

    async def copy(self) -> None:
        """Copy what is missing, ten at once; one that cannot be copied keeps no other from it."""
        turns, missing = asyncio.Semaphore(TOGETHER), self._due.missing

        async def one(ident: str) -> None:
            async with turns:
                why = await self._copied(ident)
                if why:
                    self.failed[ident] = why
                await self._go_on("copying", 1)

        for some in _some(missing):  # no task for each of ten thousand documents at once
            try:
                async with asyncio.TaskGroup() as group:
                    for ident in some:
                        group.create_task(one(ident))
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None

    async def carry_answers(self) -> None:
        """Remove and copy questions with ready answers, some in a transaction."""
        services, index = self._services, self._services.search
        source, target = self._bases
        for some in _some(self._answers.extra):
            async with services.database.transaction() as session:
                await remove_answers(session, index, target, some)
            await self._go_on("removing ready answers", len(some))
        for some in _some(self._answers.missing):
            async with services.database.transaction() as session:
                why = await copy_answers(session, index, some, source, target)
            if why:
                self.failed |= dict.fromkeys(some, why)
            await self._go_on("copying ready answers", len(some))

    async def _go_on(self, message: str, done: int) -> None:
        if not await self.advance(message, done):
            raise Skip("the task has ended")

    async def _copied(self, ident: str) -> str:
        services, new = self._services, transfers.copy_id(self._job.task_id, ident)
        await copy_files(services.files, services.database, ident, new)
        async with services.outbox.transaction() as session:
            why = await copy_document(session, services.search, ident, *self._bases, new)
        if why:
            await services.files.delete(new)
        return why


def _some(idents: Sequence[str]) -> list[Sequence[str]]:
    return [idents[at : at + 10 * TOGETHER] for at in range(0, len(idents), 10 * TOGETHER)]


async def _end(
    services: Services, job: KnowledgeBaseClone, status: TaskStatus, *, message: str = "", error: str = ""
) -> None:
    async with services.database.transaction() as session:
        await transfers.end_clone(session, job, status, message=message, error=error)


async def clone_failed(job: KnowledgeBaseClone, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: what was copied stays, and another copy goes on from there."""
    await _end(services, job, TaskStatus.FAILED, error=f"{PHRASES[letter.reason]}: {letter.error}")


HANDLERS: Final = (on(KnowledgeBaseClone, clone_base, on_archived=clone_failed),)
