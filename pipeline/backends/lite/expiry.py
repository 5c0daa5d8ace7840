"""Waiting jobs whose deadline has passed."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from contracts.states import ArchiveReason, JobState
from pipeline.backends.lite.ending import End, end
from pipeline.backends.lite.transaction import Transaction

EXPIRED: Final = "its deadline passed while it waited"


def weed(transaction: Transaction, rows: Sequence[sqlite3.Row]) -> list[sqlite3.Row]:
    """Archive those of these waiting jobs that have expired, and return the others."""
    late: list[sqlite3.Row] = []
    fit: list[sqlite3.Row] = []
    for row in rows:
        expired = row["deadline"] is not None and row["deadline"] < transaction.now
        (late if expired else fit).append(row)
    if late:
        end(transaction, [End(row, JobState.ARCHIVED, None, ArchiveReason.EXPIRED, EXPIRED) for row in late])
    return fit
