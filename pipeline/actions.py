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


def allowed(record: JobRecord) -> tuple[Action, ...]:
    """Return what a person may do: what the state allows (`TRANSITIONS`), and of that what the type allows. A running
    job may be told to stop. A cancel is one of the document, so it takes a type, a tenant and a document.
    """
    running = record.state is states.JobState.ACTIVE
    return tuple(
        action
        for action in Action
        if (states.allowed(record.state, action) or (running and action is Action.CANCEL))
        and (action is not Action.CANCEL or _of_document(record))
    )


def payload(record: JobRecord) -> dict[str, Any]:
    """Return the payload of a job as plain values; none of it where it is not a JSON object."""
    try:
        found = from_json(record.job.data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _of_document(record: JobRecord) -> bool:
    if record.job.type not in DOCUMENT_TYPES:
        return False
    said = payload(record)
    tenant, knowledge = said.get("tenant_id"), said.get("knowledge_id")
    return type(tenant) is int and tenant > 0 and isinstance(knowledge, str) and knowledge != ""
