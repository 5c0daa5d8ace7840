"""What a person may do to a job, and what came of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic_core import from_json

from contracts import states
from contracts.fences import COVERAGE
from pipeline.records import JobRecord


class Action(StrEnum):
    """What a person may do to a job."""

    CANCEL = "cancel"
    RUN_NOW = "run_now"
    DELETE = "delete"


class Effect(StrEnum):
    """What an action did to one job."""

    CANCELLED = "cancelled"
    SIGNALLED = "signalled"
    """It runs, and was told to stop."""
    TOO_LATE = "too_late"
    """It had ended already."""
    RUN = "run"
    DELETED = "deleted"
    NOT_FOUND = "not_found"
    NOT_ALLOWED = "not_allowed"
    """Its state, or what it belongs to, does not let it."""


@dataclass(frozen=True, slots=True)
class Done:
    """What an action truly did to each job, and where to go on, None at the end."""

    effects: dict[str, Effect]
    next_cursor: str | None = None


DOCUMENT_TYPES: Final = COVERAGE["knowledge"].only or frozenset()
"""Job types that are cancelled with their document (facts 3.6)."""
BY_SCOPE: Final = frozenset(
    {
        "datasource:sync",
        "datatable:summary",
        "faq:import",
        "index:delete",
        "kb:clone",
        "kb:delete",
        "kb:profile",
        "knowledge:auto_tag",
        "knowledge:list_delete",
        "knowledge:list_reparse",
        "knowledge:move",
        "memory:extract",
        "temporary_document:process",
        "wiki:finalize",
        "wiki:ingest",
    }
)
"""The other job types of the platform: they are cancelled with what they belong to, not one by one (facts 3.6)."""


def allowed(record: JobRecord) -> tuple[Action, ...]:
    """Return what a person may do: what the state allows (`TRANSITIONS`), and of that what the type allows. A running
    job may be told to stop. A cancel of a document's job is one of the document, so it takes a tenant and a document.
    """
    running = record.state is states.JobState.ACTIVE
    return tuple(
        action
        for action in Action
        if (states.allowed(record.state, action) or (running and action is Action.CANCEL))
        and (action is not Action.CANCEL or _is_cancelled_by_itself(record))
    )


def cancellable(job_type: str) -> bool:
    """Whether jobs of a type are cancelled one by one, those of a document with it."""
    return job_type not in BY_SCOPE


def payload(record: JobRecord) -> dict[str, Any]:
    """Return the payload of a job as plain values; none of it where it is not a JSON object."""
    try:
        found = from_json(record.job.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def of_document(record: JobRecord) -> bool:
    """Whether a cancel of this job is one of the document that waits for it."""
    return record.job.type in DOCUMENT_TYPES


def _is_cancelled_by_itself(record: JobRecord) -> bool:
    if not of_document(record):
        return cancellable(record.job.type)
    said = payload(record)
    tenant, knowledge = said.get("tenant_id"), said.get("knowledge_id")
    return type(tenant) is int and tenant > 0 and isinstance(knowledge, str) and knowledge != ""
