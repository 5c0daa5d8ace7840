"""How a wiki with operations that wait is told that it has work."""

import structlog

from consumers.knowledge import ids
from consumers.knowledge.documents import leftovers
from pipeline import Outbox, Pipeline
from pipeline.store.pending_ops import Backlog

log = structlog.get_logger(component="housekeeping")


async def tell_wiki(
    pipeline: Pipeline, outbox: Outbox, backlog: Backlog, *time: int, dry: bool = False
) -> bool:
    """Tell a wiki that it has work; False if a job of it is under way, or if it was told that `time` before.

    Raises StoreUnavailable.
    """
    lane = backlog.lane
    job_id = ids.rearm_job(lane.task_type, lane.scope_id, *time)
    (told,) = await pipeline.broker.states([job_id])
    if told or await pipeline.inspector.has_queued("knowledge_base", lane.scope_id, {lane.task_type}):
        return False
    if not dry:
        async with outbox.transaction() as session:
            await leftovers.wake(session, backlog, job_id)
        log.warning(
            "a wiki is told that it has work", base=lane.scope_id, type=lane.task_type, waiting=backlog.count
        )
    return True
