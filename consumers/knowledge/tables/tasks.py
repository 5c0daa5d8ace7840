"""The table of long work that people started and watch."""

from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from consumers.knowledge.tables.knowledge import Id, Row, words
from contracts.tasks import TaskStatus


class Task(Row):
    """One task. `kind` is the type of its job, whose results beyond the counts are in `detail`."""

    __tablename__ = "tasks"
    __table_args__ = (
        Index("tasks_knowledge_base", "knowledge_base_id", "kind", "status"),
        Index("tasks_finished", "finished_at"),
    )

    id: Mapped[str] = mapped_column(String(128), primary_key=True)
    kind: Mapped[str] = mapped_column(String(64))
    tenant_id: Mapped[int]
    knowledge_base_id: Mapped[
        Id
    ]  # the one it changes; without a foreign key, for the task tells of what is gone
    status: Mapped[TaskStatus] = mapped_column(words(TaskStatus))
    total: Mapped[int]
    processed: Mapped[int]
    failed: Mapped[int]  # of those processed
    message: Mapped[str]
    error: Mapped[str]
    detail: Mapped[dict[str, Any]]
    created_at: Mapped[int]
    updated_at: Mapped[int]
    finished_at: Mapped[int | None]
