"""Long work that a person started and watches: a copy, an import, a move. It is known by its task id, which its job carries."""

from enum import StrEnum
from typing import Final


class TaskStatus(StrEnum):
    """Where such work is."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TASK_OPEN: Final = frozenset({TaskStatus.PENDING, TaskStatus.PROCESSING})
"""States that move on by themselves."""
