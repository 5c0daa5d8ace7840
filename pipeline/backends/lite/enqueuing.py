"""New → pending, scheduled; or a duplicate, or covered by a fence."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

from contracts.states import JobState
from contracts.wire import encode_options
from pipeline.backends.lite.fences import Fences
from pipeline.backends.lite.newcomer import Newcomer
from pipeline.backends.lite.operations import Joint
from pipeline.backends.lite.records import standing
from pipeline.backends.lite.transaction import Transaction
from pipeline.backends.lite.uniques import contend
from pipeline.broker import NewJob
from pipeline.receipt import Receipt


@dataclass(frozen=True, slots=True)
class Enqueue(Joint[list[Receipt]]):
    """Stores what is new; see `Broker.enqueue`. Those that wait for the writer are stored together, as one batch."""

    news: Sequence[NewJob]

    def __call__(self, transaction: Transaction) -> list[Receipt]:
        return enqueue(transaction, self.news)

    @classmethod
    def together(cls, transaction: Transaction, operations: Sequence[Self]) -> list[list[Receipt]]:
        receipts = iter(enqueue(transaction, [new for one in operations for new in one.news]))
        return [list(islice(receipts, len(one.news))) for one in operations]


def enqueue(transaction: Transaction, news: Sequence[NewJob]) -> list[Receipt]:
    """Store what is new and return a receipt for each."""
    known = standing(transaction, [new.job.id for new in news])
    fences = Fences(transaction)
    receipts: list[Receipt] = []
    fresh: list[Newcomer] = []
    roots: list[int] = []
    for new in news:
        job_id = new.job.id
        if job_id in known:
            receipts.append(Receipt(job_id, known[job_id], duplicate=True))
            continue
        root_at = fences.root(new.job)
        if root_at is None:
            known[job_id] = JobState.CANCELLED
            grave = (job_id, JobState.CANCELLED, transaction.now, new.named)
            transaction.run_many("dig_tombstone", [grave])
        else:
            roots.append(root_at)
            newcomer = _admit(new, root_at, transaction.now)
            if (unique := new.job.unique) is not None:
                _insert(transaction, fresh)  # they may hold the key
                fresh.clear()
                if older := contend(transaction, newcomer, unique):
                    receipts.append(older)
                    continue
            fresh.append(newcomer)
            known[job_id] = JobState.SCHEDULED if newcomer.due > transaction.now else JobState.PENDING
        receipts.append(Receipt(job_id, known[job_id]))
    _insert(transaction, fresh)
    transaction.run("note_root", root_at=max(roots, default=0))
    return receipts


def due_time(new: NewJob, now: int) -> int:
    """Return when a job may run. Part of this millisecond has passed, so a delay ends in the one after."""
    if new.run_at is not None:
        return max(new.run_at, now)
    return now + new.delay_ms + 1 if new.delay_ms > 0 else now


def _admit(new: NewJob, root_at: int, now: int) -> Newcomer:
    job = new.job
    root_id = json.dumps(job.root_id or job.id)
    # Added as text, which is much faster than a new envelope; of equal keys the later one counts.
    opts = f'{encode_options(job)[:-1]},"root_id":{root_id},"root_at":{root_at},"enqueued_at":{now}}}'
    return Newcomer(job, opts, root_at, due_time(new, now), named=new.named)


def _insert(transaction: Transaction, fresh: Sequence[Newcomer]) -> None:
    if not fresh:
        return
    now = transaction.now
    numbered = list(zip(transaction.numbers(len(fresh)), fresh, strict=True))
    transaction.run_many("insert_job", [one.row(seq, now) for seq, one in numbered])
    scopes = [(scope.kind, scope.id, seq) for seq, one in numbered for scope in one.job.scopes]
    transaction.run_many("insert_scope", scopes)
    for one in fresh:
        if one.due > now:
            transaction.due_at(one.due)
        else:
            transaction.woken.add(one.job.queue)
