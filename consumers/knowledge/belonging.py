"""Whose things a job names: those of another tenant it does not touch, whoever sent it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Select, select, union_all

from consumers.knowledge.tables.attachments import Attachment
from consumers.knowledge.tables.knowledge import Knowledge, KnowledgeBase
from consumers.knowledge.tables.sources import DataSource
from consumers.knowledge.tables.tasks import Task
from contracts.jobs import JobPayload
from contracts.outcomes import Outcome, Skip
from pipeline import Context, Database, Handler

NAMES: Final[Mapping[str, Any]] = {
    "knowledge_base_id": KnowledgeBase,
    "kb_id": KnowledgeBase,
    "source_id": KnowledgeBase,
    "target_id": KnowledgeBase,
    "source_kb_id": KnowledgeBase,
    "target_kb_id": KnowledgeBase,
    "knowledge_id": Knowledge,
    "knowledge_ids": Knowledge,
    "document_id": Attachment,
    "data_source_id": DataSource,
    "task_id": Task,
    "backup_id": Task,
}
"""By the field of a payload, what it names."""


def guarded(*handlers: Handler) -> tuple[Handler, ...]:
    """Return the handlers, which give up a job that names what is another tenant's before they run."""
    return tuple(map(_guarded, handlers))


def _guarded(handler: Handler) -> Handler:
    run: Any = handler.run
    fields = [name for name in handler.payload.model_fields if name in NAMES]

    async def checked(job: Any, ctx: Context[Any]) -> Outcome | None:
        if strange := await another_tenants(ctx.services.database, job, fields):
            raise Skip(f"{strange} is another tenant's")
        said: Outcome | None = await run(job, ctx)
        return said

    return replace(handler, run=checked)


async def another_tenants(database: Database, job: JobPayload, fields: list[str]) -> str:
    """Return the id of something that these fields name and that is another tenant's; "" where there is none."""
    named = [(NAMES[name], value) for name in fields if (value := getattr(job, name))]
    if not named:
        return ""
    async with database.read() as session:
        found = await session.scalar(union_all(*[_strange(job, *one) for one in named]).limit(1))
    return str(found or "")


def _strange(job: Any, table: Any, value: str | tuple[str, ...]) -> Select[tuple[str]]:
    idents = (value,) if isinstance(value, str) else value
    return select(table.id).where(table.id.in_(idents), table.tenant_id != job.tenant_id)
