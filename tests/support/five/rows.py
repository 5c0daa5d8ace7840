"""How a job type comes to be asked for, is stopped, and is asked for again: a row for each type."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from consumers.desk import Documents
from consumers.knowledge.documents.documents import document
from consumers.knowledge.long_work import tasks
from contracts.knowledge import DocumentEffect, ParseStatus
from contracts.states import JobState
from contracts.tasks import TaskStatus
from pipeline.records import JobRecord
from sqlalchemy import text

from tests.support.five.world import TENANT, World


async def cancel_job(world: World, record: JobRecord) -> bool:
    """Cancel nothing but the job."""
    await world.pipeline.inspector.cancel(record.job.id)
    return await world.ended(record.job.id) is JobState.CANCELLED


async def cancel_document(world: World, record: JobRecord) -> bool:
    """What cancelling a job does that a document waits for."""
    services, ident = world.services, world.payload(record).knowledge_id
    await Documents(services.database, services.outbox).cancel_document(TENANT, ident)
    return (await world.look(document, ident)).parse_status is ParseStatus.CANCELLED


async def cancel_task(world: World, record: JobRecord) -> bool:
    """What the button beside a task does."""
    ident = task_of(world, record)
    effect = await world.do(tasks.cancel, TENANT, ident, await world.services.outbox.choose_cut())
    status = (await world.look(tasks.find, TENANT, ident)).status
    assert status is (TaskStatus.CANCELLED if effect is DocumentEffect.DONE else TaskStatus.COMPLETED)
    return effect is DocumentEffect.DONE


def task_of(world: World, record: JobRecord) -> str:
    job = world.payload(record)
    ident: str = getattr(job, "task_id", None) or getattr(job, "backup_id", None) or record.job.id
    return ident


async def send_again(world: World, record: JobRecord) -> None:
    """Send the same payload once more, as another job."""
    await world.pipeline.enqueue(world.payload(record))


@dataclass(frozen=True)
class Row:
    """One job type."""

    type: str
    begin: Callable[[World], Awaitable[object]]
    """Bring the world to where one job of this type waits."""
    stop: Callable[[World, JobRecord], Awaitable[bool]] = cancel_job
    """Stop it as a person does; False where that came too late."""
    again: Callable[[World, JobRecord], Awaitable[object]] = send_again
    """Ask again after it was stopped; False where nothing is left to do."""
    needs: Mapping[str, float] = field(default_factory=lambda: {"database": 0.25})
    """What it depends on, and after which part of its awaits that goes away."""
    alone: bool = False
    """Whether another job with the same payload is another request, which is to have another effect."""
    unreadable: Callable[[World], Awaitable[object]] | None = None
    """Bring the world to where a job waits that has to read what nobody can, if jobs of this type read anything."""


DATABASE: Final = {"database": 0.25}
FILES: Final = {"database": 0.25, "files": 0.0}
VECTORS: Final = {"database": 0.25, "embedder": 0.0}
ALL: Final = {"database": 0.25, "files": 0.0, "embedder": 0.0}


async def housekept(world: World, _record: JobRecord) -> bool:
    """Long afterwards housekeeping finds what was not finished."""
    for statement in (
        "UPDATE tasks SET updated_at = 1",
        "UPDATE knowledge_bases SET deleted_at = 1 WHERE deleted_at IS NOT NULL",
    ):
        await world.do(lambda session, said=statement: session.execute(text(said)))
    await world.services.housekeeping.sweep()
    return bool(await world.rows("SELECT id FROM knowledge_bases WHERE deleted_at IS NOT NULL"))
