"""Active → what each settlement says."""

import sqlite3
from collections.abc import Sequence

from contracts.states import JobState
from contracts.wire import encode_options
from pipeline.backends.lite.deliveries import current
from pipeline.backends.lite.ending import End, count, end
from pipeline.backends.lite.history import happened
from pipeline.backends.lite.transaction import Transaction
from pipeline.broker import Settlement
from pipeline.records import Happened

LATER = frozenset({JobState.RETRY, JobState.SCHEDULED})


def settle(transaction: Transaction, settlements: Sequence[Settlement]) -> list[JobState | None]:
    """Settle what is current; see `Broker.settle`."""
    rows = current(transaction, [one.delivery for one in settlements])
    states: list[JobState | None] = [None] * len(rows)
    ends: list[tuple[int, End]] = []
    later: list[tuple[sqlite3.Row, Settlement]] = []
    for index, (row, said) in enumerate(zip(rows, settlements, strict=True)):
        if row is None:
            continue
        states[index] = state = resolve(said.state, told_to_cancel=bool(row["cancel"]))
        if state in LATER:
            later.append((row, said))
        else:
            ends.append((index, _end(row, said, state)))
    count(
        transaction, [(row["queue"], JobState.RETRY) for row, said in later if said.state is JobState.RETRY]
    )
    for (index, _), state in zip(ends, end(transaction, [one for _, one in ends]), strict=True):
        states[index] = state
    _postpone(transaction, later)
    return states


def resolve(said: JobState, *, told_to_cancel: bool) -> JobState:
    """Return what a settlement comes to: a job that was told to stop is cancelled, unless it is done already."""
    if told_to_cancel and said is not JobState.COMPLETED:
        return JobState.CANCELLED
    return said


def _end(row: sqlite3.Row, said: Settlement, state: JobState) -> End:
    job = said.job
    kept = job.retention_ms if job else 0
    if state is JobState.COMPLETED and kept <= 0:
        return End(row, state)
    worker = said.delivery.consumer
    opts = encode_options(job) if job else None
    return End(
        row, state, opts, said.reason if state is JobState.ARCHIVED else None, said.error, kept, worker
    )


def _postpone(transaction: Transaction, later: Sequence[tuple[sqlite3.Row, Settlement]]) -> None:
    moves = []
    for row, said in later:
        due = transaction.due_at(transaction.now + max(said.delay_ms, 0) + 1)
        opts = encode_options(said.job) if said.job else None
        snoozed = said.state is JobState.SCHEDULED
        moves.append((said.state, opts, due, snoozed, said.error, row["seq"]))
    transaction.run_many("postpone_job", moves)
    for what, state in ((Happened.FAILED, JobState.RETRY), (Happened.SNOOZED, JobState.SCHEDULED)):
        told = [
            (row["seq"], said.error if what is Happened.FAILED else "", said.delivery.consumer)
            for row, said in later
            if said.state is state
        ]
        happened(transaction, what, told)
