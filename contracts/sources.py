"""Sources that documents are harvested from: their states, those of their runs, and those of what lies in them."""

from enum import StrEnum
from typing import Final


class SourceStatus(StrEnum):
    """Whether a source is looked at."""

    ACTIVE = "active"
    """Its schedule runs, and people can run it."""
    PAUSED = "paused"
    """Nothing runs until a person resumes it; a run under way ends by itself."""
    DELETING = "deleting"
    """Being removed with its documents; its row goes last."""


class SyncMode(StrEnum):
    """What a run of a source does."""

    FULL = "full"
    INCREMENTAL = "incremental"
    PARTIAL_RESYNC = "partial-resync"
    DLQ_RETRY = "dlq-retry"
    RECONCILE = "reconcile"
    HEALTH = "health"


class SyncState(StrEnum):
    """Where a run of a source is."""

    RUNNING = "running"
    """Waiting for a worker, or being worked on."""
    SUCCESS = "success"
    """Everything was looked at, and nothing failed."""
    PARTIAL = "partial"
    """Some items failed; the others are in step."""
    FAILED = "failed"
    """Given up: the source could not be read, or every item failed."""
    CANCELED = "canceled"
    """A person stopped it, or there was nothing to run any more."""


class ItemState(StrEnum):
    """Where one thing of a source is."""

    SYNCED = "synced"
    """Its document has its content."""
    FAILED = "failed"
    """It could not be fetched or taken in; `error` says why."""
    HELD = "held"
    """It may be another one that was renamed: known at the end of the listing."""


ERRORS_KEPT: Final = 100
"""Errors that the log of a run holds; all of them are counted."""
