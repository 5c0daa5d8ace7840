"""New → pending, scheduled; or a duplicate, or covered by a fence."""

from collections.abc import Sequence

from contracts.jobs import Job
from contracts.states import JobState
from contracts.wire import encode_options
from pipeline.backends.lite.fences import Fences
from pipeline.backends.lite.records import encode_scopes, standing
from pipeline.backends.lite.transaction import Transaction
from pipeline.backends.lite.uniques import contend
from pipeline.broker import NewJob
from pipeline.receipt import Receipt


def enqueue(transaction: Transaction, news: Sequence[NewJob]) -> list[Receipt]:
    """Store what is new. See `Broker.enqueue`."""
    receipts: list[Receipt] = []
    known = standing(transaction, [new.job.id for new in news])
    fences = Fences(transaction)
    fresh: list[tuple[Job, int, bool]] = []
    for new in news:
        state = known.get(new.job.id)
        if state is not None:
            receipts.append(Receipt(new.job.id, state, duplicate=True))
            continue
        due = due_time(new, transaction.now)
        state = JobState.SCHEDULED if due > transaction.now else JobState.PENDING
        job = fences.admit(new.job)
        if job is None:
            state = JobState.CANCELLED
            if new.named:
                transaction.run("dig_tombstone", id=new.job.id, state=state, now=transaction.now)
        elif job.unique is None:
            fresh.append((job, due, new.named))
        else:
            _insert(transaction, fresh)
            fresh.clear()
            if older := contend(transaction, job, due):
                receipts.append(older)
                continue
            _insert(transaction, [(job, due, new.named)])
        known[new.job.id] = state
        receipts.append(Receipt(new.job.id, state))
    _insert(transaction, fresh)
    return receipts


def due_time(new: NewJob, now: int) -> int:
    """Return when a job may run. Part of this millisecond has passed, so a delay ends in the one after."""
    if new.run_at is not None:
        return max(new.run_at, now)
    return now + new.delay_ms + 1 if new.delay_ms > 0 else now


def _insert(transaction: Transaction, fresh: Sequence[tuple[Job, int, bool]]) -> None:
    if not fresh:
        return
    rows, scopes = [], []
    for seq, (job, due, named) in zip(transaction.numbers(len(fresh)), fresh, strict=True):
        waits = due > transaction.now
        if waits:
            transaction.due_at(due)
        else:
            transaction.woken.add(job.queue)
        rows.append(
            (
                seq,
                job.id,
                job.type,
                job.queue,
                "scheduled" if waits else "pending",
                job.data,
                encode_options(job),
                encode_scopes(job),
                int(named),
                job.root_at,
                job.deadline,
                job.unique.key if job.unique else None,
                seq,
                transaction.now,
                due if waits else None,
            )
        )
        scopes += [(scope.kind, scope.id, seq) for scope in job.scopes]
    transaction.run_many("insert_job", rows)
    transaction.run_many("insert_scope", scopes)
