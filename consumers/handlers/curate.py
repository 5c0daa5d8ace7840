"""The graph of a base put into order. What was done is kept with each step, so a job that is killed goes on, and a second
one finds nothing to do.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.graph import curating
from consumers.knowledge.graph.aliases import Group, groups, pairs
from consumers.knowledge.long_work import tasks
from consumers.knowledge.long_work.store_work import lives
from consumers.knowledge.tables.tasks import Task
from consumers.services import Services
from contracts.payloads.knowledge import StoreCurate
from contracts.tasks import TASK_OPEN, TaskStatus
from pipeline import Context, DeadLetter, Skip, on

SHOWN: Final = 100
"""Groups that the report names."""


class _Ended(Exception):  # noqa: N818 - a state of the task
    """The task was stopped, or its base is gone."""


async def curate(job: StoreCurate, ctx: Context[Services]) -> None:
    """Merge names of one thing and relations that say the same, and drop what nothing speaks of; or only say so."""
    async with ctx.services.database.read() as session:
        task = await tasks.find(session, None, job.task_id)
    if task is None:
        raise Skip(f"there is no task {job.task_id} (any more): start it again")
    if task.status in TASK_OPEN:
        try:
            await _Work(job, task, ctx).run()
        except _Ended:
            ctx.log.info("stopped", reason="the task has ended, or its base is gone")


async def curate_lost(job: StoreCurate, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: what was merged stays so."""
    error = f"task {job.spec.type} {PHRASES[letter.reason]}: {letter.error}"
    async with services.outbox.transaction() as session:
        await tasks.finish(session, job.task_id, TaskStatus.FAILED, error=error)


HANDLERS: Final = (on(StoreCurate, curate, on_archived=curate_lost),)


class _Work:
    """One run."""

    def __init__(self, job: StoreCurate, task: Task, ctx: Context[Services]) -> None:
        self.job, self.ctx, self.services = job, ctx, ctx.services
        nothing = {"merged": [], "entities_merged": 0, "relations_merged": 0}
        nothing |= {"relations_dropped": 0, "entities_dropped": 0, "dry_run": job.dry_run}
        self.report: dict[str, Any] = {**nothing, **task.detail}
        self.done = self.total = 0

    async def run(self) -> None:
        """Do all of it. Raises _Ended."""
        if self.job.action != "prune":
            await self._merge()
        if self.job.action != "merge":
            await self._prune()
        told = self.report
        said = (
            f"{told['entities_merged']} names merged, {told['relations_merged']} relations merged,"
            f" {told['entities_dropped']} entities and {told['relations_dropped']} relations dropped"
        )
        if self.job.dry_run:
            said = f"would be: {said}"
        async with self.services.outbox.transaction(self.ctx.job) as session:
            await tasks.finish(session, self.job.task_id, TaskStatus.COMPLETED, message=said, detail=told)

    async def _merge(self) -> None:
        kb_id = self.job.knowledge_base_id
        async with self.services.database.read() as session:
            found = await curating.things(session, kb_id)
        perhaps = await asyncio.to_thread(lambda: list(pairs(found)))
        async with self.services.database.read() as session:
            merged = groups(await curating.sure(session, perhaps))
        self.total = len(merged)
        for group in merged:
            await self._one(group)
        async with self.services.database.read() as session:
            same = await curating.repeated(session, kb_id)
        for some in same:
            await self.services.precedence.give_way()
            async with self.services.outbox.transaction(self.ctx.job) as session:
                gone = len(some) - 1
                if not self.job.dry_run:
                    gone = await curating.merge_relations(session, some)
                await self._note(session, {"relations_merged": self.report["relations_merged"] + gone})

    async def _one(self, group: Group) -> None:
        names = [thing.name for thing, _ in group.others]
        await self.services.precedence.give_way()
        async with self.services.outbox.transaction(self.ctx.job) as session:
            if not self.job.dry_run:
                names = await curating.merge(session, self.job.knowledge_base_id, group)
            self.done += 1
            shown = list(self.report["merged"])
            if names and len(shown) < SHOWN:
                why = sorted({str(why) for _, why in group.others})
                shown.append({"into": group.into.name, "names": names, "why": why})
            count = self.report["entities_merged"] + len(names)
            await self._note(session, {"merged": shown, "entities_merged": count})
        await self.ctx.progress(self.done, self.total, "names")

    async def _prune(self) -> None:
        kb_id = self.job.knowledge_base_id
        while True:
            await self.services.precedence.give_way()
            async with self.services.outbox.transaction(self.ctx.job) as session:
                step = curating.orphans if self.job.dry_run else curating.prune
                relations, entities = await step(session, kb_id)
                counts = {
                    "relations_dropped": self.report["relations_dropped"] + relations,
                    "entities_dropped": self.report["entities_dropped"] + entities,
                }
                await self._note(session, counts)
            if self.job.dry_run or not (relations or entities):
                return

    async def _note(self, session: Any, changes: Mapping[str, Any]) -> None:
        """Say what was done, in the transaction that does it. Raises _Ended."""
        told = {**self.report, **changes}
        going = await tasks.advance(
            session, self.job.task_id, processed=self.done, total=self.total, detail=told
        )
        if not going or not await lives(session, self.job.knowledge_base_id):
            raise _Ended
        self.report = told
