"""What a task that ended half-way has made and nobody will use: its own job once more, which finds that the task has ended,
removes it.
"""

from sqlalchemy.ext.asyncio import AsyncSession

from consumers.knowledge.tables.tasks import Task
from contracts.identity import derive_id
from contracts.jobs import JobPayload
from contracts.payloads.knowledge import StoreBackup, StoreReembed, StoreRestore
from pipeline.store import Outbox


async def clean_up(session: AsyncSession, task: Task) -> None:
    """Ask for the removal of what an ended task has made, where tasks of its kind leave anything."""
    if (job := _job_of(task)) is not None:
        await Outbox.add(session, derive_id(task.id, "clean up"), job)


def _job_of(task: Task) -> JobPayload | None:
    tenant_id, kb_id, told = task.tenant_id, task.knowledge_base_id, task.detail
    match task.kind:
        case StoreBackup.spec.type:
            return StoreBackup(tenant_id=tenant_id, knowledge_base_id=kb_id, backup_id=task.id)
        case StoreReembed.spec.type:
            return StoreReembed(
                tenant_id=tenant_id,
                knowledge_base_id=kb_id,
                task_id=task.id,
                model=told["model"],
                dimension=told["dimension"],
            )
        case StoreRestore.spec.type:
            return StoreRestore(
                tenant_id=tenant_id, knowledge_base_id=kb_id, task_id=task.id, file_key=told["file_key"]
            )
    return None
