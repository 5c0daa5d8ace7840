"""Seeing and steering, for people and tools: the broker's verbs with names instead of types."""

from collections.abc import Iterable
from typing import Final

from contracts.fences import coverage
from contracts.jobs import Scope
from contracts.options import check_count
from contracts.states import JobState
from contracts.topology import queue as known_queue
from pipeline.broker import Broker, CancelOutcome, ScopeCancel
from pipeline.errors import ConfigurationError, JobNotFound
from pipeline.records import ANY, JobRecord, Page, QueueStat, TaskFilter, WorkerBeat

PAGE: Final = 20
LONGEST_PAGE: Final = 100


class Inspector:
    """Every method raises StoreUnavailable; one that takes a queue raises UnknownNameError for one that is not."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def queues(self) -> list[QueueStat]:
        """Return one row a queue, in registry order."""
        return await self._broker.queue_stats()

    async def workers(self) -> list[WorkerBeat]:
        """Return the worker processes that live."""
        return await self._broker.workers()

    async def tasks(
        self,
        queue: str,
        state: JobState,
        cursor: str | None = None,
        page_size: int = PAGE,
        *,
        match: TaskFilter = ANY,
    ) -> Page:
        """Return one page of the jobs of a queue in a state; at most 100.

        Raises CursorInvalid, CursorExpired, ConfigurationError (a page of no job).
        """
        try:
            size = min(check_count(page_size, "page_size", least=1), LONGEST_PAGE)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(str(error)) from None
        return await self._broker.tasks(
            known_queue(queue).name, JobState(state), cursor=cursor, limit=size, match=match
        )

    async def job(self, job_id: str) -> JobRecord:
        """Return one job. Raises JobNotFound when there is none (any more)."""
        record = await self._broker.job(job_id)
        if record is None:
            raise JobNotFound(f"no job {job_id} (any more): done jobs are kept for their retention only")
        return record

    async def cancel(self, job_id: str) -> CancelOutcome:
        """Cancel one job; an active one is told to stop."""
        (outcome,) = await self._broker.cancel([job_id])
        return outcome

    async def cancel_scope(self, kind: str, id: str, types: Iterable[str] | None = None) -> ScopeCancel:  # noqa: A002
        """Cancel what a scope has, and what its jobs would still enqueue."""
        covered = coverage(kind, None if types is None else frozenset(types))
        return await self._broker.cancel_scope(Scope(kind, id), covered)

    async def has_queued(self, kind: str, id: str, types: Iterable[str] | None = None) -> bool:  # noqa: A002
        """Whether a scope has a job that is not ended."""
        return await self._broker.has_queued(Scope(kind, id), None if types is None else frozenset(types))

    async def queued_ids(self, kind: str, types: Iterable[str] | None = None) -> set[str]:
        """Return the ids of this kind of scope that have a job that is not ended."""
        return await self._broker.queued_ids(kind, None if types is None else frozenset(types))

    async def run_now(self, job_id: str) -> None:
        """Make a waiting or archived job pending. Raises JobNotFound, NotAllowed."""
        await self._broker.run_now(job_id)

    async def delete(self, job_id: str) -> None:
        """Remove an ended job. Raises JobNotFound, NotAllowed."""
        await self._broker.delete(job_id)

    async def purge(self, queue: str) -> int:
        """Remove all archived jobs of a queue; return how many."""
        return await self._broker.purge(known_queue(queue).name)

    async def pause(self, queue: str) -> None:
        """Let a queue start nothing."""
        await self._broker.pause(known_queue(queue).name)

    async def resume(self, queue: str) -> None:
        """Undo a pause."""
        await self._broker.resume(known_queue(queue).name)
