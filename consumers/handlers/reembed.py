"""Embedding a base anew (facts: the knowledge store). What was embedded is kept after each batch, so a job that is killed,
or waits for the service, goes on where it was.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import numpy as np

from consumers.handlers.phrases import PHRASES
from consumers.knowledge.embedding.embedder import Embedder, ModelUnavailable, TextRefused, Vectors
from consumers.knowledge.embedding.endpoint import EndpointAway, EndpointBusy
from consumers.knowledge.long_work import tasks
from consumers.knowledge.search.store import Lacking
from consumers.knowledge.tables.knowledge import KnowledgeBase
from consumers.knowledge.tables.tasks import Task
from consumers.knowledge.upkeep import reembedding
from consumers.services import Services
from contracts.payloads.knowledge import StoreReembed
from contracts.tasks import TASK_OPEN, TaskStatus
from pipeline import Context, DeadLetter, Skip, Snooze, on

PAGE: Final = 64
"""Vectors stored in one transaction."""
ROUNDS: Final = 1_000
"""Looks for what was written meanwhile; more are not seen to end."""
AWAY_S: Final = 15.0
"""Until a service is asked again that was away. Nobody is failed by an outage: a person may cancel."""


class _Ended(Exception):  # noqa: N818 - a state of the task
    """The task was stopped, or its base is gone: nothing is to be made any more."""


async def reembed(job: StoreReembed, ctx: Context[Services]) -> None:
    """Make the vectors that are lacking, let them serve, and remove those that do not."""
    services = ctx.services
    async with services.database.read() as session:
        task = await tasks.find(session, None, job.task_id)
    if task is None:
        raise Skip(f"there is no task {job.task_id} (any more): start it again")
    try:
        if task.status in TASK_OPEN:
            embedder = services.embedders.get(job.model, job.dimension)
            await _Work(task, embedder, ctx).run()
    except _Ended:
        ctx.log.info("stopped", reason="the task has ended, or its base is gone")
    except (EndpointAway, EndpointBusy) as problem:
        await _say(task, f"waits: {problem}", ctx)
        raise Snooze(getattr(problem, "after", None) or AWAY_S, str(problem)) from problem
    except (ModelUnavailable, TextRefused) as problem:
        await _fail(services, job, str(problem))
        raise Skip(str(problem)) from problem
    await _drop(services, job.knowledge_base_id)


async def reembed_lost(job: StoreReembed, letter: DeadLetter, services: Services) -> None:
    """The final-failure hook: the index that serves goes on, and what was made of the other is removed."""
    await _fail(services, job, f"task {job.spec.type} {PHRASES[letter.reason]}: {letter.error}")


HANDLERS: Final = (on(StoreReembed, reembed, on_archived=reembed_lost),)


class _Work:
    """One run: it counts once what is there, and then what it adds."""

    def __init__(self, task: Task, embedder: Embedder, ctx: Context[Services]) -> None:
        self.task, self.embedder, self.ctx = task, embedder, ctx
        self.kb_id, self.generation = task.knowledge_base_id, int(task.detail["generation"])
        self.index, self.services = ctx.services.search, ctx.services
        self.refused = int(task.detail.get("refused", 0))
        self.done = self.total = 0
        self.said = ""

    async def run(self) -> None:
        """Make what is lacking until the new index can serve. Raises _Ended."""
        for _ in range(ROUNDS):
            await self._count()
            async for space, entries, texts in self._lacking():
                await self._store(space, entries, await self._embedded(texts))
            async with self.services.outbox.transaction(self.ctx.job) as session:
                if await reembedding.swap(session, self.index, self.task):
                    return
        raise RuntimeError("documents are written faster than they can be embedded anew")

    async def _count(self) -> None:
        self.done = self.total = 0
        async with self.services.database.read() as session:
            kb = await session.get(KnowledgeBase, self.kb_id)
            for space in reembedding.spaces(self.kb_id) if kb else ():
                self.done += await self.index.count(session, space, self.generation)
                self.total += await self.index.count(session, space, kb.index_generation if kb else 0)

    async def _lacking(self) -> AsyncIterator[tuple[str, list[Lacking], list[str]]]:
        for space in reembedding.spaces(self.kb_id):
            after = ""
            while True:
                await self.services.precedence.give_way()
                async with self.services.database.read() as session:
                    kb = await session.get(KnowledgeBase, self.kb_id)
                    if kb is None or kb.deleted_at is not None:
                        return
                    entries = await self.index.lacking(
                        session, space, self.generation, serving=kb.index_generation, after=after, limit=PAGE
                    )
                    texts = await reembedding.texts_of(session, entries)
                if not entries:
                    break
                yield space, entries, texts
                after = entries[-1].id

    async def _embedded(self, texts: Sequence[str]) -> Vectors:
        """The vectors, a turn of the encoder at a time: whoever asks a question meanwhile waits for one of them at most."""
        step, parts = getattr(self.embedder, "BATCH", PAGE), []
        for at in range(0, len(texts), step):
            await self.services.precedence.give_way()
            parts.append(await self._turn(texts[at : at + step]))
        if not self.done and self.refused == len(texts):
            raise TextRefused(f"{self.embedder.model} takes none of the texts: {self.said}")
        return np.concatenate(parts)

    async def _turn(self, texts: Sequence[str]) -> Vectors:
        try:
            return await self.embedder.embed(texts)
        except TextRefused as problem:
            self.said = str(problem)
        if len(texts) > 1:  # which of them?
            return np.concatenate([await self._turn([text]) for text in texts])
        self.refused += 1
        return np.zeros((1, self.embedder.dimension), np.float32)  # found by its words

    async def _store(self, space: str, entries: Sequence[Lacking], vectors: Vectors) -> None:
        done, model = self.done + len(entries), self.embedder.model
        self.total = max(self.total, done)
        await self.services.precedence.give_way()
        async with self.services.outbox.transaction(self.ctx.job) as session:
            await self.index.add(session, space, self.generation, model, entries, vectors)
            going = await tasks.advance(
                session,
                self.task.id,
                processed=done,
                total=self.total,
                failed=self.refused,
                message=f"{done:,} of {self.total:,} vectors",
                detail={**self.task.detail, "refused": self.refused},
            )
            if not going:
                raise _Ended
        self.done = done
        await self.ctx.progress(done, self.total, "vectors")


async def _say(task: Task, message: str, ctx: Context[Services]) -> None:
    async with ctx.services.outbox.transaction(ctx.job) as session:
        now: Any = await tasks.find(session, None, task.id)
        if now is not None:
            await tasks.advance(session, task.id, processed=now.processed, total=now.total, message=message)


async def _fail(services: Services, job: StoreReembed, error: str) -> None:
    async with services.outbox.transaction() as session:
        await tasks.finish(session, job.task_id, TaskStatus.FAILED, error=error)
    await _drop(services, job.knowledge_base_id)


async def _drop(services: Services, kb_id: str) -> None:
    """Remove what neither serves nor is being made, part by part."""
    more = 1
    while more:
        async with services.database.transaction() as session:
            more = await reembedding.drop_left_over(session, services.search, kb_id)
