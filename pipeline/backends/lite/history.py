"""What the record of a job remembers: the last things that happened to it; nothing where it just completes."""

import json
from collections.abc import Iterable
from typing import Final

from contracts.wire import cut
from pipeline.backends.lite.transaction import Transaction
from pipeline.records import Happened

ERROR_BYTES: Final = 512


def happened(transaction: Transaction, what: Happened, jobs: Iterable[tuple[int, str, str]]) -> None:
    """Note the same of jobs, each a number, an error and who had it."""
    notes = [
        (json.dumps([transaction.now, what, cut(error, ERROR_BYTES), worker]), seq)
        for seq, error, worker in jobs
    ]
    transaction.run_many("note_happening", notes)
